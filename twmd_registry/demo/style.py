"""The page's own style; it brings no font, script or picture from elsewhere."""

from __future__ import annotations

from twmd_registry.report.template import render

STYLE = f"""
.twmd-plan {{ {render("light.css")} color: var(--ink); --page: var(--background-fill-primary);
  p {{ margin: .5rem 0; }} h2 {{ font-size: 1rem; font-weight: 600; margin: 1rem 0 .3rem; }}
  {render("alignment.css")}
  table, th, td {{ border-width: 0; line-height: 1.2; }}
  td {{ border-right: 1px solid var(--line); border-bottom: 1px solid var(--line); }}
  .plan {{ width: fit-content; max-width: 100%; }}
}}
.dark .twmd-plan {{ {render("dark.css")} --page: var(--background-fill-primary); }}
.twmd-error, .twmd-notice {{ margin: .25rem 0; padding: .4rem .7rem; border-left: 4px solid; border-radius: 4px; overflow-wrap: anywhere;
  color: var(--body-text-color); background: var(--background-fill-secondary); }}
.twmd-error {{ border-color: #d4351c; }} .twmd-notice {{ border-color: #b58900; }}
.twmd-histograms {{ display: flex; flex-wrap: wrap; gap: 1.5rem; color: var(--body-text-color);
  figure {{ flex: 1 1 15rem; max-width: 22rem; margin: 0; }} figcaption {{ font-size: .85rem; margin-bottom: .3rem; }}
  svg {{ width: 100%; height: auto; }} .axis {{ stroke: currentColor; }} .line {{ fill: #3b82c4; fill-opacity: .5; stroke: #3b82c4; }}
  text {{ fill: currentColor; font-size: 12px; }}
}}
.twmd-table {{ overflow-x: auto; color: var(--body-text-color);
  table {{ border-collapse: collapse; width: 100%; font-size: 14px; }}
  table, tr, th, td {{ border: 0 solid var(--border-color-primary) !important; }}  /* Gradio's own are black */
  table tr th, table tr td {{ padding: .35rem .5rem; text-align: left; vertical-align: top; }}
  table tr {{ border-bottom-width: 1px !important; }}
  table tr th {{ font-weight: 600; white-space: nowrap; }}
}}
.twmd-table.numbers {{
  table tr td {{ white-space: nowrap; font-variant-numeric: tabular-nums; }}
  table tr th:not(:first-child), table tr td:not(:first-child) {{ text-align: right; }}
}}
.twmd-table.words {{
  table tr td {{ overflow-wrap: anywhere; }}
  table tr td:first-child {{ white-space: nowrap; }}
}}
#notices:not(:has(p)), #file-notices:not(:has(p)), #signature-notices:not(:has(p)) {{ display: none; }}
.gradio-container {{ width: 100% !important; max-width: 1200px !important; margin: 0 auto !important; }}
@media (max-width: 600px) {{
  .twmd-plan .plan thead th:first-child, .twmd-plan .plan tfoot th {{ white-space: normal; min-width: 6rem; max-width: 6rem; }}
  .twmd-table.numbers {{ table {{ font-size: 12px; }} table tr th, table tr td {{ padding: .3rem .2rem; }}
    table tr td:first-child {{ white-space: normal; overflow-wrap: anywhere; min-width: 5.5rem; }} }}
  .twmd-table.words {{
    thead {{ display: none; }}
    table tr {{ display: grid; grid-template-columns: 7.5rem 1fr; padding: .3rem 0; }}
    table tr td {{ padding: .1rem .3rem; }}
    table tr td:nth-child(3) {{ grid-column: 1 / -1; }} table tr td:nth-child(4) {{ grid-column: 1 / -1; opacity: .75; }}
    table tr td:nth-child(4):not(:empty)::before {{ content: "default: "; }}
  }}
}}
"""
