"use strict";

/* What is drawn: marginals, the course, correlations, the tail of the weights. */

/* The density along quantiles: as functions of the normal scores u of their levels they are smooth,
   and the density is that of the normal distribution over their slope. Those of draws are smoothed. */
function density(quantiles, data, count = 200) {
  const u = data.scores, last = u.length - 1;
  let slopes = u.slice(1).map((v, k) => (quantiles[k + 1] - quantiles[k]) / (v - u[k]));
  if (quantiles.includes(null) || !slopes.every(s => s > 0)) return null;
  for (let times = 0; data.sampled && times < 3; times++) {
    const old = slopes, at = k => old[Math.min(Math.max(k, 0), last - 1)];
    slopes = old.map((s, k) => 0.25 * at(k - 1) + 0.5 * s + 0.25 * at(k + 1));
  }
  const middles = slopes.map((_, k) => 0.5 * (u[k] + u[k + 1]));
  const slope = v => {
    let k = 0;
    while (k + 2 < middles.length && v > middles[k + 1]) k++;
    const t = Math.min(1, Math.max(0, (v - middles[k]) / (middles[k + 1] - middles[k])));
    return slopes[k] * (1 - t) + slopes[k + 1] * t;
  };
  const step = (u[last] - u[0]) / (count - 1), points = [], below = [];
  let x = quantiles[0], before = slope(u[0]);
  for (let i = 0; i < count; i++) {
    const v = u[0] + i * step, now = slope(v);
    if (i) x += 0.5 * (before + now) * step;
    before = now;
    points.push([x, Math.exp(-0.5 * v * v) / (Math.sqrt(2 * Math.PI) * now)]);
    below.push(share(v, data));
  }
  return { points, below };
}

/* The level of a normal score, between those that are known. */
function share(v, { scores, levels }) {
  let k = 0;
  while (k + 2 < scores.length && v > scores[k + 1]) k++;
  const t = Math.min(1, Math.max(0, (v - scores[k]) / (scores[k + 1] - scores[k])));
  return levels[k] + t * (levels[k + 1] - levels[k]);
}

function bells(components, number, points) {
  return components.weights.map((weight, k) => {
    const [mean, sd] = [components.means[k][number], components.sds[k][number]];
    return points.map(([x]) =>
      [x, weight * Math.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * Math.sqrt(2 * Math.PI))]);
  });
}

function drawMarginal(host, data, number) {
  const row = data.rows[number], found = data.quantiles[number] && density(data.quantiles[number], data);
  host.hidden = !found;
  if (!found) return;
  const parts = data.components ? bells(data.components, number, found.points) : [];
  chart(host, {
    title: `The density of ${row[0]}`,
    x: {}, y: { low: 0, hidden: true },
    series: [
      { points: found.points, kind: "area" },
      ...parts.map(points => ({ points, kind: "thin" })),
      { points: found.points, kind: "line" },
    ],
    at: found.points,
    tell: k => `${row[0]} = ${numeral(found.points[k][0])}: ${percent(found.below[k])} lie below, `
      + `density ${numeral(found.points[k][1])}`,
  });
}

function drawCourse(host, course, name, title, log) {
  const points = course.gradients.map((g, k) => [g, course[name][k]]);
  const median = course[`${name}_median`].filter(p => p[1] !== null);
  const late = median.slice(Math.floor(median.length / 8)).map(p => p[1]);
  const [low, high] = [Math.min(...late), Math.max(...median.map(p => p[1]))];
  const margin = 0.5 * (high - low) + 1;
  const positive = points.some(p => p[1] > 0);
  chart(host, {
    title: `${title} against gradients`,
    none: name === "elbo" ? "Not known: the target has no log density." : "No update was made.",
    x: { label: "gradient evaluations", low: 0 },
    y: log ? { log: positive } : { low: low - margin, high: high + margin },
    series: [{ points, kind: "dot" }, { points: median, kind: "line" }],
    stops: [{ x: course.end, text: course.status }],
    at: points,
    tell: k => `update ${course.updates[k]}, ${course.gradients[k]} gradients, `
      + `${numeral(course.seconds[k])} s: ${title} ${numeral(course[name][k])}`,
  });
}

function drawWeights(host, weights) {
  const points = weights.weights.map((w, k) => [w, weights.share[k]]).filter(p => p[0] > 0.03);
  const start = Math.ceil(Math.min(0.2 * points.length, 3 * Math.sqrt(points.length))) - 1;
  const [w, s] = points[Math.max(0, start)], end = 3 * Math.max(w, points[0][0]);
  const limit = [[w, s], [end, s * (end / w) ** (-1 / 0.7)]];
  chart(host, {
    title: "Share of draws with at least this weight",
    x: { label: "importance weight p/q, over its mean", log: true, high: end },
    y: { log: true, low: 0.5 / points.length, high: 1 },
    series: [{ points: limit, kind: "limit" }, { points, kind: "dark dot" }],
    at: points,
    tell: k => `${percent(points[k][1])} of the draws have a weight of ${numeral(points[k][0])} or more`,
  });
}

function drawMap(host, correlation) {
  const { names, matrix } = correlation, n = names.length, side = 560;
  const named = n <= 30, left = named ? 118 : 0, cell = (side - left) / n, height = n * cell;
  const svg = drawn("svg", { class: "chart", viewBox: `0 0 ${side} ${height}`, role: "img", tabindex: "0",
    "aria-label": "Correlations; arrow keys go from one to the next" });
  matrix.forEach((row, i) => row.forEach((r, j) => {
    const colour = i === j ? "var(--line)" : `rgba(var(--${r < 0 ? "low" : "high"}), ${Math.abs(r)})`;
    const place = { x: (left + j * cell).toFixed(2), y: (i * cell).toFixed(2) };
    const size = (cell - (n < 40 ? 1 : 0)).toFixed(2);
    svg.append(drawn("rect", { ...place, width: size, height: size, style: `fill:${colour}` }));
  }));
  for (const [i, name] of named ? names.entries() : []) {
    const short = name.length > 15 ? `${name.slice(0, 14)}…` : name;
    svg.append(drawn("text", { x: left - 6, y: (i + 0.5) * cell + 4, "text-anchor": "end" }, short));
  }
  const cursor = drawn("rect", { class: "cell-cursor", width: cell, height: cell, visibility: "hidden" });
  svg.append(cursor);
  const output = element("output", { "aria-live": "polite" });
  let [i, j] = [0, 0];
  const show = (row, column) => {
    [i, j] = [row, column].map(k => Math.min(Math.max(k, 0), n - 1));
    cursor.setAttribute("x", left + j * cell);
    cursor.setAttribute("y", i * cell);
    cursor.setAttribute("visibility", "visible");
    output.textContent = `${names[i]} and ${names[j]}: ${matrix[i][j].toFixed(2)}`;
  };
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect(), unit = side / box.width;
    show(Math.floor((event.clientY - box.top) * unit / cell),
      Math.floor(((event.clientX - box.left) * unit - left) / cell));
  });
  svg.addEventListener("keydown", event => {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (!(event.key in steps)) return;
    event.preventDefault();
    show(i + steps[event.key][0], j + steps[event.key][1]);
  });
  host.replaceChildren(svg, output);
}
