
"use strict";
(() => {
  const PAGE = 25;
  const MARGINS = 120;
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const segments = data.references.length;
  const state = { text: "", of: 0, key: "segment", falling: false, page: 0 };

  // Whatever comes from a file is put in as text, here and nowhere else; no markup is ever made of it.
  const make = (tag, text = "", attributes = {}) => {
    const element = document.createElement(tag);
    element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };

  // Plain and marked parts of a text by turns.
  const textCell = (parts, facts = []) => {
    const cell = make("td", "", { class: "text", dir: "auto" });
    cell.append(...parts.map((text, i) => make(i % 2 ? "mark" : "span", text, i % 2 && facts.includes(text.toLowerCase()) ? { class: "fact" } : {})));
    return cell;
  };

  const numberCell = (value, digits) => (value === null ? make("td", "undefined", { class: "undefined" }) : make("td", value.toFixed(digits)));

  const known = (values) => (values.every((value) => value !== null) ? values : null);

  const heads = () => [["segment", "segment"], [null, "text"], ...data.metrics.map((metric, k) => [k, metric.name, metric.direction]), ["apart", "metrics' disagreement"]];

  const givenRow = (name, parts, facts) => {
    const row = make("tr", "", { class: "reference" });
    row.append(make("th", name, { scope: "row" }), textCell(parts, facts), make("td", "", { colspan: data.metrics.length + 1 }));
    return row;
  };

  const givenRows = (segment) => [
    ...(data.sources ? [givenRow("source", [data.sources[segment]])] : []),
    ...data.references[segment].map((parts) => givenRow("reference", parts, data.facts[segment])),
  ];

  const systemRows = (segment) =>
    data.systems.map((name, i) => {
      const row = make("tr");
      row.append(make("th", name, { scope: "row" }), textCell(data.predictions[i][segment], data.facts[segment]));
      data.metrics.forEach((metric, k) => row.append(numberCell(data.scores[k][i][segment], metric.digits)));
      row.append(numberCell(data.apart[i][segment], 2));
      return row;
    });

  const body = (segment, linked) => {
    const group = make("tbody", "", { "data-segment": segment + 1 });
    const rows = [...givenRows(segment), ...systemRows(segment)];
    const first = rows[0].firstChild;
    const name = `segment ${segment + 1}: ${first.textContent}`;
    first.textContent = linked ? "" : name;
    group.classList.toggle("open", !linked);
    if (linked) {
      const button = make("button", name, { type: "button", "aria-expanded": "false" });
      button.addEventListener("click", () => button.setAttribute("aria-expanded", group.classList.toggle("open")));
      first.append(button);
      if (state.of < data.systems.length) {
        const cells = [...data.metrics.map((metric, k) => numberCell(data.scores[k][state.of][segment], metric.digits)), numberCell(data.apart[state.of][segment], 2)];
        rows[0].lastChild.replaceWith(...cells);
      }
    }
    if (linked && data.pictured.includes(segment)) first.append(make("br"), make("a", "alignment", { href: `#segment-${segment + 1}` }));
    group.append(...rows);
    return group;
  };

  const head = (sortable) => {
    const row = make("tr");
    for (const [key, name, direction] of heads()) {
      const cell = make("th", sortable && key !== null ? "" : name, { scope: "col", ...(key === null && { class: "text" }) });
      if (sortable && key !== null) {
        const button = make("button", name, { type: "button" });
        button.addEventListener("click", () => sortBy(key));
        cell.dataset.key = key;
        cell.append(button);
      }
      if (direction) cell.append(" ", make("small", direction));
      row.append(cell);
    }
    const top = make("thead");
    top.append(row);
    return top;
  };

  // What a segment is sorted by; null, where that is undefined, comes last in either order.
  const sortValue = (segment) => {
    if (state.key === "segment") return segment;
    const values = state.key === "apart" ? data.apart : data.scores[state.key];
    if (state.of < data.systems.length) return values[state.of][segment];
    const all = known(values.map((own) => own[segment]));
    return all && Math.max(...all) - Math.min(...all);
  };

  const searched = data.references.map((texts, segment) => {
    const marked = [...texts, ...data.predictions.map((own) => own[segment])].map((parts) => parts.join(""));
    return [...(data.sources ? [data.sources[segment]] : []), ...marked].join("\n").toLowerCase();
  });

  const chosen = () => {
    const wanted = state.text.toLowerCase();
    const kept = [...searched.keys()].filter((segment) => searched[segment].includes(wanted));
    const values = new Map(kept.map((segment) => [segment, sortValue(segment)]));
    const sign = state.falling ? -1 : 1;
    return kept.sort((a, b) => {
      const [x, y] = [values.get(a), values.get(b)];
      if (x === null || y === null) return (x === null) - (y === null) || a - b;
      return sign * (x - y) || a - b;
    });
  };

  const show = (whole = false) => {
    const found = chosen();
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    state.page = Math.min(state.page, pages - 1);
    const shown = whole ? found : found.slice(state.page * PAGE, (state.page + 1) * PAGE);
    const table = byId("table");
    table.querySelectorAll("tbody").forEach((group) => group.remove());
    table.append(...shown.map((segment) => body(segment, true)));
    for (const cell of table.tHead.rows[0].cells) {
      if (cell.dataset.key === String(state.key)) cell.setAttribute("aria-sort", state.falling ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
    byId("found").textContent = `${found.length} of ${segments} segments`;
    byId("page").textContent = `page ${state.page + 1} of ${pages}`;
    byId("previous").disabled = state.page === 0;
    byId("next").disabled = state.page === pages - 1;
  };

  const sortBy = (key) => {
    state.falling = state.key === key && !state.falling;
    state.key = key;
    state.page = 0;
    show();
  };

  const turn = (step) => {
    state.page += step;
    show();
    byId("segments").scrollIntoView();
  };

  const copy = async (button) => {
    const text = byId(button.dataset.copy).textContent;
    const says = button.nextElementSibling;
    try {
      await navigator.clipboard.writeText(text);
      says.textContent = "copied";
    } catch {
      says.textContent = "this browser keeps the clipboard from the page";
    }
  };

  // Paper turns no pages and scrolls nothing: print every segment that the filter keeps and what is closed, on pages as wide as the widest table.
  const print = () => {
    const closed = document.querySelectorAll("details:not([open])");
    closed.forEach((one) => { one.open = true; });
    show(true);
    const width = Math.max(MARGINS + 680, ...[...document.querySelectorAll("table")].map((table) => MARGINS + table.scrollWidth));
    const paper = make("style", `@page { size: ${width}px ${Math.round(width * Math.SQRT2)}px; }`);
    document.head.append(paper);
    const restore = () => { paper.remove(); closed.forEach((one) => { one.open = false; }); show(); };
    window.addEventListener("afterprint", restore, { once: true });
  };

  // A table that is wider than its box says so.
  const hint = () => document.querySelectorAll(".scroll").forEach((box) => {
    const wide = box.scrollWidth > box.clientWidth + 1;
    box.classList.toggle("wide", wide);
    box.querySelectorAll(".hint").forEach((one) => { one.hidden = !wide; });
  });

  byId("table").append(head(true));
  const choices = data.systems.length > 1 ? [...data.systems, "the difference between systems"] : data.systems;
  byId("of").append(...choices.map((name, i) => make("option", name, { value: i })));
  byId("filter").addEventListener("input", (event) => { state.text = event.target.value; state.page = 0; show(); });
  byId("of").addEventListener("change", (event) => { state.of = Number(event.target.value); state.page = 0; show(); });
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("previous").addEventListener("click", () => turn(-1));
  byId("next").addEventListener("click", () => turn(1));
  document.querySelectorAll("table[data-segment]").forEach((table) => table.append(head(false), body(Number(table.dataset.segment) - 1, false)));
  document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", () => copy(button)));
  window.addEventListener("beforeprint", print);
  window.addEventListener("resize", hint);
  document.querySelectorAll('nav a[href="#segments"]').forEach((link) => link.addEventListener("click", () => { byId("every").open = true; }));
  document.querySelectorAll("details").forEach((one) => one.addEventListener("toggle", hint));
  show();
  hint();
})();
