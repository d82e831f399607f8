"use strict";
// Draws attention over an image. The page holds the image and the weights of every layer and head
// (and their rollout) as JSON; pointing at a patch shows its row over the image.
// An address may end in #site=encoder.1.self&head=2&row=7.

const data = JSON.parse(document.getElementById("data").textContent);
const hex = JSON.parse(document.getElementById("colours").textContent);
const PALETTE = Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16));
const DENSEST = 0.85; // how much of the image the largest weight hides
const ACCENT = "#0072b2", MUTED = "#57606a", RULE = "#d0d7de";
const FONT = '18px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';
const [ROWS, COLUMNS] = data.grid;
const PATCHES = ROWS * COLUMNS, TOKENS = data.first + PATCHES;
const wanted = new URLSearchParams(location.hash.slice(1));
const find = (id) => document.getElementById(id);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const number = (value) => value.toFixed(value > 0 && value < 0.0095 ? 4 : 3);

function decode(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return data.bytes === 1 ? bytes : new Uint16Array(bytes.buffer); // little-endian, as every browser's host
}

class Layer {
  constructor(stored) {
    Object.assign(this, stored);
    this.out = new Set(stored.out);
  }

  heard(head) { // the heads that count: one, or all that were not removed
    const all = head === null ? [...Array(this.heads).keys()] : [head];
    return all.filter((one) => !this.out.has(one));
  }

  row(head, token) { // where a token looks, (tokens,); null is the mean of the patches
    this.raw ??= decode(this.data);
    const heads = this.heard(head);
    const queries = token === null ? Array.from({ length: PATCHES }, (_, i) => data.first + i) : [token];
    const sum = new Float64Array(TOKENS);
    const most = data.bytes === 1 ? 255 : 65535;
    for (const one of heads) {
      for (const query of queries) {
        const start = (one * TOKENS + query) * TOKENS;
        for (let key = 0; key < TOKENS; key += 1) {
          const share = this.raw[start + key] / most;
          sum[key] += (data.bytes === 1 ? share * share : share) * this.top / (heads.length * queries.length);
        }
      }
    }
    return sum;
  }
}

function largest(values) {
  return values.reduce((most, value) => Math.max(most, value), 0);
}

