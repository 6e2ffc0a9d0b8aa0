"use strict";

/* A picture of curves and dots with values under the pointer, or under the arrow keys.

   spec: {title, x: {label, log}, y: {label, log, low, high, hidden},
          series: [{points: [[x, y]], kind: line|thin|area|dot|dark dot|limit}],
          stops: [{x, text}], at: [[x, y]], tell: place => text} */

const WIDTH = 560, HEIGHT = 300;

function scale(values, low, high, begin, end, log) {
  const known = values.filter(v => Number.isFinite(v) && (!log || v > 0));
  low = low ?? Math.min(...known);
  high = high ?? Math.max(...known);
  if (low === high) {
    const wider = log ? 2 : Math.abs(low) * 0.1 || 1;
    [low, high] = log ? [low / wider, high * wider] : [low - wider, high + wider];
  }
  const on = v => (log ? Math.log10(v) : v);
  const slope = (end - begin) / (on(high) - on(low));
  const place = v => begin + (on(Math.min(Math.max(v, low), high)) - on(low)) * slope;
  return Object.assign(place, { low, high, log });
}

function ticks({ low, high, log }, about = 5) {
  if (log) {
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
    const step = Math.max(1, Math.ceil((last - first + 1) / about));
    const found = [];
    for (let k = first; k <= last; k += step) found.push(10 ** k);
    if (found.length > 1) return found;
    return [low, Math.sqrt(low * high), high].map(v => Number(v.toPrecision(2)));
  }
  const rough = (high - low) / about, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find(k => k * power >= rough);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}

function axes(svg, x, y, spec, left, bottom) {
  const base = HEIGHT - bottom;
  svg.append(drawn("path", { class: "axis", d: `M${left} 8V${base}H${WIDTH - 8}` }));
  for (const value of ticks(x)) {
    const place = x(value);
    svg.append(drawn("path", { class: "axis", d: `M${place} ${base}v5` }));
    svg.append(drawn("text", { x: place, y: base + 19, "text-anchor": "middle" }, numeral(value)));
  }
  for (const value of spec.y.hidden ? [] : ticks(y)) {
    const place = y(value);
    svg.append(drawn("path", { class: "axis", d: `M${left} ${place}h-5` }));
    svg.append(drawn("text", { x: left - 8, y: place + 4, "text-anchor": "end" }, numeral(value)));
  }
  const middle = (left + WIDTH) / 2;
  svg.append(drawn("text", { x: middle, y: HEIGHT - 6, "text-anchor": "middle" }, spec.x.label || ""));
  if (spec.y.label) {
    svg.append(drawn("text", { x: left + 6, y: 18 }, spec.y.label));
  }
}

function chart(host, spec) {
  const left = spec.y.hidden ? 14 : 62, bottom = spec.x.label ? 44 : 28;
  const points = spec.series.flatMap(one => one.points).filter(p => p[0] !== null && p[1] !== null);
  if (!points.length) {
    host.replaceChildren(element("h3", {}, spec.title), element("p", { class: "about" }, spec.none));
    return;
  }
  const xs = [...points.map(p => p[0]), ...(spec.stops || []).map(stop => stop.x)];
  const x = scale(xs, spec.x.low, spec.x.high, left, WIDTH - 12, spec.x.log);
  const y = scale(points.map(p => p[1]), spec.y.low, spec.y.high, HEIGHT - bottom, 12, spec.y.log);
  const svg = drawn("svg", {
    class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", tabindex: "0",
    "aria-label": `${spec.title}; arrow keys tell values`,
  });
  axes(svg, x, y, spec, left, bottom);
  for (const one of spec.series) series(svg, one, x, y);
  for (const stop of spec.stops || []) {
    const place = x(stop.x);
    svg.append(drawn("path", { class: "stop", d: `M${place} 8V${HEIGHT - bottom}` }));
    svg.append(drawn("text", { x: place - 5, y: HEIGHT - bottom - 8, "text-anchor": "end" }, stop.text));
  }
  const output = element("output", { "aria-live": "polite" });
  host.replaceChildren(element("h3", {}, spec.title), svg, output);
  follow(svg, output, spec, x, y, HEIGHT - bottom);
}

function series(svg, { points, kind }, x, y) {
  const known = points.filter(p => p[0] !== null && p[1] !== null && (!y.log || p[1] > 0));
  if (kind.endsWith("dot")) {
    const r = known.length < 40 ? 3.5 : 2.2;
    for (const [a, b] of known) {
      svg.append(drawn("circle", { class: kind, cx: x(a).toFixed(1), cy: y(b).toFixed(1), r }));
    }
    return;
  }
  if (!known.length) return;
  let path = "M" + known.map(([a, b]) => `${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("L");
  if (kind === "area") path += `V${y(y.low)}H${x(known[0][0])}Z`;
  svg.append(drawn("path", { class: kind, d: path }));
}

function follow(svg, output, spec, x, y, base) {
  const at = spec.at, line = drawn("path", { class: "cursor" });
  const here = drawn("circle", { class: "here", r: 4 });
  let place = -1;
  const show = next => {
    place = Math.min(Math.max(next, 0), at.length - 1);
    const [a, b] = at[place];
    line.setAttribute("d", `M${x(a)} 8V${base}`);
    here.setAttribute("cx", x(a));
    here.setAttribute("cy", b === null ? base : y(b));
    if (!line.isConnected) svg.append(line, here);
    output.textContent = spec.tell(place);
  };
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect();
    const under = (event.clientX - box.left) * WIDTH / box.width;
    let best = 0;
    at.forEach((p, k) => { if (Math.abs(x(p[0]) - under) < Math.abs(x(at[best][0]) - under)) best = k; });
    show(best);
  });
  svg.addEventListener("keydown", event => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -1e9, End: 1e9 };
    if (!(event.key in steps)) return;
    event.preventDefault();
    show(place < 0 ? 0 : place + steps[event.key]);
  });
}
