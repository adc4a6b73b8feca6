// Before anything is drawn, so that nothing flashes.
"use strict";
try {
  const kept = localStorage.getItem("tgnn-theme");
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
} catch { /* storage may be forbidden */ }
