// Pictures of graphs: layers from top to bottom, modules as boxes that open and close, pan and zoom.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const [NODE_HEIGHT, GAP_X, GAP_Y, PAD, HEAD, CHARACTER] = [34, 22, 30, 14, 22, 7];
  const [LABEL, SCHEMA, KIND, TYPE, OPERANDS, PLACE, MODULE, KERNELS, PARAMETERS] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
  const OPEN_AT_FIRST = 90;
  const LONGEST = 60; // layers that an edge is led through

  const element = (name, attributes, ...children) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const html = (name, text, attributes = {}) => {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const short = (text, longest) => (text.length > longest ? `${text.slice(0, longest - 1)}…` : text);

  // Modules form a tree by their paths; nodes are its leaves.
  const treeOf = (data, views) => {
    const root = { path: "", name: "", children: [], parent: null, first: 0, size: 0 };
    const groups = new Map([["", root]]);
    const group = (path) => {
      if (!groups.has(path)) {
        const cut = path.lastIndexOf(".");
        const parent = group(cut < 0 ? "" : path.slice(0, cut));
        const made = { path, name: path.slice(cut + 1), children: [], parent, first: Infinity, size: 0 };
        parent.children.push(made);
        groups.set(path, made);
      }
      return groups.get(path);
    };
    const through = []; // for a hidden view, the nodes that it is a view of
    const leaves = [];
    data.nodes.forEach((node, at) => {
      const operands = [...new Set(node[OPERANDS].flatMap((value) => through[value] ?? [value]))];
      if (!views && node[KIND] === "view") { through[at] = operands; return; }
      const parent = group(data.modules[node[MODULE]]);
      const leaf = { at, node, operands, parent, first: at };
      parent.children.push(leaf);
      leaves.push(leaf);
      for (let one = parent; one; one = one.parent) { one.size += 1; one.first = Math.min(one.first, at); }
    });
    // A module with a single module in it is shown as one, such as `layers.3`.
    const joined = (one) => {
      one.children = one.children.map((child) => {
        while (child.children && child.children.length === 1 && child.children[0].children && !child.joined) {
          const only = child.children[0];
          only.name = `${child.name}.${only.name}`;
          only.parent = child.parent;
          child = only;
        }
        if (child.children) joined(child);
        return child;
      });
    };
    joined(root);
    return { root, groups, leaves };
  };

  const openAtFirst = (root) => {
    const open = new Set([""]);
    let level = [root];
    let visible = root.children.length;
    while (level.length) {
      const next = level.flatMap((one) => one.children.filter((child) => child.children));
      const more = next.reduce((sum, one) => sum + one.children.length, 0);
      if (visible + more > OPEN_AT_FIRST) break;
      for (const one of next) open.add(one.path);
      visible += more;
      level = next;
    }
    return open;
  };

  // Places the children of one group. `edges` are pairs of positions, the first of which is smaller. The first `entries`
  // and the last `exits` children are points at which edges of the groups around enter and leave.
  const arrange = (children, edges, entries, exits) => {
    const count = children.length;
    const [before, after, layer] = [children.map(() => []), children.map(() => []), new Array(count).fill(0)];
    for (const [one, other] of edges) { before[other].push(one); after[one].push(other); }
    const least = entries ? 1 : 0;
    for (let at = 0; at < count; at += 1) {
      if (at >= entries) layer[at] = least;
      for (const one of before[at]) layer[at] = Math.max(layer[at], layer[one] + 1);
    }
    // A value that nothing precedes is placed next to what uses it.
    for (let at = entries; at < count - exits; at += 1)
      if (!before[at].length && after[at].length) layer[at] = Math.max(least, Math.min(...after[at].map((one) => layer[one])) - 1);
    const last = Math.max(...layer.slice(0, count - exits), 0);
    for (let at = count - exits; at < count; at += 1) layer[at] = last + 1;
    const layers = [];
    const items = children.map((child, at) => ({ child, layer: layer[at], w: child.w, h: child.h, up: [], down: [], x: 0 }));
    const routes = new Map();
    for (const [one, other] of edges) {
      let last = items[one];
      const route = [];
      if (layer[other] - layer[one] <= LONGEST)
        for (let level = layer[one] + 1; level < layer[other]; level += 1) {
          const point = { layer: level, w: 4, h: 0, up: [last], down: [], x: 0 };
          last.down.push(point);
          route.push(point);
          items.push(point);
          last = point;
        }
      last.down.push(items[other]);
      items[other].up.push(last);
      routes.set(`${one} ${other}`, route);
    }
    for (const item of items) (layers[item.layer] ??= []).push(item);
    const dense = layers.filter(Boolean);
    const number = (row) => row.forEach((item, at) => { item.position = at; });
    dense.forEach(number);
    const mean = (list) => list.reduce((sum, one) => sum + one.position, 0) / list.length;
    for (let sweep = 0; sweep < 4; sweep += 1)
      for (const row of sweep % 2 ? [...dense].reverse() : dense) {
        const side = sweep % 2 ? "down" : "up";
        for (const item of row) item.weight = item[side].length ? mean(item[side]) : item.position;
        row.sort((one, other) => one.weight - other.weight || one.position - other.position);
        number(row);
      }
    let top = 0;
    for (const [at, row] of dense.entries()) {
      const height = Math.max(...row.map((item) => item.h));
      const isNarrow = !height || (dense[at + 1] ?? []).every((item) => !item.h);
      let left = 0;
      for (const item of row) { item.x = left; item.y = top + (height - item.h) / 2; left += item.w + GAP_X; }
      top += height + (isNarrow ? 12 : GAP_Y);
    }
    // Items move towards their neighbours as far as the order in their layer allows.
    const middle = (item) => item.x + item.w / 2;
    for (let sweep = 0; sweep < 6; sweep += 1)
      for (const row of sweep % 2 ? [...dense].reverse() : dense) {
        const wish = row.map((item) => {
          const near = sweep % 2 ? item.down : item.up;
          return near.length ? near.reduce((sum, one) => sum + middle(one), 0) / near.length - item.w / 2 : item.x;
        });
        let edge = -Infinity;
        const right = row.map((item, at) => { const x = Math.max(wish[at], edge); edge = x + item.w + GAP_X; return x; });
        edge = Infinity;
        for (let at = row.length - 1; at >= 0; at -= 1) {
          const x = Math.min(wish[at], edge - row[at].w);
          edge = x - GAP_X;
          row[at].x = (x + right[at]) / 2;
        }
        edge = -Infinity;
        for (const item of row) { item.x = Math.max(item.x, edge); edge = item.x + item.w + GAP_X; }
      }
    const left = items.reduce((left, item) => Math.min(left, item.x), Infinity);
    let [width, height] = [0, 0];
    for (const item of items) {
      item.x -= left;
      width = Math.max(width, item.x + item.w);
      height = Math.max(height, (item.y ?? 0) + item.h);
      if (item.child) [item.child.x, item.child.y] = [item.x, item.y];
    }
    return { width, height, routes };
  };

  class Picture {
    constructor(place, graph) {
      this.canvas = place.querySelector(".canvas");
      this.panel = place.querySelector(".panel");
      this.data = JSON.parse(document.getElementById(`${graph}-data`).textContent);
      this.views = false;
      this.picked = null;
      this.rebuild();
      place.querySelector(".tools").addEventListener("click", (event) => this.tool(event.target.dataset.do));
      place.querySelector("[data-do=views]").addEventListener("change", (event) => {
        this.views = event.target.checked;
        this.rebuild();
      });
      place.querySelector("[data-do=find]").addEventListener("input", (event) => this.find(event.target.value));
    }

    rebuild() {
      Object.assign(this, treeOf(this.data, this.views));
      this.open = openAtFirst(this.root);
      this.draw(true);
    }

    isOpen(group) { return this.open.has(group.path); }

    // The outermost closed group around a leaf, or the leaf itself.
    visible(leaf) {
      let found = leaf;
      for (let one = leaf.parent; one; one = one.parent) if (!this.isOpen(one)) found = one;
      return found;
    }

    draw(fit) {
      const leafAt = new Map(this.leaves.map((leaf) => [leaf.at, leaf]));
      const parts = new Map(); // of edges, by the group that they are in
      this.edges = [];
      const seen = new Set();
      const shown = new Map(this.leaves.map((leaf) => [leaf, this.visible(leaf)]));
      for (const leaf of this.leaves)
        for (const operand of leaf.operands) {
          if (!leafAt.has(operand)) continue;
          const [from, to] = [shown.get(leafAt.get(operand)), shown.get(leaf)];
          const key = `${from.path ?? from.at}|${to.path ?? to.at}|${"path" in from}|${"path" in to}`;
          if (from === to || seen.has(key)) continue;
          seen.add(key);
          const around = new Map(); // the groups around `from`, with their children that lead to it
          for (let one = from; one.parent; one = one.parent) around.set(one.parent, one);
          const inwards = []; // the same for `to`, up to the closest group around both
          let [outer, within] = [to.parent, to];
          while (!around.has(outer)) { inwards.push([outer, within]); [within, outer] = [outer, outer.parent]; }
          const edge = { from, to, parts: [] };
          this.edges.push(edge);
          const part = (group, one, other) => {
            edge.parts.push({ group, one, other });
            if (!parts.has(group)) parts.set(group, []);
            parts.get(group).push(edge.parts.at(-1));
          };
          for (const [group, child] of around) { if (group === outer) break; part(group, child, null); }
          part(outer, around.get(outer), within);
          for (const [group, child] of inwards.reverse()) part(group, null, child);
          for (const one of edge.parts) one.edge = edge;
        }
      this.place(this.root, parts);
      this.paint(fit);
    }

    place(group, parts) {
      if (!group.children) {
        const text = Math.max(short(group.node[LABEL], 30).length, 0.84 * short(group.node[TYPE], 34).length);
        [group.w, group.h] = [Math.max(60, text * CHARACTER + 24), NODE_HEIGHT];
        return;
      }
      if (!this.isOpen(group)) {
        [group.w, group.h] = [Math.max(100, group.name.length * CHARACTER + 60), NODE_HEIGHT];
        return;
      }
      group.children.sort((one, other) => one.first - other.first);
      for (const child of group.children) this.place(child, parts);
      // An edge from outside enters at a point for its source, and one to the outside leaves at one.
      const ports = (end) => {
        const found = new Map();
        for (const part of parts.get(group) ?? []) if (!part[end]) found.set(part.edge.from, { w: 4, h: 0 });
        return found;
      };
      const [entries, exits] = [ports("one"), ports("other")];
      const items = [...entries.values(), ...group.children, ...exits.values()];
      const numbers = new Map(items.map((item, at) => [item, at]));
      const pairs = new Map();
      for (const part of parts.get(group) ?? []) {
        const one = numbers.get(part.one ?? entries.get(part.edge.from));
        const other = numbers.get(part.other ?? exits.get(part.edge.from));
        part.key = `${one} ${other}`;
        part.ports = [part.one ? null : items[one], part.other ? null : items[other]];
        if (one < other) pairs.set(part.key, [one, other]);
      }
      const { width, height, routes } = arrange(items, [...pairs.values()], entries.size, exits.size);
      for (const part of parts.get(group) ?? []) part.route = routes.get(part.key) ?? [];
      const inner = group.parent ? [PAD, HEAD + 6] : [0, 0];
      group.inner = inner;
      group.w = Math.max(width + 2 * inner[0], group.name.length * CHARACTER + 50);
      group.h = height + inner[1] + (group.parent ? PAD : 0);
    }

    paint(fit) {
      const absolute = (group, x, y) => {
        [group.X, group.Y] = [x, y];
        if (group.children && this.isOpen(group))
          for (const child of group.children) absolute(child, x + group.inner[0] + child.x, y + group.inner[1] + child.y);
      };
      absolute(this.root, 0, 0);
      const [groups, lines, nodes] = [element("g", {}), element("g", {}), element("g", {})];
      const add = (one) => {
        if (!one.children) { nodes.append(this.node(one)); return; }
        if (one.parent) (this.isOpen(one) ? groups : nodes).append(this.box(one));
        if (this.isOpen(one)) one.children.forEach(add);
      };
      add(this.root);
      for (const edge of this.edges) {
        const { from, to } = edge;
        const points = [[from.X + from.w / 2, from.Y + from.h]];
        for (const { group, route, ports } of edge.parts)
          for (const point of [ports[0], ...route, ports[1]])
            if (point) points.push([group.X + group.inner[0] + point.x + 2, group.Y + group.inner[1] + point.y]);
        points.push([to.X + to.w / 2, to.Y]);
        let path = `M${points[0].map(Math.round)}`;
        for (let at = 1; at < points.length; at += 1) {
          const [[x, y], [u, v]] = [points[at - 1], points[at]];
          const bend = Math.max(4, Math.abs(v - y) / 2);
          path += `C${[x, y + bend, u, v - bend, u, v].map(Math.round)}`;
        }
        edge.line = element("path", { d: path, class: "edge", "marker-end": "url(#arrow)" });
        lines.append(edge.line);
      }
      this.world = element("g", {}, groups, lines, nodes);
      const arrow = element("marker", { id: "arrow", viewBox: "0 0 6 6", refX: 5, refY: 3, markerWidth: 6, markerHeight: 6, orient: "auto" },
        element("path", { d: "M0 0L6 3L0 6z", fill: "context-stroke" }));
      this.svg = element("svg", { role: "group", "aria-label": "Graph", tabindex: 0 }, element("defs", {}, arrow), this.world);
      this.canvas.replaceChildren(this.svg);
      this.listen();
      if (fit || !this.at) this.fit();
      else this.move();
    }

    node(leaf) {
      const [label, , kind, type] = leaf.node;
      const made = element("g", { class: `node ${kind}`, transform: `translate(${Math.round(leaf.X)} ${Math.round(leaf.Y)})`, tabindex: 0, role: "button", "aria-label": `${label} ${type}` },
        element("rect", { width: leaf.w, height: leaf.h, rx: 4 }),
        element("rect", { class: "mark", x: 8, y: 8, width: 6, height: 6, rx: 1.5 }),
        element("text", { x: 19, y: 15 }, short(label, 30)),
        element("text", { x: 19, y: 27, class: "sub" }, short(type, 34)));
      made.addEventListener("click", () => { if (!this.dragged) this.pick(leaf); });
      made.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.pick(leaf); }
      });
      leaf.drawn = made;
      return made;
    }

    box(group) {
      const open = this.isOpen(group);
      const made = element("g", { class: open ? "group" : "group closed", transform: `translate(${Math.round(group.X)} ${Math.round(group.Y)})`, tabindex: 0, role: "button", "aria-expanded": open, "aria-label": group.path },
        element("rect", { width: group.w, height: group.h, rx: 5 }),
        element("text", { x: 10, y: open ? 16 : 21 }, `${open ? "−" : "+"} ${group.name}${open ? "" : ` (${group.size})`}`));
      const toggle = (event) => {
        event.stopPropagation();
        if (this.dragged) return;
        const corner = [group.X, group.Y];
        if (open) this.open.delete(group.path);
        else this.open.add(group.path);
        this.draw(false);
        // The group stays where the user has chosen it.
        if (group.X !== undefined) {
          this.at[0] += (corner[0] - group.X) * this.scale;
          this.at[1] += (corner[1] - group.Y) * this.scale;
          this.move();
        }
      };
      (open ? made.querySelector("text") : made).addEventListener("click", toggle);
      made.addEventListener("keydown", (event) => { if (event.key === "Enter") toggle(event); });
      return made;
    }

    move() {
      // Words that are too small to be read only cost time.
      this.svg.classList.toggle("far", this.scale < 0.3);
      this.world.setAttribute("transform", `translate(${this.at[0]} ${this.at[1]}) scale(${this.scale})`);
    }

    fit() {
      const { width, height } = this.canvas.getBoundingClientRect();
      const whole = Math.min((width - 40) / this.root.w, (height - 40) / this.root.h);
      // A tall graph begins at its top, in a size that can be read.
      this.scale = Math.min(1.2, Math.max(whole, 0.8));
      const spare = width - this.root.w * this.scale;
      this.at = [spare / 2, whole < this.scale ? 20 : (height - this.root.h * this.scale) / 2];
      this.move();
    }

    zoom(factor, x, y) {
      const next = Math.min(4, Math.max(0.02, this.scale * factor));
      this.at = [x - (x - this.at[0]) * (next / this.scale), y - (y - this.at[1]) * (next / this.scale)];
      this.scale = next;
      this.move();
    }

    tool(name) {
      const { width, height } = this.canvas.getBoundingClientRect();
      if (name === "in" || name === "out") this.zoom(name === "in" ? 1.3 : 1 / 1.3, width / 2, height / 2);
      if (name === "fit") this.fit();
      if (name === "open") { for (const path of this.groups.keys()) this.open.add(path); this.draw(true); }
      if (name === "close") { this.open = new Set([""]); this.draw(true); }
    }

    listen() {
      const { svg } = this;
      let start = null;
      this.dragged = false;
      svg.addEventListener("wheel", (event) => {
        event.preventDefault();
        const { left, top } = svg.getBoundingClientRect();
        this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.clientX - left, event.clientY - top);
      }, { passive: false });
      svg.addEventListener("pointerdown", (event) => {
        start = [event.clientX - this.at[0], event.clientY - this.at[1], event.clientX, event.clientY];
        this.dragged = false;
      });
      svg.addEventListener("pointermove", (event) => {
        if (!start || !event.buttons) return;
        if (!this.dragged && Math.hypot(event.clientX - start[2], event.clientY - start[3]) < 4) return;
        if (!this.dragged) svg.setPointerCapture(event.pointerId);
        this.dragged = true;
        this.at = [event.clientX - start[0], event.clientY - start[1]];
        this.move();
      });
      svg.addEventListener("pointerup", () => { start = null; });
      svg.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
        if (step) { this.at = [this.at[0] + step[0], this.at[1] + step[1]]; this.move(); event.preventDefault(); }
        if (event.key === "+" || event.key === "-") this.tool(event.key === "+" ? "in" : "out");
      });
    }

    find(text) {
      const wanted = text.toLowerCase();
      let first = null;
      for (const leaf of this.leaves) {
        const hit = wanted && `${leaf.node[SCHEMA]} ${leaf.node[LABEL]} ${leaf.parent.path}`.toLowerCase().includes(wanted);
        leaf.drawn?.classList.toggle("found", Boolean(hit));
        if (hit) first ??= leaf;
      }
      if (!first) return;
      const target = this.visible(first);
      const { width, height } = this.canvas.getBoundingClientRect();
      this.at = [width / 2 - (target.X + target.w / 2) * this.scale, height / 2 - (target.Y + target.h / 2) * this.scale];
      this.move();
    }

    pick(leaf) {
      this.picked?.drawn?.classList.remove("picked");
      this.picked = leaf;
      leaf.drawn.classList.add("picked");
      for (const edge of this.edges) edge.line.classList.toggle("lit", edge.from === leaf || edge.to === leaf);
      const { data, panel } = this;
      const { node } = leaf;
      const facts = html("dl");
      const fact = (name, value, href) => {
        if (!value) return;
        const shown = html("dd");
        shown.append(href ? html("a", value, { href: `#${href}` }) : document.createTextNode(value));
        facts.append(html("dt", name), shown);
      };
      const place = data.places[node[PLACE]];
      if (place) { fact("line", place[0] || "unknown", place[1]); fact("through", place[2] === place[0] ? "" : place[2]); }
      fact("module", data.modules[node[MODULE]]);
      fact("operation", node[SCHEMA]);
      fact("result", node[TYPE]);
      fact("parameters", (node[PARAMETERS] ?? []).join(", "));
      const parts = [html("h3", node[LABEL]), facts];
      const text = (title, content, open) => {
        const made = html("details");
        made.append(html("summary", title));
        if (open) made.open = true;
        // Long texts enter the document when they are opened.
        const fill = () => { if (made.open && !made.querySelector("pre")) made.append(html("pre", content)); };
        made.addEventListener("toggle", fill);
        fill();
        return made;
      };
      const primitives = data.primitives[node[PLACE]];
      if (primitives) parts.push(text("dynamo operations (stage 02)", primitives, primitives.split("\n").length <= 8));
      const kernels = node[KERNELS].map((at) => data.kernels[at]);
      if (kernels.length) parts.push(html("p", data.exact ? "Kernels" : "Kernels with operations of this line", { class: "dim" }));
      for (const [name, anchor, texts] of kernels) {
        const made = html("details");
        const summary = html("summary");
        summary.append(html("a", name, { href: `#${anchor}` }));
        made.append(summary);
        for (const [stage, title] of [["kernels", "kernel (stage 03)"], ["linalg", "linalg (stage 05)"], ["assembly", "assembly"]])
          if (texts?.[stage]) made.append(text(title, texts[stage], false));
        if (kernels.length === 1) made.open = true;
        parts.push(made);
      }
      if (node[KIND] === "extern") parts.push(html("p", "A call of torch's library.", { class: "dim" }));
      if (!data.exact && node[PLACE] >= 0) parts.push(html("p", "Texts of stages are here if they were dumped: DYNAMLIR_DUMP=DIR.", { class: "dim" }));
      panel.replaceChildren(...parts);
      panel.scrollTop = 0;
    }
  }

  const drawn = new Set();
  window.dynamlirReport.onGraph((graph) => {
    const place = graph.querySelector(".picture");
    if (place && !drawn.has(graph.id)) { drawn.add(graph.id); new Picture(place, graph.id); }
  });
})();
