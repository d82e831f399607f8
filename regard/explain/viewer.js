"use strict";
// Draws the attention maps of a page. Each <section class="look"> holds its data as JSON; a
// Viewer puts controls and one canvas into it. Only what is visible is drawn, so that long
// inputs cost no more than short ones. Labels reach the page as text, never as markup.
// An address may end in #theme=dark&view=sentence&site=encoder.1.self&head=2&row=7&column=1.

const SMALL = 18, LABEL = 18; // pixels: what can be read from the back row
const FONT = 'system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';
const VIEWS = { matrix: "matrix", sentence: "sentence", grid: "all heads", positions: "distances" };
const STACKS = {
  "decoder.cross": "decoder to source", "encoder.self": "within the source", "decoder.self": "within the target",
};
const COLOURS = { largest: "0 to largest", one: "0 to 1", row: "each row" };
const WINDOW = 8; // words to either side, in the view of distances
const ROW = 20.5, COLUMN = 25.5; // pixels: the closest that labels stand
const READABLE = 100; // up to so many rows or columns each has its label, and one scrolls

const unpack = (hex) => Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16));
const scales = JSON.parse(document.getElementById("scales").textContent);
const PALETTES = { light: unpack(scales.light), dark: unpack(scales.dark) };
const root = document.documentElement;
const wanted = new URLSearchParams(location.hash.slice(1));

const number = (value) => value.toFixed(value > 0 && value < 0.0095 ? 4 : 3);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

function element(tag, attributes = {}, text = "") {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text) made.textContent = text;
  return made;
}

function decode(base64, width) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return width === 1 ? bytes : new Uint16Array(bytes.buffer); // little-endian, as every browser's host
}

// A layer or head in words: decoder.1.cross.7 is decoder layer 1, head 7 (cross).
function inWords(name, heads, last) {
  const [stack, first, kind, head] = name.split(".");
  const layers = last === undefined || last === first ? `layer ${first}` : `layers ${first}-${last}`;
  const side = stack === "layers" ? "" : `${stack} `; // a model of one stack
  return `${side}${layers}, ${head === undefined ? heads : `head ${head}`} (${kind})`;
}

// One attention layer: numbers are decoded on first use, and one head or the mean is a table.
class Layer {
  constructor(data, width, knockedOut) {
    Object.assign(this, data);
    // The weights of a knocked-out head have no effect: they are left out of means, and not shown.
    this.away = new Set([...Array(this.heads).keys()].filter((head) => knockedOut.includes(`${data.site}.${head}`)));
    [this.stackName, this.number, this.kind] = data.site.split(".");
    this.stack = `${this.stackName}.${this.kind}`;
    this.width = width;
    this.tables = new Map();
  }

  table(head) { // (query, key), row after row
    if (this.stored === 1) head = 0;
    if (this.tables.has(head)) return this.tables.get(head);
    this.raw ??= decode(this.data, this.width);
    const size = this.queries.length * this.keys.length;
    const values = new Float32Array(size);
    const heads = (head === null ? [...Array(this.stored).keys()] : [head]).filter((one) => this.stored === 1 || !this.away.has(one));
    const steps = this.width === 1 ? 255 : 65535;
    for (const one of heads) {
      for (let i = 0; i < size; i += 1) {
        const share = this.raw[one * size + i] / steps;
        values[i] += (this.width === 1 ? share * share : share) * this.top / heads.length;
      }
    }
    if (this.tables.size * size > 8e6) this.tables.clear(); // at most 32 MB a layer
    this.tables.set(head, values);
    return values;
  }

  isAway(head) { return this.stored === this.heads && (head === null ? this.away.size === this.heads : this.away.has(head)); }

  shortName(head) { return this.stored === 1 ? `layer ${this.number}` : `layer ${this.number}, head ${head}`; }

  headName(head) {
    if (this.heads === 1) return "its one head";
    const rest = this.stored > 1 && this.away.size ? `${this.heads - this.away.size} of ${this.heads}` : this.heads;
    return head === null || this.stored < this.heads ? `mean over ${rest} heads` : `head ${head}`;
  }
}

function largest(values) {
  let most = 0;
  for (const value of values) if (value > most) most = value;
  return most;
}

// What is drawn as cells: values, labels, and how to say one of them.
function transpose(cells) {
  const [rows, columns] = [cells.rows.length, cells.columns.length];
  const values = new Float32Array(rows * columns);
  for (let r = 0; r < rows; r += 1) for (let c = 0; c < columns; c += 1) values[c * rows + r] = cells.values[r * columns + c];
  return { ...cells, values, rows: cells.columns, columns: cells.rows, turned: true };
}

