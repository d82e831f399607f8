"use strict";
// Where a captioner looked: a veil over the image for the word that is pointed at, and marks on the
// words that looked at the place that is pointed at. An address may end in #word=3.

const data = JSON.parse(document.getElementById("data").textContent);
const hex = JSON.parse(document.getElementById("colours").textContent);
const PALETTE = Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16));
const STRONGEST = [...PALETTE.slice(-3)];
const DENSEST = 0.85; // how much of the image the largest weight hides
const [ROWS, COLUMNS] = data.grid;
const MOST = data.maps.reduce((most, map) => Math.max(most, ...map), 1e-9); // one scale for all words
const find = (id) => document.getElementById(id);
const canvas = find("map"), reading = document.querySelector(".reading");
const number = (value) => value.toFixed(value > 0 && value < 0.0095 ? 4 : 2);
const wanted = new URLSearchParams(location.hash.slice(1)).get("word");
const start = wanted === null ? data.start : Number(wanted);
const state = { word: start >= 0 && start < data.words.length ? start : null, place: null, original: data.showsOriginal };

const words = data.words.map((word, index) => {
  const span = document.createElement("span");
  span.textContent = word;
  span.setAttribute("role", "option");
  span.tabIndex = 0;
  const choose = () => { Object.assign(state, { word: index, place: null }); draw(); };
  span.addEventListener("pointerenter", choose);
  span.addEventListener("focus", choose);
  span.addEventListener("click", choose);
  find("caption").append(span, " ");
  return span;
});

const pictures = {};
for (const name of ["image", "original"]) {
  if (!data[name]) continue;
  pictures[name] = new Image();
  pictures[name].onload = () => draw();
  pictures[name].src = data[name];
}
find("original").hidden = !data.original;
find("original").addEventListener("click", () => { state.original = !state.original; draw(); });

function size() {
  const narrow = window.innerWidth <= 760;
  const widest = narrow ? window.innerWidth - 24 : Math.min(640, 0.48 * window.innerWidth);
  const highest = window.innerHeight * (narrow ? 0.5 : 0.78);
  const factor = Math.min(widest / data.size[1], highest / data.size[0]);
  return [Math.round(factor * data.size[1]), Math.round(factor * data.size[0])];
}

// The weights as an image of one pixel a cell, the denser the larger the weight.
function veil(map) {
  const small = document.createElement("canvas");
  [small.width, small.height] = [COLUMNS, ROWS];
  const image = new ImageData(COLUMNS, ROWS);
  map.forEach((value, i) => {
    image.data.set([...STRONGEST, Math.round(255 * DENSEST * Math.min(1, value / MOST))], 4 * i);
  });
  small.getContext("2d").putImageData(image, 0, 0);
  return small;
}

function draw() {
  const ratio = window.devicePixelRatio || 1, [width, height] = size();
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const picture = pictures[state.original && pictures.original ? "original" : "image"];
  context.imageSmoothingEnabled = state.original;
  if (picture.complete && picture.naturalWidth) context.drawImage(picture, 0, 0, width, height);
  context.imageSmoothingEnabled = false;
  if (state.word !== null) context.drawImage(veil(data.maps[state.word]), 0, 0, width, height);
  const shares = state.place === null ? null : data.maps.map((map) => map[state.place]);
  if (shares) {
    const [row, column] = [Math.floor(state.place / COLUMNS), state.place % COLUMNS];
    context.lineWidth = 3;
    context.strokeStyle = "#000";
    context.strokeRect(column * width / COLUMNS, row * height / ROWS, width / COLUMNS, height / ROWS);
    context.lineWidth = 1.5;
    context.strokeStyle = "#fff";
    context.strokeRect(column * width / COLUMNS, row * height / ROWS, width / COLUMNS, height / ROWS);
  }
  words.forEach((span, index) => {
    span.setAttribute("aria-selected", String(index === state.word));
    const share = shares ? Math.min(1, shares[index] / MOST) : 0;
    span.style.background = share ? `rgba(${STRONGEST.join(",")}, ${(DENSEST * share).toFixed(3)})` : "";
  });
  find("original").setAttribute("aria-pressed", String(Boolean(state.original)));
  reading.textContent = read(shares);
}

function read(shares) {
  if (shares) {
    const best = shares.indexOf(Math.max(...shares));
    const [row, column] = [Math.floor(state.place / COLUMNS), state.place % COLUMNS];
    return `Row ${row}, column ${column}, from 0: “${data.words[best]}” looked here most, with ${number(shares[best])} of its attention.`;
  }
  if (state.word === null) return "";
  const test = data.tests[state.word];
  if (!test) return `“${data.words[state.word]}”`;
  const verdicts = {
    holds: "the word needs what it looked at",
    "does not hold": "the word needs other cells more",
    "cannot tell": "this image cannot tell whether the word needs what it looked at",
  };
  return `“${data.words[state.word]}” has probability ${number(test.before)}; with the ${data.hidden[0]} of ${data.hidden[1]} cells hidden that it looked at most ${number(test.most)}, with as many others ${number(test.others)}: ${verdicts[test.verdict]}.`;
}

function placeAt(event) {
  const box = canvas.getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left) / box.width * COLUMNS);
  const row = Math.floor((event.clientY - box.top) / box.height * ROWS);
  const inside = row >= 0 && row < ROWS && column >= 0 && column < COLUMNS;
  return inside ? row * COLUMNS + column : null;
}

for (const kind of ["pointermove", "pointerdown"]) {
  canvas.addEventListener(kind, (event) => {
    Object.assign(state, { place: placeAt(event), word: null });
    draw();
  });
}
canvas.addEventListener("pointerleave", () => { state.place = null; draw(); });
window.addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!step || event.altKey || event.ctrlKey || event.metaKey) return; // Alt and an arrow: a page back
  event.preventDefault();
  const from = state.word === null ? (step > 0 ? -1 : words.length) : state.word;
  Object.assign(state, { word: Math.min(words.length - 1, Math.max(0, from + step)), place: null });
  draw();
});
window.addEventListener("resize", draw);

const bar = find("scale").getContext("2d"), shades = new ImageData(256, 1);
for (let i = 0; i < 256; i += 1) {
  const share = DENSEST * i / 255;
  shades.data.set([...STRONGEST.map((part) => Math.round(255 + (part - 255) * share)), 255], 4 * i);
}
bar.putImageData(shades, 0, 0);
find("most").textContent = `${number(MOST)} of a word's attention`;
if (state.word === null && data.words.length) state.word = 0;
draw();
