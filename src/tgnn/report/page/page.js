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
  const changeTheme = () => {
    showTheme();
    drawn().forEach(draw);
  };
  $("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("tgnn-theme", root.dataset.theme); } catch { /* storage may be blocked */ }
    changeTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changeTheme);
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
    const body = found.content.cloneNode(true);
    const redraw = reuse($("dialog-body"), body);
    $("dialog-body").replaceChildren(body);
    redraw();
    show($("dialog-body"));
  };
  const open = (key, title) => {
    fill(key, title);
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  };
  $("close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    drawn(dialog).forEach(Plotly.purge);
    $("dialog-body").replaceChildren();
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

  // ---- charts: plotly draws them when they become visible, in the colors of the theme
  const probe = document.body.appendChild(document.createElement("span"));
  probe.hidden = true;
  const withColors = (text, scheme) => {
    const resolve = (name) => {
      probe.style.colorScheme = scheme;
      probe.style.color = name;
      return getComputedStyle(probe).color;
    };
    return JSON.parse(text, (key, value) => (!key.endsWith("color") ? value : Array.isArray(value) ? value.map(resolve) : resolve(value)));
  };
  let printing = false;
  const draw = (plot) => {
    observer.unobserve(plot);
    const scheme = isDark() && !printing ? "dark" : "light";
    const width = !printing ? undefined : plot.closest(".wide") ? 640 : 320;
    const text = plot.parentElement.querySelector("script").textContent;
    const version = [scheme, width, text].join();
    if (plot.version === version) return;
    plot.version = version;
    const figure = withColors(text, scheme);
    figure.layout.template = withColors(JSON.stringify(state.template), scheme);
    figure.layout.width = width;
    plot.style.height = `${figure.layout.height}px`;
    figure.layout.uirevision = true; // keeps zoom and hidden series when the chart is drawn again
    Plotly.react(plot, figure.data, figure.layout, {
      displaylogo: false,
      modeBarButtons: [["toImage", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
      responsive: true,
      toImageButtonOptions: { filename: plot.dataset.file, scale: 2 },
    });
    // The figure has a text alternative. Single labels of its axes would not help a screen reader.
    for (const svg of plot.querySelectorAll("svg.main-svg")) svg.setAttribute("aria-hidden", "true");
  };
  const observer = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting) draw(target);
    }
  }, { rootMargin: "400px" });
  const drawn = (inside = document) => [...inside.querySelectorAll(".plot.js-plotly-plot")];
  const show = (inside) => {
    for (const plot of inside.querySelectorAll(".plot:not(.js-plotly-plot)")) {
      plot.style.height = `${plot.dataset.height}px`;
      observer.observe(plot);
    }
  };
  // Charts that stay on the page keep their zoom and their hidden series when its contents are replaced.
  const reuse = (before, after) => {
    const kept = drawn(before).filter((plot) => {
      const same = [...after.querySelectorAll(".plot")].find((other) => other.id === plot.id);
      if (same) same.replaceWith(plot);
      else Plotly.purge(plot);
      return same;
    });
    return () => kept.forEach(draw);
  };
  const print = (starts) => {
    printing = starts;
    document.querySelectorAll("main .plot").forEach(draw);
  };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  show(document);

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
      const redraw = reuse($("content"), fresh.getElementById("content"));
      for (const id of ["facts", "contents", "content"]) $(id).replaceWith(document.adoptNode(fresh.getElementById(id)));
      redraw();
      show($("content"));
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