function distances(layers, narrow) {
  const longest = Math.max(...layers.map((layer) => Math.max(layer.queries.length, layer.keys.length)));
  const reach = Math.max(1, Math.min(WINDOW, longest - 1));
  const offsets = Array.from({ length: 2 * reach + 1 }, (_, i) => i - reach);
  const rows = [], values = [];
  for (const layer of layers) {
    for (let head = 0; head < layer.stored; head += 1) {
      const table = layer.table(head);
      const width = layer.keys.length;
      const alive = layer.queries.map((_, q) => table.subarray(q * width, (q + 1) * width).some((weight) => weight > 0));
      const name = narrow ? `L${layer.number} H${head}` : layer.shortName(head);
      rows.push(name + (layer.isAway(head) ? " (out)" : ""));
      for (const offset of offsets) {
        let sum = 0, count = 0;
        for (let q = Math.max(0, -offset); q < Math.min(layer.queries.length, width - offset); q += 1) {
          if (alive[q]) { sum += table[q * width + q + offset]; count += 1; }
        }
        values.push(count ? sum / count : 0);
      }
    }
  }
  const columns = offsets.map((offset) => (offset > 0 ? `+${offset}` : `${offset}`.replace("-", "−")));
  return { values: Float32Array.from(values), rows, columns };
}

