"use strict";
// Runs before the first paint, so that a chosen theme does not flash.
(function () {
  let chosen = null;
  try { chosen = localStorage.getItem("kafkeep-theme"); } catch (_) { /* storage is off */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
