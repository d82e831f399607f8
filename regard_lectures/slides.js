"use strict";
// Steps through the sections of the page: arrow keys, buttons, a click on the page, or a swipe.
// Without this script all sections stand under each other.
(() => {
  const slides = [...document.querySelectorAll(".slide")];
  const back = document.getElementById("back");
  const next = document.getElementById("next");
  const count = document.getElementById("count");
  const stage = document.getElementById("stage");
  const range = document.querySelector("footer input");
  const names = [...document.querySelectorAll("footer nav button")];
  const root = document.documentElement;
  let at = 0;

  function show(number, remember = true) {
    at = Math.max(0, Math.min(slides.length - 1, number));
    slides.forEach((slide, place) => { slide.hidden = place !== at; });
    names.forEach((name, place) => {
      if (place === at) name.setAttribute("aria-current", "step");
      else name.removeAttribute("aria-current");
    });
    if (range) range.value = String(at);
    back.disabled = at === 0;
    next.disabled = at === slides.length - 1;
    count.textContent = `${at + 1} / ${slides.length}`;
    stage.scrollTop = 0;
    if (remember) {
      try { history.replaceState(null, "", `#${at + 1}`); } catch { /* inside a notebook */ }
    }
  }

  function full() {
    if (document.fullscreenElement) document.exitFullscreen();
    else if (root.requestFullscreen) root.requestFullscreen();
  }

  const moves = {
    ArrowRight: () => show(at + 1), ArrowDown: () => show(at + 1), PageDown: () => show(at + 1),
    " ": () => show(at + 1), ArrowLeft: () => show(at - 1), ArrowUp: () => show(at - 1),
    PageUp: () => show(at - 1), Home: () => show(0), End: () => show(slides.length - 1), f: full,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === " " && event.target.closest("button")) return;
    if (event.target === range && event.key.startsWith("Arrow")) return;
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    move();
  });
  back.addEventListener("click", () => show(at - 1));
  next.addEventListener("click", () => show(at + 1));
  names.forEach((name, place) => name.addEventListener("click", () => show(place)));
  if (range) range.addEventListener("input", () => show(Number(range.value)));

  // A click on the page goes on; on its left fifth, back. A swipe is not a click.
  let from = null;
  let swiped = false;
  stage.addEventListener("touchstart", (event) => {
    swiped = false;
    from = event.touches.length === 1 ? event.touches[0] : null;
  }, { passive: true });
  stage.addEventListener("touchend", (event) => {
    if (!from) return;
    const across = event.changedTouches[0].clientX - from.clientX;
    const down = event.changedTouches[0].clientY - from.clientY;
    from = null;
    if (Math.abs(across) < 40 || Math.abs(across) < 1.5 * Math.abs(down)) return;
    swiped = true;
    show(at + (across < 0 ? 1 : -1));
  }, { passive: true });
  stage.addEventListener("click", (event) => {
    if (swiped || event.target.closest("a, button, summary, pre, code")) return;
    if (String(getSelection())) return;
    show(at + (event.clientX < innerWidth / 5 ? -1 : 1));
  });

  const theme = document.getElementById("theme");
  function paint(dark) {
    root.dataset.theme = dark ? "dark" : "light";
    theme.setAttribute("aria-pressed", String(dark));
    theme.textContent = dark ? "Light" : "Dark";
  }
  theme.addEventListener("click", () => paint(root.dataset.theme !== "dark"));
  const button = document.getElementById("full");
  if (root.requestFullscreen) button.addEventListener("click", full);
  else button.hidden = true;

  paint(false);
  show((Number(location.hash.slice(1)) || Number(stage.dataset.start) || 1) - 1, false);
  addEventListener("hashchange", () => show((Number(location.hash.slice(1)) || 1) - 1, false));
})();