// The cells as an image, one pixel each; the canvas enlarges it.
function paint(cells, mode, palette) {
  const [rows, columns] = [cells.rows.length, cells.columns.length];
  const canvas = element("canvas");
  [canvas.width, canvas.height] = [columns, rows];
  const image = new ImageData(columns, rows);
  const top = mode === "one" ? 1 : largest(cells.values) || 1;
  // a query's weights lie along a row, or down a column once turned
  const tops = new Float32Array(Math.max(rows, columns)).fill(mode === "row" ? 0 : top);
  for (let r = 0, i = 0; mode === "row" && r < rows; r += 1) {
    for (let c = 0; c < columns; c += 1, i += 1) {
      const query = cells.turned ? c : r;
      if (cells.values[i] > tops[query]) tops[query] = cells.values[i];
    }
  }
  for (let r = 0, i = 0; r < rows; r += 1) {
    for (let c = 0; c < columns; c += 1, i += 1) {
      const most = tops[cells.turned ? c : r] || 1;
      const step = 3 * Math.round(255 * Math.min(1, cells.values[i] / most));
      image.data[4 * i] = palette[step];
      image.data[4 * i + 1] = palette[step + 1];
      image.data[4 * i + 2] = palette[step + 2];
      image.data[4 * i + 3] = 255;
    }
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  canvas.pixels = image.data; // kept, because reading a canvas back is slow
  return canvas;
}

class Viewer {
  constructor(section, first) {
    const data = JSON.parse(section.querySelector("script").textContent);
    this.section = section;
    this.bytes = data.bytes;
    this.tabs = data.tabs.map((tab) => ({ ...tab, layers: tab.maps.map((map) => new Layer(map, data.bytes, tab.knockedOut)) }));
    const from = first ? wanted : new URLSearchParams();
    const count = (name, fallback) => (from.has(name) ? Number(from.get(name)) : fallback);
    this.state = {
      tab: 0, site: from.get("site") ?? data.start.site, head: count("head", data.start.head),
      view: from.get("view") ?? data.start.view, turned: from.has("turned"), colours: from.get("colours") ?? "largest",
      zoom: count("zoom", 1), row: count("row", data.start.row), column: count("column", null), pinned: data.start.row,
    };
    this.build();
    this.refresh();
    window.addEventListener("resize", () => this.fitStage());
    new ResizeObserver(() => this.draw()).observe(this.stage, { box: "border-box" });
    if (this.state.row !== null) requestAnimationFrame(() => this.reveal(this.state.row, this.state.column ?? 0));
  }

  get tab() { return this.tabs[this.state.tab]; }
  get layer() { return this.tab.layers.find((layer) => layer.site === this.state.site) ?? this.tab.layers[0]; }
  get palette() { return PALETTES[root.dataset.theme]; }

  build() {
    if (this.tabs.length > 1) {
      const list = element("div", { role: "tablist", class: "tabs" });
      this.buttons = this.tabs.map((tab, place) => {
        const button = element("button", { type: "button", role: "tab" }, tab.name || tab.title);
        button.addEventListener("click", () => this.set({ tab: place }));
        list.append(button);
        return button;
      });
      this.section.append(list);
    }
    const controls = element("div", { class: "controls" });
    this.selects = {};
    const select = (name, label, change) => {
      const wrapper = element("label", {}, label);
      this.selects[name] = element("select");
      this.selects[name].addEventListener("change", () => change(this.selects[name].value));
      wrapper.append(this.selects[name]);
      controls.append(wrapper);
    };
    select("view", "View", (view) => {
      // rows of distances are heads, those of the others words: what was pointed at is there no more
      const other = (view === "positions") !== (this.state.view === "positions");
      this.set(other ? { view, row: null, column: null, pinned: null } : { view, column: null });
    });
    select("stack", "Looking", (stack) => this.set({ site: this.nearest(stack), row: null, column: null, pinned: null }));
    select("site", "Layer", (site) => this.set({ site }));
    select("head", "Head", (head) => this.set({ head: head === "" ? null : Number(head) }));
    select("colours", "Colours", (colours) => this.set({ colours }));
    const button = (text, title, act) => {
      const made = element("button", { type: "button", title, "aria-label": title }, text);
      made.addEventListener("click", act);
      controls.append(made);
      return made;
    };
    this.turn = button("Swap", "Swap rows and columns", () => this.set({ turned: !this.state.turned, row: null, column: null }));
    this.zooms = [
      button("−", "Smaller", () => this.set({ zoom: Math.max(0.1, this.state.zoom / 1.5) })),
      button("+", "Larger", () => this.set({ zoom: Math.min(40, this.state.zoom * 1.5) })),
    ];
    this.facts = element("p");
    this.scale = element("div", { class: "scale" });
    const line = element("div", { class: "facts" });
    line.append(this.facts, this.scale);
    this.stage = element("div", { class: "stage", tabindex: "0", role: "application", "aria-label": "Attention map. Arrow keys move, Enter holds a word, Escape lets go." });
    this.world = element("div");
    this.canvas = element("canvas");
    this.world.append(this.canvas);
    this.stage.append(this.world);
    this.reading = element("p", { class: "reading", "aria-live": "polite" });
    this.fine = element("p", { class: "fine" });
    const below = element("div", { class: "below" });
    below.append(this.reading, this.fine);
    this.section.append(controls, line, this.stage, below);
    this.listen();
  }

  listen() {
    let waiting = false;
    this.schedule = () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; this.draw(); });
    };
    this.stage.addEventListener("scroll", this.schedule);
    this.stage.addEventListener("pointermove", (event) => this.point(event));
    this.stage.addEventListener("pointerleave", () => this.hover(this.state.pinned, null));
    this.stage.addEventListener("click", (event) => this.click(event));
    this.stage.addEventListener("keydown", (event) => this.key(event));
  }

  nearest(stack) { // the same layer of another stack, or its last
    const layers = this.tab.layers.filter((layer) => layer.stack === stack);
    return (layers.find((layer) => layer.number === this.layer.number) ?? layers.at(-1)).site;
  }

  set(change) {
    Object.assign(this.state, change);
    if (change.tab !== undefined) Object.assign(this.state, { site: this.layer.site });
    this.refresh();
  }

  refresh() { // controls, caption and cells; draw() alone does the canvas
    const { state, layer, tab } = this;
    if (state.head !== null && state.head >= layer.stored) state.head = null;
    this.buttons?.forEach((button, place) => button.setAttribute("aria-selected", place === state.tab));
    const stacks = [...new Set(tab.layers.map((one) => one.stack))];
    const peers = tab.layers.filter((one) => one.stack === layer.stack);
    const fill = (name, pairs, value) => {
      this.selects[name].replaceChildren(...pairs.map(([key, text]) => element("option", { value: key }, text)));
      this.selects[name].value = value;
    };
    fill("view", Object.entries(VIEWS), state.view);
    const alone = stacks.length === 1; // a GPT or a BERT reads one text: it has no source and target
    fill("stack", stacks.map((stack) => [stack, alone && stack.endsWith(".self") ? "within the text" : STACKS[stack] ?? stack]), layer.stack);
    fill("site", peers.map((one) => [one.site, one.number]), layer.site);
    const heads = layer.stored === layer.heads && layer.heads > 1 ? [...Array(layer.heads).keys()] : [];
    const out = (head) => (tab.knockedOut.includes(`${layer.site}.${head}`) ? " (out)" : "");
    fill("head", [["", layer.headName(null)], ...heads.map((head) => [head, `${head}${out(head)}`])], state.head ?? "");
    fill("colours", Object.entries(COLOURS), state.colours);
    const all = state.view === "grid" || state.view === "positions";
    this.selects.site.disabled = this.selects.head.disabled = all;
    this.selects.colours.disabled = state.view === "sentence";
    this.turn.disabled = state.view !== "matrix";
    this.turn.setAttribute("aria-pressed", state.turned);
    for (const zoom of this.zooms) zoom.disabled = state.view !== "matrix" && state.view !== "positions";
    this.peers = peers;
    this.cells = this.makeCells();
    if (state.row !== null && state.row >= this.cells.rows.length) Object.assign(state, { row: null, pinned: null });
    if (state.column !== null && state.column >= this.cells.columns.length) state.column = null;
    this.image = null;
    this.thumbnails = this.most = null;
    this.describe();
    this.fitStage();
    this.draw();
  }

  // The map ends where the window does, so that it is seen without scrolling: below what stands over it on
  // the page or, where that is half a window and more, below the controls once one has scrolled to them.
  fitStage() {
    const top = this.stage.getBoundingClientRect().top;
    const below = this.stage.nextElementSibling.offsetHeight + 14;
    const onPage = window.innerHeight - top - window.scrollY - below;
    const scrolled = window.innerHeight - (top - this.section.getBoundingClientRect().top) - below - 8;
    const room = onPage > window.innerHeight / 2 ? onPage : scrolled;
    this.stage.style.height = `${Math.round(clamp(room, 320, 820))}px`;
  }

  makeCells() {
    const { state, layer } = this;
    if (state.view === "positions") {
      const cells = distances(this.peers, this.stage.clientWidth < 600);
      return { ...cells, say: (r, c) => [cells.rows[r], "looks", cells.columns[c] === "0" ? "at its own place" : `${cells.columns[c]} words away`] };
    }
    const cells = { values: layer.table(state.head), rows: layer.queries, columns: layer.keys, say: (r, c) => [layer.queries[r], "looks at", layer.keys[c]] };
    if (!state.turned || state.view !== "matrix") return cells;
    return { ...transpose(cells), say: (r, c) => cells.say(c, r) };
  }

  describe() {
    const { state, layer, tab } = this;
    const name = state.view === "grid" || state.view === "positions"
      ? inWords(this.peers[0].site, "all heads", this.peers.at(-1).number) : inWords(layer.site, layer.headName(state.head));
    const single = state.head !== null && layer.stored === layer.heads;
    const typed = state.view === "grid" || state.view === "positions" ? "" : `To type: ${layer.site}${single ? `.${state.head}` : ""}.`;
    const [rows, columns] = state.turned && state.view === "matrix" ? [...layer.orientation].reverse() : layer.orientation;
    const places = {
      matrix: `Rows: ${rows}. Columns: ${columns}.`, grid: `Rows: ${rows}. Columns: ${columns}. Click one to open it.`,
      sentence: `Left: ${layer.orientation[0]}. Right: ${layer.orientation[1]}.`, positions: "Rows: heads. Columns: how far from its own place a word looks; −1 is one word before.",
    };
    const gone = state.view !== "grid" && state.view !== "positions" && layer.isAway(state.head)
      && "This head is knocked out: its weights have no effect and are not shown.";
    const parts = [gone, places[state.view], typed, tab.model && `Model: ${tab.model}.`, tab.knockedOut.length && `Knocked out: ${tab.knockedOut.map((head) => inWords(head)).join("; ")}.`, tab.note];
    this.facts.replaceChildren(element("strong", {}, name), ` ${parts.filter(Boolean).join(" ")}`);
    const exact = this.bytes === 1 ? "0.004, small to 0.0002" : "0.00001";
    const means = layer.stored < layer.heads ? " The input is long, so the page holds means over heads only." : "";
    this.fine.textContent = `Hover, or use the arrow keys; click holds a word. Values to ${exact}.${means}`;
    const bar = element("canvas", { width: 256, height: 1 });
    const image = new ImageData(256, 1);
    for (let i = 0; i < 256; i += 1) image.data.set([...this.palette.slice(3 * i, 3 * i + 3), 255], 4 * i);
    bar.getContext("2d").putImageData(image, 0, 0);
    const ends = element("span");
    const tops = { one: "1", row: "row's largest", largest: number(state.view === "grid" ? this.gridTop() : largest(this.cells.values)) };
    ends.append(element("span", {}, "0"), "attention weight", element("span", {}, tops[state.colours]));
    this.scale.replaceChildren(bar, ends);
    this.scale.hidden = state.view === "sentence";
    this.say();
  }

  gridTop() { // the largest weight of all heads of a stack
    this.most ??= Math.max(...this.peers.flatMap((layer) => [...Array(layer.stored).keys()].map((head) => largest(layer.table(head)))));
    return this.most;
  }

  say() {
    const { row, column, view } = this.state;
    const gone = view !== "positions" && this.layer.isAway(this.state.head);
    if (row === null || view === "grid" || gone) { this.reading.textContent = ""; return; }
    const { columns, values } = this.cells;
    const words = (r, c) => {
      const [who, verb, what] = this.cells.say(r, c);
      return [element("b", {}, who), ` ${verb} `, element("b", {}, what), ` ${number(values[r * columns.length + c])}`];
    };
    if (column !== null) { this.reading.replaceChildren(...words(row, column)); return; }
    if (this.cells.turned || view === "positions") { this.reading.replaceChildren(element("b", {}, this.cells.rows[row])); return; }
    const order = columns.map((_, c) => c).sort((a, b) => values[row * columns.length + b] - values[row * columns.length + a]).slice(0, 5);
    const list = order.flatMap((c, place) => [place ? " · " : "", element("b", {}, columns[c]), ` ${number(values[row * columns.length + c])}`]);
    this.reading.replaceChildren(element("b", {}, this.cells.rows[row]), " looks at ", ...list);
  }

  hover(row, column) {
    if (row === this.state.row && column === this.state.column) return;
    Object.assign(this.state, { row, column });
    this.say();
    this.schedule();
  }

  // Where things are. Labels are measured, so that they never overlap.
  layout() {
    const context = this.context;
    const { rows, columns } = this.cells;
    const [width, height] = [this.stage.clientWidth, this.stage.clientHeight];
    context.font = `${LABEL}px ${FONT}`;
    const widest = (labels) => labels.reduce((most, label) => Math.max(most, context.measureText(label.slice(0, 40)).width), 0);
    const left = Math.min(widest(rows), clamp(0.35 * width, 110, 230)) + 18;
    const pitch = (room, count, closest, most) => {
      const all = Math.min(room / count, most); // everything in sight
      return Math.max(all, (count <= READABLE ? Math.max(all, closest) : all) * this.state.zoom);
    };
    let cell = pitch(width - left - 16, columns.length, COLUMN, 130);
    const flat = widest(columns) + 10 <= cell;
    const longest = Math.min(widest(columns), 110);
    const top = flat ? 30 : longest * 0.71 + 20;
    if (!flat) cell = pitch(width - left - 16 - longest * 0.6, columns.length, COLUMN, 130);
    const tall = pitch(height - top - 10, rows.length, ROW, 70);
    const size = { width: left + columns.length * cell + (flat ? 16 : longest * 0.6 + 16), height: top + rows.length * tall + 10 };
    return { width, height, left, top, cell, tall, flat, size, longest };
  }

  resize(size) {
    const [width, height] = [this.stage.clientWidth, this.stage.clientHeight];
    const ratio = window.devicePixelRatio || 1;
    this.world.style.width = `${Math.max(Math.floor(size.width), width)}px`;
    this.world.style.height = `${Math.max(Math.floor(size.height), height)}px`;
    const pixels = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== pixels[0] || this.canvas.height !== pixels[1]) [this.canvas.width, this.canvas.height] = pixels;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.fillStyle = colour("ground");
    this.context.fillRect(0, 0, width, height);
  }

  draw() {
    if (!this.stage.clientWidth) return;
    this.context = this.canvas.getContext("2d");
    this.ink = { ground: colour("ground"), ink: colour("ink"), muted: colour("muted"), rule: colour("rule"), accent: colour("accent") };
    const draw = { matrix: this.drawCells, positions: this.drawCells, sentence: this.drawSentence, grid: this.drawGrid }[this.state.view];
    const room = () => `${this.stage.clientWidth} ${this.stage.clientHeight}`;
    const before = room();
    draw.call(this);
    if (room() !== before) draw.call(this); // scroll bars have come or gone
  }

  drawCells() {
    const { context, state, cells, ink } = this;
    const at = this.place = this.layout();
    this.resize(at.size);
    const [x, y] = [at.left - this.stage.scrollLeft, at.top - this.stage.scrollTop];
    const [columns, rows] = [cells.columns.length, cells.rows.length];
    this.image ??= paint(cells, state.colours, this.palette);
    context.save();
    context.beginPath();
    context.rect(at.left, at.top, at.width - at.left, at.height - at.top);
    context.clip();
    context.imageSmoothingEnabled = at.cell < 1 || at.tall < 1; // smaller than a pixel: average, do not drop
    context.imageSmoothingQuality = "high";
    context.drawImage(this.image, x, y, columns * at.cell, rows * at.tall);
    const seen = {
      rows: [Math.max(0, Math.floor((at.top - y) / at.tall)), Math.min(rows, Math.ceil((at.height - y) / at.tall))],
      columns: [Math.max(0, Math.floor((at.left - x) / at.cell)), Math.min(columns, Math.ceil((at.width - x) / at.cell))],
    };
    this.drawRules(x, y, seen);
    Object.assign(context, { strokeStyle: ink.rule, lineWidth: 1 }); // the view before may have drawn thick lines
    context.strokeRect(x - 0.5, y - 0.5, columns * at.cell + 1, rows * at.tall + 1);
    if (state.view === "matrix" && this.layer.isAway(state.head)) this.cross(x, y, columns * at.cell, rows * at.tall);
    Object.assign(context, { strokeStyle: ink.accent, lineWidth: 2 });
    if (state.row !== null) context.strokeRect(x, y + state.row * at.tall, columns * at.cell, Math.max(at.tall, 2));
    if (state.column !== null) context.strokeRect(x + state.column * at.cell, y, Math.max(at.cell, 2), rows * at.tall);
    context.restore();
    this.drawLabels(x, y, seen);
  }

  cross(x, y, wide, tall) { // over a head that is knocked out
    const { context, ink } = this;
    Object.assign(context, { strokeStyle: ink.accent, lineWidth: 1.5 });
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + wide, y + tall);
    context.moveTo(x + wide, y);
    context.lineTo(x, y + tall);
    context.stroke();
  }

  drawRules(x, y, seen) { // lines between the cells and numbers in them, where there is room
    const { context, cells, place: at, ink, state } = this;
    if (Math.min(at.cell, at.tall) < 10) return;
    context.fillStyle = ink.ground;
    for (let r = seen.rows[0] + 1; r < seen.rows[1]; r += 1) context.fillRect(x, y + r * at.tall - 0.5, cells.columns.length * at.cell, 1);
    for (let c = seen.columns[0] + 1; c < seen.columns[1]; c += 1) context.fillRect(x + c * at.cell - 0.5, y, 1, cells.rows.length * at.tall);
    if (at.cell < 50 || at.tall < 24 || (state.view !== "positions" && this.layer.isAway(state.head))) return;
    const pixels = this.image.pixels;
    Object.assign(context, { font: `${SMALL}px ${FONT}`, textAlign: "center", textBaseline: "middle" });
    for (let r = seen.rows[0]; r < seen.rows[1]; r += 1) {
      for (let c = seen.columns[0]; c < seen.columns[1]; c += 1) {
        const i = r * cells.columns.length + c;
        const light = 0.3 * pixels[4 * i] + 0.59 * pixels[4 * i + 1] + 0.11 * pixels[4 * i + 2];
        context.fillStyle = light > 140 ? "#1b1f24" : "#ffffff";
        context.fillText(cells.values[i] < 0.005 ? "0" : cells.values[i].toFixed(2), x + (c + 0.5) * at.cell, y + (r + 0.5) * at.tall);
      }
    }
  }

  fit(text, width) { // cut to a width; measured from an estimate, for speed
    const context = this.context;
    if (text.length < 60 && context.measureText(text).width <= width) return text;
    let end = Math.min(text.length, 60);
    while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
    return `${text.slice(0, end)}…`;
  }

  drawLabels(x, y, seen) {
    const { context, cells, state, place: at, ink } = this;
    const show = (chosen) => { context.font = `${chosen ? "600 " : ""}${LABEL}px ${FONT}`; context.fillStyle = chosen ? ink.accent : ink.ink; };
    const near = (one, chosen, pitch, room) => chosen !== null && one !== chosen && Math.abs(one - chosen) * pitch < room;
    context.textBaseline = "middle";
    context.textAlign = "right";
    const stepRows = Math.ceil(ROW / at.tall);
    for (let r = seen.rows[0]; r < seen.rows[1]; r += 1) {
      if ((r % stepRows && r !== state.row) || near(r, state.row, at.tall, ROW)) continue;
      const middle = y + (r + 0.5) * at.tall;
      if (middle < at.top) continue;
      show(r === state.row);
      context.fillText(this.fit(cells.rows[r], at.left - 16), at.left - 8, middle);
    }
    const apart = at.flat ? 1 : COLUMN;
    const stepColumns = Math.ceil(apart / at.cell);
    for (let c = seen.columns[0]; c < seen.columns[1]; c += 1) {
      if ((c % stepColumns && c !== state.column) || near(c, state.column, at.cell, apart)) continue;
      const middle = x + (c + 0.5) * at.cell;
      if (middle < at.left) continue;
      show(c === state.column);
      context.save();
      context.translate(middle + (at.flat ? 0 : 3), at.top - (at.flat ? 14 : 8));
      if (!at.flat) context.rotate(-Math.PI / 4);
      context.textAlign = at.flat ? "center" : "left";
      context.fillText(this.fit(cells.columns[c], at.flat ? at.cell : at.longest), 0, 0);
      context.restore();
    }
  }

  drawSentence() {
    const { context, state, cells, ink } = this;
    const [rows, columns] = [cells.rows.length, cells.columns.length];
    const [width, height] = [this.stage.clientWidth, this.stage.clientHeight];
    const longest = Math.max(rows, columns);
    const pitch = clamp((height - 24) / longest, 22, 42);
    this.resize({ width, height: longest * pitch + 24 });
    const tall = Math.max(height, longest * pitch + 24) - this.stage.scrollTop * 2;
    const tops = [rows, columns].map((count) => (tall - count * pitch) / 2);
    const [left, right] = [width * 0.33, width * 0.58];
    this.place = { left, right, tops, pitch, middle: (left + right) / 2 };
    const size = pitch > 28 ? 18 : 16;
    const centre = (side, one) => tops[side] + (one + 0.5) * pitch;
    const weight = (r, c) => cells.values[r * columns + c];

    const lines = this.lines(weight);
    const top = state.row === null && state.column === null ? 1 : lines.reduce((most, [r, c]) => Math.max(most, weight(r, c)), 0) || 1;
    for (const [r, c] of lines) {
      const [from, to] = [centre(0, r), centre(1, c)];
      if (Math.max(from, to) < 0 || Math.min(from, to) > height) continue;
      const share = weight(r, c) / top;
      if (share < 0.01) continue;
      context.beginPath();
      context.moveTo(left + 8, from);
      context.bezierCurveTo((left + right) / 2, from, (left + right) / 2, to, right - 8, to);
      const step = 3 * Math.round(255 * (0.4 + 0.45 * share));
      context.strokeStyle = `rgb(${this.palette.slice(step, step + 3).join(" ")} / ${0.25 + 0.7 * share})`;
      context.lineWidth = 0.5 + 11 * share;
      context.stroke();
    }
    context.textBaseline = "middle";
    const word = (text, x, y, align, chosen, faded) => {
      if (y < -20 || y > height + 20) return;
      Object.assign(context, { font: `${chosen ? "600 " : ""}${size}px ${FONT}`, textAlign: align, fillStyle: chosen ? ink.accent : faded ? ink.muted : ink.ink });
      context.fillText(this.fit(text, width * (align === "left" ? 0.22 : 0.3)), x, y);
    };
    cells.rows.forEach((text, r) => word(text, left, centre(0, r), "right", r === state.row, state.row !== null));
    cells.columns.forEach((text, c) => word(text, right, centre(1, c), "left", c === state.column, false));
    this.drawBars(lines, weight, top, centre);
  }

  lines(weight) { // of one word; or of all; or, if that is too many, each row's strongest
    const { row, column } = this.state;
    const [rows, columns] = [[...this.cells.rows.keys()], [...this.cells.columns.keys()]];
    let pairs;
    if (row !== null) pairs = columns.map((c) => [row, c]);
    else if (column !== null) pairs = rows.map((r) => [r, column]);
    else if (rows.length * columns.length <= 2500) pairs = rows.flatMap((r) => columns.map((c) => [r, c]));
    else pairs = rows.map((r) => [r, columns.reduce((best, c) => (weight(r, c) > weight(r, best) ? c : best), 0)]);
    return pairs.sort((a, b) => weight(...a) - weight(...b));
  }

  drawBars(lines, weight, top, centre) { // beside the keys, or the queries
    const { context, state, place: at, ink } = this;
    if (state.row === null && state.column === null) return;
    const forward = state.row !== null;
    const width = this.stage.clientWidth;
    context.font = `18px ${FONT}`;
    const labels = forward ? this.cells.columns : this.cells.rows;
    const widest = labels.reduce((most, label) => Math.max(most, context.measureText(label.slice(0, 60)).width), 0);
    const start = forward ? at.right + Math.min(widest, width * 0.22) + 16 : at.left - Math.min(widest, width * 0.3) - 16;
    const longest = Math.max(0, Math.min(170, (forward ? width - start : start) - 60));
    Object.assign(context, { font: `${LABEL}px ${FONT}`, textBaseline: "middle", textAlign: forward ? "left" : "right" });
    for (const [r, c] of lines) {
      const y = forward ? centre(1, c) : centre(0, r);
      if (weight(r, c) < 0.005 || y < -20 || y > this.stage.clientHeight + 20) continue;
      const length = longest * weight(r, c) / top;
      const step = 3 * 150;
      context.fillStyle = `rgb(${this.palette.slice(step, step + 3).join(" ")})`;
      context.fillRect(forward ? start : start - length, y - Math.min(8, at.pitch * 0.3), length, Math.min(16, at.pitch * 0.6));
      context.fillStyle = ink.muted;
      context.fillText(weight(r, c).toFixed(2), forward ? start + length + 8 : start - length - 8, y);
    }
  }

  drawGrid() {
    const { context, ink, tab, peers } = this;
    const [width, height] = [this.stage.clientWidth, this.stage.clientHeight];
    const across = Math.max(...peers.map((layer) => layer.stored));
    const [gap, title] = [12, 28];
    const wide = clamp((width - gap) / across - gap, 96, 420);
    const tall = clamp((height - gap) / peers.length - gap - title, 64, 320);
    this.place = { wide, tall, gap, title };
    this.resize({ width: gap + across * (wide + gap), height: gap + peers.length * (tall + title + gap) });
    this.thumbnails ??= new Map();
    const top = this.state.colours === "largest" ? this.gridTop() : 1;
    peers.forEach((layer, down) => {
      for (let head = 0; head < layer.stored; head += 1) {
        const x = gap + head * (wide + gap) - this.stage.scrollLeft;
        const y = gap + down * (tall + title + gap) - this.stage.scrollTop;
        if (x > width || y > height || x + wide < 0 || y + tall + title < 0) continue;
        const key = `${layer.site}.${head}`;
        if (!this.thumbnails.has(key)) {
          // all squares share one scale: as shares of the largest weight of the stack
          const cells = { rows: layer.queries, columns: layer.keys, values: layer.table(head).map((value) => value / top) };
          this.thumbnails.set(key, paint(cells, this.state.colours === "row" ? "row" : "one", this.palette));
        }
        const out = tab.knockedOut.includes(key);
        const name = layer.shortName(head) + (out ? " (out)" : "");
        Object.assign(context, { font: `${SMALL}px ${FONT}`, textAlign: "left", textBaseline: "middle", fillStyle: out ? ink.accent : ink.muted });
        const short = context.measureText(name).width > wide ? `L${layer.number} H${head}${out ? " out" : ""}` : name;
        context.fillText(short, x, y + title / 2 - 2);
        context.imageSmoothingEnabled = layer.keys.length > wide || layer.queries.length > tall;
        context.drawImage(this.thumbnails.get(key), x, y + title, wide, tall);
        Object.assign(context, { strokeStyle: ink.rule, lineWidth: 1 });
        context.strokeRect(x - 0.5, y + title - 0.5, wide + 1, tall + 1);
        if (out) this.cross(x, y + title, wide, tall);
      }
    });
  }

  find(event) { // the row and column, word or thumbnail under the pointer
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const at = this.place;
    const inside = (one, count) => (one >= 0 && one < count ? one : null);
    const [rows, columns] = [this.cells.rows.length, this.cells.columns.length];
    if (this.state.view === "grid") {
      const down = inside(Math.floor((y + this.stage.scrollTop - at.gap) / (at.tall + at.title + at.gap)), this.peers.length);
      const head = down === null ? null : inside(Math.floor((x + this.stage.scrollLeft - at.gap) / (at.wide + at.gap)), this.peers[down].stored);
      return [down, head];
    }
    if (this.state.view === "sentence") {
      const side = x < at.middle ? 0 : 1;
      const one = inside(Math.floor((y - at.tops[side]) / at.pitch), side ? columns : rows);
      return side ? [null, one] : [one, null];
    }
    const row = y < at.top ? null : inside(Math.floor((y + this.stage.scrollTop - at.top) / at.tall), rows);
    const column = x < at.left ? null : inside(Math.floor((x + this.stage.scrollLeft - at.left) / at.cell), columns);
    return [row, column];
  }

  point(event) {
    const [row, column] = this.find(event);
    if (this.state.view === "grid") { this.stage.style.cursor = column === null ? "" : "pointer"; return; }
    this.stage.style.cursor = "";
    if (row === null && column === null) this.hover(this.state.pinned, null);
    else this.hover(row, column);
  }

  click(event) {
    const [row, column] = this.find(event);
    if (this.state.view !== "grid") { this.state.pinned = row === this.state.pinned ? null : row; this.hover(row, column); return; }
    if (row === null || column === null) return;
    const layer = this.peers[row];
    this.set({ site: layer.site, head: layer.stored > 1 ? column : null, view: "matrix" });
  }

  key(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const { state, cells } = this;
    if (event.key === "Escape") { state.pinned = null; this.hover(null, null); return; }
    if (event.key === "Enter") { state.pinned = state.row; return; }
    if (!moves[event.key] || state.view === "grid") return;
    event.preventDefault();
    const [down, right] = moves[event.key];
    const row = clamp((state.row ?? (down ? -1 : 0)) + down, 0, cells.rows.length - 1);
    const column = state.view === "sentence" ? null : clamp((state.column ?? (right ? -1 : 0)) + right, 0, cells.columns.length - 1);
    this.hover(row, column);
    this.reveal(row, column);
  }

  reveal(row, column) { // scroll so that the chosen cell or word is in sight
    const { stage, place: at } = this;
    const into = (start, size, edge, now, room) => (start < now + edge ? start - edge : start + size > now + room ? start + size - room : now);
    if (this.state.view === "sentence") { stage.scrollTop = into(row * at.pitch, at.pitch + 24, 0, stage.scrollTop, stage.clientHeight); return; }
    stage.scrollTop = into(at.top + row * at.tall, at.tall, at.top, stage.scrollTop, stage.clientHeight);
    stage.scrollLeft = into(at.left + column * at.cell, at.cell, at.left, stage.scrollLeft, stage.clientWidth);
  }
}

const button = document.getElementById("theme");
const dark = window.matchMedia("(prefers-color-scheme: dark)");
function setTheme(theme) {
  root.dataset.theme = theme;
  button.setAttribute("aria-pressed", theme === "dark");
}
setTheme(wanted.get("theme") ?? (dark.matches ? "dark" : "light"));
const viewers = [...document.querySelectorAll("section.look")].map((section, place) => new Viewer(section, place === 0));
const change = (theme) => { setTheme(theme); for (const viewer of viewers) viewer.refresh(); };
button.addEventListener("click", () => change(root.dataset.theme === "dark" ? "light" : "dark"));
dark.addEventListener("change", () => change(dark.matches ? "dark" : "light"));