// The weights as an image of one pixel a patch: a veil, clear at the smallest weight and densest at the largest.
function veil(patches) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [COLUMNS, ROWS];
  const image = new ImageData(COLUMNS, ROWS);
  const low = patches.reduce((least, value) => Math.min(least, value), Infinity), span = largest(patches) - low || 1;
  patches.forEach((value, i) => {
    image.data.set([...PALETTE.slice(-3), Math.round(255 * DENSEST * (value - low) / span)], 4 * i);
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
}

class Viewer {
  constructor() {
    this.layers = data.layers.map((stored) => new Layer(stored));
    const head = wanted.has("head") ? Number(wanted.get("head")) : data.start.head;
    const row = wanted.has("row") ? Number(wanted.get("row")) : data.start.row;
    this.state = { site: wanted.get("site") ?? data.start.site, head, row, pinned: row, original: data.start.original };
    this.map = find("map");
    this.photo = this.load(data.image);
    this.before = data.original ? this.load(data.original) : null;
    find("original").hidden = !this.before;
    this.fill();
    this.listen();
    this.draw();
  }

  load(address) {
    const image = new Image();
    image.addEventListener("load", () => this.draw());
    image.src = address;
    return image;
  }

  get layer() { return this.layers.find((one) => one.site === this.state.site) ?? this.layers.at(-1); }

  fill() {
    const option = (value, text) => Object.assign(document.createElement("option"), { value, textContent: text });
    find("layer").replaceChildren(...this.layers.map((one) => option(one.site, one.name.replace("layer ", ""))));
    find("layer").value = this.layer.site;
    const heads = this.layer.heads > 1 ? [...Array(this.layer.heads).keys()] : [];
    if (this.state.head !== null && !heads.includes(this.state.head)) this.state.head = null;
    const name = (one) => `${one}${this.layer.out.has(one) ? " (out)" : ""}`;
    find("head").replaceChildren(option("", "mean"), ...heads.map((one) => option(one, name(one))));
    find("head").value = this.state.head ?? "";
    find("class").textContent = data.row === null ? "Mean of patches" : data.names[data.row];
  }

  set(change) {
    Object.assign(this.state, change);
    this.fill();
    this.draw();
  }

  listen() {
    find("layer").addEventListener("change", (event) => this.set({ site: event.target.value }));
    find("head").addEventListener("change", (event) => this.set({ head: event.target.value === "" ? null : Number(event.target.value) }));
    find("class").addEventListener("click", () => this.set({ row: data.row, pinned: data.row }));
    find("original").addEventListener("click", () => this.set({ original: !this.state.original }));
    this.map.addEventListener("pointermove", (event) => this.point(this.patchAt(event)));
    this.map.addEventListener("pointerleave", () => this.point(this.state.pinned));
    this.map.addEventListener("click", (event) => {
      const row = this.patchAt(event);
      this.state.pinned = row === this.state.pinned ? data.row : row;
      this.point(row);
    });
    this.map.addEventListener("keydown", (event) => this.key(event));
    find("thumbnails").addEventListener("click", (event) => this.open(event));
    window.addEventListener("resize", () => this.draw());
  }

  patchAt(event) {
    const box = this.map.getBoundingClientRect();
    const right = clamp(Math.floor((event.clientX - box.left) / box.width * COLUMNS), 0, COLUMNS - 1);
    const down = clamp(Math.floor((event.clientY - box.top) / box.height * ROWS), 0, ROWS - 1);
    return data.first + down * COLUMNS + right;
  }

  point(row) {
    if (row === this.state.row) return;
    this.state.row = row;
    this.drawMap();
  }

  key(event) {
    const moves = { ArrowUp: -COLUMNS, ArrowDown: COLUMNS, ArrowLeft: -1, ArrowRight: 1 };
    if (event.key === "Escape") this.set({ row: data.row, pinned: data.row });
    if (!moves[event.key]) return;
    event.preventDefault();
    const now = this.state.row === null || this.state.row < data.first ? null : this.state.row;
    const row = now === null ? data.first : clamp(now + moves[event.key], data.first, TOKENS - 1);
    this.state.pinned = row;
    this.point(row);
  }

  open(event) {
    const { line, column } = this.cell;
    const box = find("thumbnails").getBoundingClientRect();
    const layer = this.layers[Math.floor((event.clientY - box.top - this.cell.top) / line)];
    const place = Math.floor((event.clientX - box.left - this.cell.left) / column);
    if (!layer || place < 0) return;
    this.set({ site: layer.site, head: place < layer.heads && layer.heads > 1 ? place : null });
  }

  draw() {
    this.drawMap();
    this.drawThumbnails();
    find("original").setAttribute("aria-pressed", this.state.original);
  }

  drawMap() {
    const { state } = this;
    const original = state.original && this.before?.complete && this.before.naturalWidth;
    const [height, width] = original ? [this.before.naturalHeight, this.before.naturalWidth] : data.size;
    const phone = window.innerWidth <= 760;
    const top = find("map").getBoundingClientRect().top + window.scrollY;
    const room = phone ? [window.innerWidth - 24, 0.6 * window.innerHeight] : [0.52 * window.innerWidth, window.innerHeight - top - 16];
    const factor = Math.min(room[0] / width, Math.max(room[1], 240) / height);
    const [wide, tall] = [Math.round(width * factor), Math.round(height * factor)];
    const context = prepare(this.map, wide, tall);
    const photo = original ? this.before : this.photo;
    const row = this.layer.row(state.head, state.row);
    const patches = row.subarray(data.first);
    const most = largest(patches);
    context.imageSmoothingEnabled = Math.min(height, width) >= 64;
    if (photo.complete && photo.naturalWidth) context.drawImage(photo, 0, 0, wide, tall);
    if (!original) { // the original may show more than the model reads: nothing is drawn over it
      context.imageSmoothingEnabled = false;
      context.drawImage(veil(patches), 0, 0, wide, tall);
      this.outline(context, state.row, wide, tall);
    }
    this.say(row, most, original);
    const bar = find("scale").getContext("2d"), image = new ImageData(256, 1);
    for (let i = 0; i < 256; i += 1) image.data.set([PALETTE[3 * i], PALETTE[3 * i + 1], PALETTE[3 * i + 2], 255], 4 * i);
    bar.putImageData(image, 0, 0);
    find("most").textContent = number(most);
  }

  outline(context, row, wide, tall) {
    if (row === null || row < data.first) return;
    const place = row - data.first, [w, h] = [wide / COLUMNS, tall / ROWS];
    Object.assign(context, { strokeStyle: ACCENT, lineWidth: 3 });
    context.strokeRect((place % COLUMNS) * w + 1, Math.floor(place / COLUMNS) * h + 1, w - 2, h - 2);
  }

  say(row, most, original) {
    const { state, layer } = this;
    const who = state.row === null ? "The mean patch" : state.row < data.first ? data.names[state.row] : `Patch ${data.names[state.row]}`;
    const head = layer.site === "rollout" ? "" : layer.heads === 1 || state.head === null ? ", mean of heads" : `, head ${state.head}`;
    const patches = row.subarray(data.first);
    const best = patches.indexOf(most);
    const rest = data.first ? ` ${Math.round(100 * row.subarray(0, data.first).reduce((sum, value) => sum + value, 0))}% of the weight stays with ${data.names.slice(0, data.first).join(", ")}.` : "";
    const gone = layer.heard(state.head).length ? "" : " This head is knocked out.";
    const text = `${who} looks most at patch ${data.names[data.first + best]}, with ${number(most)} (${layer.name}${head}).${rest}${gone}`;
    document.querySelector(".reading").textContent = original ? `The original. ${text}` : text;
  }

  drawThumbnails() {
    const canvas = find("thumbnails");
    const across = Math.max(...this.layers.map((one) => (one.heads > 1 ? one.heads + 1 : 1)));
    const room = canvas.parentElement.clientWidth;
    const [left, top] = [92, 28];
    const column = clamp((room - left) / across, 12, 120);
    const line = Math.max(column * data.size[0] / data.size[1], 22);
    this.cell = { left, top, column, line };
    const context = prepare(canvas, room, top + this.layers.length * line);
    Object.assign(context, { font: FONT, textBaseline: "middle", fillStyle: MUTED });
    const every = Math.ceil(26 / column);
    for (let place = 0; place < across - 1; place += every) context.fillText(`${place}`, left + place * column + 2, 16);
    if (across > 1) context.fillText(column < 50 ? "∅" : "mean", left + (across - 1) * column + 2, 16);
    context.fillText("head", 0, 16);
    this.layers.forEach((layer, down) => {
      const y = top + down * line;
      context.fillStyle = MUTED;
      context.fillText(layer.name, 0, y + line / 2);
      const heads = layer.heads > 1 ? [...Array(layer.heads).keys(), null] : [null];
      heads.forEach((head) => {
        const x = left + (head ?? across - 1) * column;
        const patches = layer.row(head, data.row).subarray(data.first);
        const [wide, tall] = [column - 3, Math.min(line - 3, (column - 3) * data.size[0] / data.size[1])];
        context.imageSmoothingEnabled = Math.min(...data.size) >= 64;
        if (this.photo.complete && this.photo.naturalWidth) context.drawImage(this.photo, x, y, wide, tall);
        context.imageSmoothingEnabled = false;
        context.drawImage(veil(patches), x, y, wide, tall);
        const chosen = layer === this.layer && (head === this.state.head || layer.heads === 1);
        Object.assign(context, { strokeStyle: chosen ? ACCENT : RULE, lineWidth: chosen ? 3 : 1 });
        context.strokeRect(x, y, wide, tall);
      });
    });
  }
}

const viewers = [new Viewer()];
