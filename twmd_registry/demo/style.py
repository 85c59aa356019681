"""The page's own style; it brings no font, script or picture from elsewhere."""

from __future__ import annotations

from twmd_registry.report.picture_html import DARK, LIGHT, TABLES

STYLE = f"""
.twmd-plan {{ {LIGHT} color: var(--ink); --page: var(--background-fill-primary);
  p {{ margin: .5rem 0; }} h2 {{ font-size: 1rem; font-weight: 600; margin: 1rem 0 .3rem; }}
  {TABLES}
  table, th, td {{ border-width: 0; line-height: 1.2; }}
  td {{ border-right: 1px solid var(--line); border-bottom: 1px solid var(--line); }}
  .scroll {{ width: fit-content; max-width: 100%; }}
}}
@media (max-width: 600px) {{
  .twmd-table table {{ font-size: 13px; }} .twmd-table th, .twmd-table td {{ padding: .3rem; }}
  .twmd-plan thead th:first-child, .twmd-plan tfoot th {{ white-space: normal; min-width: 6rem; max-width: 6rem; }}
}}
.dark .twmd-plan {{ {DARK} --page: var(--background-fill-primary); }}
.twmd-error, .twmd-notice {{ margin: .25rem 0; padding: .4rem .7rem; border-left: 4px solid; border-radius: 4px; overflow-wrap: anywhere;
  color: var(--body-text-color); background: var(--background-fill-secondary); }}
.twmd-error {{ border-color: #d4351c; }} .twmd-notice {{ border-color: #b58900; }}
.twmd-histograms {{ display: flex; flex-wrap: wrap; gap: 1.5rem; color: var(--body-text-color);
  figure {{ flex: 1 1 15rem; max-width: 22rem; margin: 0; }} figcaption {{ font-size: .85rem; margin-bottom: .3rem; }}
  svg {{ width: 100%; height: auto; }} rect {{ fill: #3b82c4; }} text {{ fill: currentColor; font-size: 12px; }}
}}
.twmd-table {{ overflow-x: auto; color: var(--body-text-color);
  table {{ border-collapse: collapse; width: 100%; font-size: 14px; }}
  th, td {{ padding: .35rem .5rem; text-align: left; vertical-align: top; border: 0 solid var(--border-color-primary); border-bottom-width: 1px; }}
  th {{ font-weight: 600; white-space: nowrap; }}
}}
.twmd-table.numbers {{ td {{ white-space: nowrap; font-variant-numeric: tabular-nums; }}
  th:not(:first-child), td:not(:first-child) {{ text-align: right; }} }}
.twmd-table.words td {{ overflow-wrap: anywhere; min-width: 5rem; }}
.gradio-container {{ width: 100% !important; max-width: 1200px !important; margin: 0 auto !important; }}
"""
