(() => {
  "use strict";
  const names = new Intl.Collator("en", { numeric: true });

  // Numbers stand with thousands separators; what has no number comes last in either direction.
  function valueOf(cell, isNumber) {
    const text = cell.dataset.v ?? cell.textContent.trim();
    if (!isNumber) return text;
    const number = Number.parseFloat(text.replaceAll(",", ""));
    return Number.isNaN(number) ? (text === "inf" ? Infinity : null) : number;
  }

  function compare(a, b, isNumber, sign) {
    if (!isNumber) return sign * names.compare(a, b);
    if (a === null || b === null) return (a === null) - (b === null);
    return a === b ? 0 : a < b ? -sign : sign;
  }

  function makeSortable(table) {
    const body = table.tBodies[0];
    const original = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const next = { none: "ascending", ascending: "descending", descending: "none" }[before];
        for (const other of heads) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", next);
        const isNumber = head.dataset.type === "number";
        const sign = next === "descending" ? -1 : 1;
        const keyed = original.map((row) => [valueOf(row.cells[column], isNumber), row]);
        if (next !== "none") keyed.sort(([a], [b]) => compare(a, b, isNumber, sign));
        body.append(...keyed.map(([, row]) => row));
      });
    });
    table.classList.add("sortable");
    return { rows: original, heads };
  }

  function makeFilterable(controls, { rows, heads }) {
    const input = controls.querySelector("input");
    const selects = [...controls.querySelectorAll("select")];
    const output = controls.querySelector("output");
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const columns = selects.map((select) => heads.findIndex((head) => head.dataset.name === select.dataset.column));
    const all = output.textContent;
    function apply() {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, position) => {
        const fits =
          words.every((word) => texts[position].includes(word)) &&
          selects.every((select, at) => !select.value || row.cells[columns[at]].textContent === select.value);
        row.hidden = !fits;
        shown += fits;
      });
      output.textContent = shown === rows.length ? all : `${shown} of ${all}`;
    }
    input.addEventListener("input", apply);
    for (const select of selects) select.addEventListener("change", apply);
    controls.hidden = false;
    apply();
  }

  // A link into something that is closed opens it.
  function reveal() {
    let target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let each = target; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
    target.scrollIntoView();
  }

  // What does not scroll needs no stop of the Tab key.
  function reachWhatScrolls() {
    const all = [...document.querySelectorAll(".scroll")];
    const scrolls = all.map((each) => each.scrollWidth > each.clientWidth || each.scrollHeight > each.clientHeight);
    all.forEach((each, at) => (scrolls[at] ? each.setAttribute("tabindex", "0") : each.removeAttribute("tabindex")));
  }

  for (const controls of document.querySelectorAll(".controls"))
    makeFilterable(controls, makeSortable(document.getElementById(controls.dataset.for)));
  addEventListener("hashchange", reveal);
  addEventListener("resize", reachWhatScrolls);
  document.addEventListener("toggle", reachWhatScrolls, true);
  reveal();
  reachWhatScrolls();
})();
