"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const state = JSON.parse($("state").textContent);
  const root = document.documentElement;

  // ---- light and dark theme
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const showTheme = () => {
    $("theme").setAttribute("aria-pressed", String(isDark()));
    $("theme").textContent = isDark() ? "Light" : "Dark";
    $("theme").setAttribute("aria-label", isDark() ? "Switch to light colors" : "Switch to dark colors");
  };
  $("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("tgnn-theme", root.dataset.theme); } catch { /* storage may be blocked */ }
    showTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
  showTheme();

  // ---- tables: sort by a column, filter rows by words
  const value = (row, column) => {
    const text = row.cells[column].dataset.value;
    if (text === undefined) return null;
    return text !== "" && !isNaN(text) ? Number(text) : text;
  };
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true }));
  const sort = (box, column, direction) => {
    const body = box.querySelector("tbody");
    const rows = [...body.rows].map((row) => [value(row, column), row]);
    rows.sort(([a], [b]) => (a === null || b === null ? (a === null) - (b === null) : direction * compare(a, b)));
    body.append(...rows.map(([, row]) => row));
    box.querySelectorAll("thead th").forEach((head, place) => head.setAttribute("aria-sort", place !== column ? "none" : direction > 0 ? "ascending" : "descending"));
  };
  const filter = (box) => {
    const words = box.querySelector("input").value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = [...box.querySelectorAll("tbody tr")];
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
    const left = rows.filter((row) => !row.hidden).length;
    box.querySelector(".shown").textContent = words.length ? `${left} of ${rows.length} rows` : "";
  };
  document.addEventListener("click", (event) => {
    const head = event.target.closest("thead th");
    if (head && event.target.closest("button")) {
      const first = head.classList.contains("number") ? "descending" : "ascending";
      const now = head.getAttribute("aria-sort");
      const next = now === "none" ? first : now === "ascending" ? "descending" : "ascending";
      sort(head.closest(".table"), head.cellIndex, next === "ascending" ? 1 : -1);
    }
    const opener = event.target.closest("[data-opens]");
    if (opener) open(opener.dataset.opens, opener.textContent);
    const copier = event.target.closest("[data-copies]");
    if (copier) copy(copier, $(copier.dataset.copies));
  });
  document.addEventListener("input", (event) => {
    const box = event.target.closest(".table");
    if (box) filter(box);
  });

  // ---- copy a recipe to the clipboard
  const copy = async (button, source) => {
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch { // the clipboard may be blocked: select the text instead
      getSelection().selectAllChildren(source);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  };

  // ---- details of a run
  const dialog = $("dialog");
  const fill = (key, title) => {
    const found = $(key);
    if (!found) return;
    $("dialog-title").textContent = title;
    $("dialog-body").replaceChildren(found.content.cloneNode(true));
    dialog.dataset.key = key;
  };
  const open = (key, title) => {
    fill(key, title);
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  };
  $("close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

  // ---- values of the curves at the pointer
  const readout = $("readout");
  const digits = (x) => (Math.abs(x) >= 1000 || Number.isInteger(x) ? String(Math.round(x)) : String(Number(x.toPrecision(4))));
  const points = (path) => (path.places ??= path.getAttribute("d").slice(1).split(/[ML]/).filter(Boolean).map((pair) => pair.split(" ").map(Number)));
  document.addEventListener("pointermove", (event) => {
    const svg = event.target.closest?.("svg[data-x]");
    readout.hidden = true;
    if (!svg) return;
    const [low, high, start, end, log2] = svg.dataset.x.split(" ").map(Number);
    const box = svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    if (at < start - 6 || at > end + 6) return;
    let nearest = null;
    const lines = [];
    for (const path of svg.querySelectorAll("path.curve")) {
      const found = points(path).reduce((best, point) => (best === null || Math.abs(point[0] - at) <= Math.abs(best[0] - at) ? point : best), null);
      if (!found) continue;
      if (nearest === null || Math.abs(found[0] - at) < Math.abs(nearest - at)) nearest = found[0];
      const [yLow, yHigh, yStart, yEnd] = path.dataset.y.split(" ").map(Number);
      lines.push(`${path.dataset.name}  ${digits(yLow + ((found[1] - yStart) / (yEnd - yStart)) * (yHigh - yLow))}`);
    }
    if (!lines.length) return;
    const share = (nearest - start) / (end - start);
    const x = log2 ? low * (high / low) ** share : low + share * (high - low);
    readout.textContent = [`${svg.dataset.xName}  ${Math.round(x)}`, ...lines].join("\n");
    (dialog.open ? dialog : document.body).append(readout);
    readout.hidden = false;
    readout.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - readout.offsetWidth - 4))}px`;
    readout.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - readout.offsetHeight - 4))}px`;
  });

  // ---- live updates: replace the contents, keep sorting, filters, scrolling and focus
  const remember = () => ({
    sorted: [...document.querySelectorAll("thead th:not([aria-sort=none])")].map((head) => [head.closest(".table").id, head.cellIndex, head.getAttribute("aria-sort") === "ascending" ? 1 : -1]),
    filtered: [...document.querySelectorAll(".table input")].map((input) => [input.id, input.value]),
    open: [...document.querySelectorAll("main details[open]")].map((details) => details.id),
    aside: [...document.querySelectorAll("main .table")].map((box) => [box.id, box.querySelector(".scroll").scrollLeft]),
    focus: document.activeElement?.id,
    place: [scrollX, scrollY],
  });
  const restore = (kept) => {
    for (const [id, column, direction] of kept.sorted) if ($(id)) sort($(id), column, direction);
    for (const [id, text] of kept.filtered) if (text && $(id)) { $(id).value = text; filter($(id).closest(".table")); }
    for (const id of kept.open) if ($(id)) $(id).open = true;
    for (const [id, left] of kept.aside) if ($(id)) $(id).querySelector(".scroll").scrollLeft = left;
    if (kept.focus && !dialog.open) $(kept.focus)?.focus({ preventScroll: true });
    scrollTo({ left: kept.place[0], top: kept.place[1], behavior: "instant" });
  };
  const refresh = async () => {
    try {
      const answer = await fetch(location.pathname, { headers: { "If-None-Match": `"${state.stamp}"` }, cache: "no-store" });
      $("live").textContent = "live";
      $("live").classList.remove("lost");
      if (answer.status !== 200) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const kept = remember();
      for (const id of ["facts", "contents", "content"]) $(id).replaceWith(document.adoptNode(fresh.getElementById(id)));
      state.stamp = JSON.parse(fresh.getElementById("state").textContent).stamp;
      restore(kept);
      if (dialog.open) {
        const left = dialog.scrollTop;
        const title = $("dialog-title").textContent;
        const same = [...document.querySelectorAll("[data-opens]")].find((opener) => opener.textContent === title);
        if (same) fill(same.dataset.opens, title);
        dialog.scrollTop = left;
      }
    } catch {
      $("live").textContent = "disconnected";
      $("live").classList.add("lost");
    }
  };
  if (state.live) setInterval(refresh, 2000);
})();
