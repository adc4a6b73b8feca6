// Runs before the first paint, so that the theme does not flash.
"use strict";
try {
  const kept = localStorage.getItem("tgnn-theme");
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
} catch { /* storage may be blocked */ }
