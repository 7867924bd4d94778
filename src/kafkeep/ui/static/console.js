"use strict";
// Everything here only adds comfort: pages and actions work without it.
(function () {
  const root = document.documentElement;
  const THEMES = ["system", "light", "dark"];
  const charts = new Set();

  // Theme
  const button = document.getElementById("theme");
  function showTheme() {
    button.textContent = "Theme: " + (root.dataset.theme || "system");
  }
  function nextTheme() {
    const now = root.dataset.theme || "system";
    const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
    if (next === "system") delete root.dataset.theme; else root.dataset.theme = next;
    try {
      if (next === "system") localStorage.removeItem("kafkeep-theme");
      else localStorage.setItem("kafkeep-theme", next);
    } catch (_) { /* storage is off */ }
    showTheme();
    drawAll();
  }
  button.hidden = false;
  button.addEventListener("click", nextTheme);
  showTheme();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);

  // Shortcuts
  const dialog = document.getElementById("shortcuts");
  const help = document.getElementById("help");
  help.hidden = false;
  help.addEventListener("click", () => dialog.showModal());
  let goes = 0;
  function isTyping(target) {
    return target.closest("input, textarea, select, [contenteditable]") !== null;
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (dialog.open) return;
    if (event.key === "?") { event.preventDefault(); dialog.showModal(); return; }
    if (event.key === "/") {
      const search = document.getElementById("search");
      if (search) { event.preventDefault(); search.focus(); search.select(); }
      else location.href = "/ui/connectors#search";
      return;
    }
    if (Date.now() - goes < 1500) {
      goes = 0;
      const link = document.querySelector('[data-shortcut="' + CSS.escape(event.key) + '"]');
      if (link) { event.preventDefault(); location.href = link.href; return; }
    }
    goes = event.key === "g" ? Date.now() : 0;
  });
  if (location.hash === "#search") document.getElementById("search")?.focus();

  // On narrow screens the navigation scrolls: show where the reader is.
  document.querySelector(".side nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

  // Live parts
  const lost = document.getElementById("lost");
  document.body.addEventListener("htmx:sseError", () => { lost.hidden = false; });
  document.body.addEventListener("htmx:sseOpen", () => { lost.hidden = true; });
  addEventListener("pagehide", () => { lost.hidden = true; });

  // Over HTTP/1.1 a browser opens about six connections to one host, so a page that nobody sees gives
  // up its stream. When it is seen again, it opens another one, which begins with all parts.
  htmx.createEventSource = (url) => {
    const listeners = [];
    let source = null;
    const stream = {
      onopen: null, onerror: null,
      get readyState() { return source ? source.readyState : EventSource.CONNECTING; },
      addEventListener(type, run) { listeners.push([type, run]); source?.addEventListener(type, run); },
      removeEventListener(type, run) { source?.removeEventListener(type, run); },
      close() { document.removeEventListener("visibilitychange", follow); source?.close(); },
    };
    function follow() {
      if (document.hidden) { source?.close(); source = null; return; }
      if (source) return;
      source = new EventSource(url, { withCredentials: true });
      source.onopen = (event) => stream.onopen?.(event);
      source.onerror = (event) => {
        if (event.target.readyState === EventSource.CLOSED) document.removeEventListener("visibilitychange", follow);
        stream.onerror?.(event);
      };
      for (const [type, run] of listeners) source.addEventListener(type, run);
    }
    document.addEventListener("visibilitychange", follow);
    follow();
    return stream;
  };

  // A live part is replaced as a whole. The focus and what was chosen in it stay.
  let before = null;
  function identity(element) {
    const text = element.matches("button, summary") ? element.textContent.trim() : "";
    const of = element.form ? element.form.getAttribute("action") : "";
    return [element.tagName, element.getAttribute("href"), element.name, of, text].join(" ");
  }
  function all(part, selector) { return [...part.querySelectorAll(selector)]; }
  document.body.addEventListener("htmx:sseBeforeMessage", (event) => {
    const active = document.activeElement;
    const like = event.target.contains(active) ? all(event.target, active.tagName).filter((one) => identity(one) === identity(active)) : [];
    before = {
      focus: like.length ? [active.tagName, identity(active), like.indexOf(active)] : null,
      choices: new Map(all(event.target, "select").map((one) => [identity(one), one.value])),
    };
  });
  document.body.addEventListener("htmx:sseMessage", (event) => {
    for (const one of all(event.target, "select")) {
      const value = before.choices.get(identity(one));
      if ([...one.options].some((option) => option.value === value)) one.value = value;
    }
    if (!before.focus) return;
    const [tag, name, place] = before.focus;
    const like = all(event.target, tag).filter((one) => identity(one) === name);
    like[Math.min(place, like.length - 1)]?.focus({ preventScroll: true });
  });

  // Forms: filter keys, mark wrong fields
  const filter = document.querySelector("[data-filter]");
  if (filter) {
    filter.addEventListener("input", (event) => {
      event.stopPropagation();
      const wanted = filter.value.trim().toLowerCase();
      for (const group of document.querySelectorAll("details.group")) {
        let found = 0;
        for (const field of group.querySelectorAll(".field")) {
          const shows = field.textContent.toLowerCase().includes(wanted);
          field.hidden = !shows;
          if (shows) found += 1;
        }
        group.hidden = found === 0;
        if (wanted) group.open = found > 0;
      }
    });
    filter.addEventListener("keydown", (event) => {
      if (event.key === "Enter") event.preventDefault();
    });
  }
  document.body.addEventListener("htmx:afterSettle", () => {
    for (const error of document.querySelectorAll("#config p.error[id]")) {
      const field = document.getElementById("f" + error.id.slice(1));
      if (!field) continue;
      if (error.textContent.trim()) field.setAttribute("aria-invalid", "true");
      else field.removeAttribute("aria-invalid");
    }
    drawAll();
  });
  // A long list of errors links to fields in closed groups.
  addEventListener("hashchange", () => {
    const field = document.getElementById(location.hash.slice(1));
    const group = field && field.closest("details");
    if (group) { group.open = true; field.focus(); }
  });

  // The timeline of commits: a click chooses the nearest one in the list below it.
  const timeline = document.querySelector(".timeline");
  if (timeline) {
    const dots = [...timeline.querySelectorAll("[data-option]")];
    timeline.addEventListener("click", (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(timeline.getScreenCTM().inverse()).x;
      const away = (dot) => Math.abs(dot.cx.baseVal.value - at);
      const nearest = dots.reduce((best, dot) => (away(dot) < away(best) ? dot : best));
      const option = document.getElementById(nearest.dataset.option);
      option.click();
      option.scrollIntoView({ block: "nearest" });
    });
    document.getElementById("commit-newest").form.addEventListener("change", (event) => {
      if (event.target.name !== "key:restore.commit") return;
      for (const dot of dots) dot.classList.toggle("chosen", dot.dataset.option === event.target.id);
    });
  }

  // Charts
  function token(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }
  function size(bytes) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let at = 0;
    while (bytes >= 1024 && at < units.length - 1) { bytes /= 1024; at += 1; }
    return (bytes >= 100 || Number.isInteger(bytes) ? bytes.toFixed(0) : bytes.toFixed(1)) + " " + units[at];
  }
  // uPlot's default dates are American. Each row: least step in seconds, text of a tick, and what is
  // added at a new year, month (unused), day, hour, minute, second; 1: it is added, not replaced.
  const DATE = "\n{YYYY}-{MM}-{DD}";
  const TIMES = [
    [31536000, "{YYYY}", null, null, null, null, null, null, 1],
    [2419200, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
    [86400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
    [60, "{HH}:{mm}", DATE, null, DATE, null, null, null, 1],
    [1, "{HH}:{mm}:{ss}", DATE, null, DATE, null, null, null, 1],
    [0.001, "{HH}:{mm}:{ss}.{fff}", DATE, null, DATE, null, null, null, 1],
  ];
  const DAYS = [1, 2, 7, 14, 30, 91, 182, 365].map((days) => days * 86400);
  const STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);
  function draw(box) {
    const columns = JSON.parse(box.dataset.columns);
    const isBars = box.dataset.kind === "bars";
    if (columns[0].length === 1 && !isBars) {
      for (const column of columns) column.push(column[0]);
      columns[0][1] += 1;
    }
    box.replaceChildren();
    const line = token("--accent"), grid = token("--line"), text = token("--text-faint");
    const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    box.chart = new uPlot({
      width: Math.max(200, box.clientWidth), height: 200,
      legend: { show: false },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      cursor: { y: false },
      scales: { x: isBars ? { range: (_, low, high) => [low - 43200, high + 43200] } : {}, y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [{ ...axis, space: 80, values: TIMES, ...(isBars ? { incrs: DAYS } : {}) }, { ...axis, size: 72, incrs: STEPS, values: (_, ticks) => ticks.map(size) }],
      series: [{}, {
        label: "Size", stroke: line, width: isBars ? 0 : 2, fill: isBars ? line : token("--accent-wash"),
        points: { show: false }, ...(isBars ? { paths: uPlot.paths.bars({ size: [0.7, 48] }) } : {}),
      }],
    }, [columns[0], columns[1]], box);
    for (const canvas of box.querySelectorAll("canvas")) canvas.setAttribute("aria-hidden", "true");
    charts.add(box);
  }
  function drawAll() {
    for (const box of charts) if (!box.isConnected) { box.chart.destroy(); charts.delete(box); }
    for (const box of document.querySelectorAll(".chart")) draw(box);
  }
  addEventListener("resize", () => {
    for (const box of charts) box.chart.setSize({ width: Math.max(200, box.clientWidth), height: 200 });
  });
  drawAll();
})();
