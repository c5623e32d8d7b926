"use strict";
// Draws the charts of a soak from the JSON in the page. Each chart is built when its part is first opened.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const built = new Map(); // figure -> uPlot
  const sync = uPlot.sync("soak");
  let axis = "seconds";

  const colour = (name) => {
    // canvas does not know light-dark(): let the browser resolve it once
    const probe = document.createElement("i");
    probe.style.color = `var(--${name})`;
    root.appendChild(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
  };

  const trim = (value, digits) => value.toFixed(digits).replace(/\.?0+$/, "");
  const scaled = (value, digits) => {
    for (const [size, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "KB"]]) {
      if (Math.abs(value) >= size) return `${trim(value / size, digits)} ${unit}`;
    }
    return `${trim(value, 0)} B`;
  };
  const text = (value, unit, digits) => {
    if (value == null) return "–";
    if (unit === "bytes") return scaled(value, digits);
    if (unit === "seconds") return Math.abs(value) < 1 ? `${trim(value * 1000, 2)} ms` : `${trim(value, 2)} s`;
    return value.toLocaleString("en", { maximumFractionDigits: 2 });
  };
  const clock = (value, most = value) => {
    if (axis === "completed") return value.toLocaleString("en", { maximumFractionDigits: 0 });
    if (most < 240) return `${trim(value, 1)} s`;
    return most < 10800 ? `${trim(value / 60, 1)} min` : `${trim(value / 3600, 2)} h`;
  };
  // round steps in the unit that the axis shows
  const steps = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 259200, 604800];

  const shadePhases = (u) => {
    const { ctx, bbox } = u;
    ctx.save();
    for (const span of data.spans) {
      const [a, b] = axis === "seconds" ? [span.start, span.end] : [span.first, span.last];
      const left = Math.max(u.valToPos(a, "x", true), bbox.left);
      const right = Math.min(u.valToPos(b, "x", true), bbox.left + bbox.width);
      if (right < left) continue;
      ctx.fillStyle = colour(span.phase);
      ctx.fillRect(left, bbox.top, Math.max(right - left, 1), bbox.height);
    }
    ctx.restore();
  };

  const drawFits = (lines) => (u) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    lines.forEach((line, number) => {
      const x = line[axis].map((value) => u.valToPos(value, "x", true));
      const path = (values) => values.map((value, i) => [x[i], u.valToPos(value, "y", true)]);
      const stroke = colour(`fit${number % 3}`);
      ctx.strokeStyle = ctx.fillStyle = stroke;
      if (line.low.length) {
        ctx.globalAlpha = 0.18;
        ctx.beginPath();
        [...path(line.low), ...path(line.high).reverse()].forEach(([a, b]) => ctx.lineTo(a, b));
        ctx.fill();
      }
      ctx.globalAlpha = 1;
      ctx.lineWidth = 2 * devicePixelRatio;
      ctx.setLineDash([6 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.beginPath();
      path(line.middle).forEach(([a, b]) => ctx.lineTo(a, b));
      ctx.stroke();
      ctx.setLineDash([]);
      for (const [a, b] of path(line.dots)) {
        ctx.beginPath();
        ctx.arc(a, b, 2.2 * devicePixelRatio, 0, 7);
        ctx.fill();
      }
    });
    ctx.restore();
  };

  const build = (figure) => {
    const chart = data.sections[+figure.dataset.section].charts[+figure.dataset.chart];
    const place = figure.querySelector(".plot");
    const ink = colour("muted");
    const edge = { stroke: colour("grid"), width: 1 };
    built.get(figure)?.destroy();
    const plot = new uPlot({
      width: place.clientWidth,
      height: 190,
      cursor: { sync: { key: "soak", setSeries: false, scales: ["x", null] }, drag: { x: true, y: false } },
      scales: { x: { time: false } },
      legend: { live: true },
      series: [
        { label: axis === "seconds" ? "at" : "after", value: (u, v) => (v == null ? "–" : clock(v)) },
        { label: chart.name.split(".").slice(1).join("."), stroke: colour("series"), width: 1.25, spanGaps: false, points: { show: chart.values.length < 40 },
          value: (u, v) => text(v, chart.unit, 3) },
      ],
      axes: [
        { stroke: ink, grid: edge, ticks: edge, space: 70, ...(axis === "seconds" && { incrs: steps }),
          values: (u, ticks) => ticks.map((tick) => clock(tick, u.scales.x.max)) },
        { stroke: ink, grid: edge, ticks: edge, size: 68, gap: 3,
          values: (u, ticks) => ticks.map((tick) => text(tick, chart.unit, 3)) },
      ],
      hooks: { drawClear: [shadePhases], draw: [drawFits(chart.lines)] },
    }, [chart[axis], chart.values], place);
    sync.sub(plot);
    built.set(figure, plot);
  };

  const buildOpen = () => {
    for (const figure of document.querySelectorAll("details[open] figure")) build(figure);
    root.dataset.drawn = String(built.size);
  };
  const redrawAll = () => {
    for (const figure of built.keys()) build(figure);
  };

  for (const part of document.querySelectorAll("details.part")) {
    part.addEventListener("toggle", () => {
      if (!part.open) return;
      for (const figure of part.querySelectorAll("figure")) if (!built.has(figure)) build(figure);
    });
  }
  for (const key of document.querySelectorAll(".key.phase")) key.style.background = `var(--${key.dataset.phase})`;
  for (const choice of document.querySelectorAll("input[name=axis]")) {
    choice.addEventListener("change", () => { axis = choice.value; redrawAll(); });
  }
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", redrawAll);
  document.getElementById("scheme").addEventListener("click", () => {
    const isDark = root.dataset.scheme ? root.dataset.scheme === "dark" : dark.matches;
    root.dataset.scheme = isDark ? "light" : "dark";
    try { localStorage.setItem("omni-verify-scheme", root.dataset.scheme); } catch (e) { }
    redrawAll();
  });
  let pending = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(pending);
    pending = requestAnimationFrame(() => {
      for (const [figure, plot] of built) plot.setSize({ width: figure.querySelector(".plot").clientWidth, height: 190 });
    });
  });
  buildOpen();
})();
