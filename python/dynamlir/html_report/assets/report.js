// Pages, links, and tables of the report.
"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  document.documentElement.classList.add("js");
  const pages = all(".page");
  const openers = [];
  window.dynamlirReport = { onGraph: (open) => openers.push(open) };

  const current = (links, href) => {
    for (const link of links) {
      if (link.getAttribute("href") === href) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  };

  const listed = all("#graph-list a");
  const chooseGraph = (graph) => {
    for (const one of all(".graph.on")) one.classList.remove("on");
    graph.classList.add("on");
    current(listed, `#${graph.id}`);
    for (const open of openers) open(graph);
  };

  // An address names a page, or an element of one: the page is shown, and the element scrolled to.
  const follow = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const target = (id && document.getElementById(id)) || pages[0];
    const page = target.closest(".page") || pages[0];
    for (const one of pages) one.classList.toggle("on", one === page);
    current(all(".top nav a"), `#${page.id}`);
    if (page.id === "graphs") {
      const graph = target.closest(".graph") || document.querySelector(".graph.on") || document.querySelector(".graph");
      if (graph) chooseGraph(graph);
    }
    for (let one = target; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
    if (target === page || target.classList.contains("graph")) window.scrollTo(0, 0);
    else target.scrollIntoView({ block: target.tagName === "ARTICLE" ? "start" : "center" });
  };

  for (const input of all("input[data-filter]")) {
    const items = all("li", document.getElementById(input.dataset.filter));
    input.addEventListener("input", () => {
      const wanted = input.value.toLowerCase();
      for (const item of items) item.hidden = !item.textContent.toLowerCase().includes(wanted);
    });
  }

  const mark = (head, column, down) => {
    all("th", head).forEach((cell, at) =>
      cell.setAttribute("aria-sort", at === column ? (down ? "descending" : "ascending") : "none"));
  };

  const compared = (one, other) =>
    typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other));

  for (const table of all("table.sortable")) {
    const value = (row, column) => {
      const cell = row.cells[column];
      const text = cell.dataset.value ?? cell.textContent.trim().replace(/,/g, "");
      return text !== "" && !isNaN(text) ? Number(text) : text;
    };
    all("thead th", table).forEach((cell, column) => {
      if (cell.hasAttribute("aria-hidden")) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...cell.childNodes);
      cell.append(button);
      let down = !cell.classList.contains("n");
      button.addEventListener("click", () => {
        down = !down;
        const rows = all("tbody tr", table).map((row) => [value(row, column), row]);
        rows.sort((one, other) => (down ? -1 : 1) * compared(one[0], other[0]));
        table.tBodies[0].append(...rows.map((pair) => pair[1]));
        mark(table.tHead, column, down);
      });
    });
  }

  const decisions = () => {
    const table = document.getElementById("decision-table");
    if (!table) return;
    const { texts, rows, graphs } = JSON.parse(document.getElementById("decision-data").textContent);
    const [AT, BY, REFUSED, LINE, ANCHOR, COUNT] = [0, 1, 4, 7, 8, 9];
    const form = document.querySelector(".filters");
    const more = document.querySelector(".more");
    const STEP = 200;
    const lower = texts.map((text) => text.toLowerCase());
    let order = rows;
    let shown = 0;
    for (const by of [...new Set(rows.map((row) => row[BY]))]) form.elements.pass.add(new Option(texts[by]));
    for (const at of [...new Set(rows.map((row) => row[AT]))])
      form.elements.graph.add(new Option(`${at} ${graphs[at]}`, at));

    const append = () => {
      const made = document.createDocumentFragment();
      for (const row of order.slice(shown, shown + STEP)) {
        const line = document.createElement("tr");
        const cell = (text, style) => {
          const made = line.insertCell();
          made.textContent = text;
          if (style) made.className = style;
          return made;
        };
        const graph = document.createElement("a");
        graph.href = `#g${row[AT]}`;
        graph.textContent = row[AT];
        cell("", "n").append(graph);
        for (let column = BY; column < LINE; column += 1) cell(texts[row[column]], column === REFUSED ? "refused" : "");
        const place = cell("");
        const link = document.createElement(texts[row[ANCHOR]] ? "a" : "span");
        if (texts[row[ANCHOR]]) link.href = `#${texts[row[ANCHOR]]}`;
        link.className = "place";
        link.textContent = texts[row[LINE]];
        place.append(link);
        cell(row[COUNT], "n");
        made.append(line);
      }
      table.tBodies[0].append(made);
      shown = Math.min(shown + STEP, order.length);
      more.hidden = shown >= order.length;
      form.querySelector("output").textContent = `${order.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
    };

    let [column, down] = [-1, true];
    const update = () => {
      const wanted = form.elements.text.value.toLowerCase();
      const { value: by } = form.elements.pass;
      const { value: graph } = form.elements.graph;
      const hit = wanted ? new Set(lower.flatMap((text, at) => (text.includes(wanted) ? [at] : []))) : null;
      order = rows.filter((row) =>
        (by === "" || texts[row[BY]] === by) && (graph === "" || row[AT] === Number(graph)) &&
        (!hit || row.slice(BY, ANCHOR).some((text) => hit.has(text))));
      if (column >= 0) {
        const at = column === 8 ? COUNT : column;
        const key = at === AT || at === COUNT ? (row) => row[at] : (row) => texts[row[at]];
        order = order.map((row) => [key(row), row]);
        order.sort((one, other) => (down ? -1 : 1) * compared(one[0], other[0]));
        order = order.map((pair) => pair[1]);
      }
      table.tBodies[0].replaceChildren();
      shown = 0;
      append();
    };
    for (const button of all("thead button", table))
      button.addEventListener("click", () => {
        const next = Number(button.dataset.column);
        [column, down] = [next, next === column ? !down : false];
        mark(table.tHead, column, down);
        update();
      });
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", update);
    more.addEventListener("click", append);
    if ("IntersectionObserver" in window)
      new IntersectionObserver((seen) => { if (seen[0].isIntersecting && !more.hidden) append(); }).observe(more);
    update();
  };

  window.addEventListener("hashchange", follow);
  window.addEventListener("DOMContentLoaded", () => { decisions(); follow(); });
  // By then the browser has scrolled to where the target was without the pages.
  window.addEventListener("load", follow);
})();
