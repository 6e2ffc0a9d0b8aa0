"use strict";

/* What goes where. */

const data = JSON.parse(document.getElementById("data").textContent);
const by = id => document.getElementById(id);
const group = name => name.replace(/\[.*$/s, "");

/* Intervals of one array are drawn on one scale, so that they can be compared; of a long one, on
   that of most of them. */
function intervals(rows) {
  const all = new Map();
  for (const row of rows) {
    const ends = all.get(group(row[0])) || [[], []];
    all.set(group(row[0]), ends);
    if ([row[4], row[8]].every(Number.isFinite)) { ends[0].push(row[4]); ends[1].push(row[8]); }
  }
  for (const ends of all.values()) {
    const out = ends[0].length > 40 ? Math.floor(0.03 * ends[0].length) : 0;
    ends.forEach(values => values.sort((a, b) => a - b));
    ends.range = [ends[0][out], ends[1][ends[1].length - 1 - out]];
  }
  return row => {
    const [low, high] = all.get(group(row[0])).range;
    if (![row[4], row[8]].every(Number.isFinite) || !(low < high)) return "";
    const x = v => Math.min(142, Math.max(2, 4 + 136 * (v - low) / (high - low)));
    const svg = drawn("svg", { class: "bar", viewBox: "0 0 144 16", "aria-hidden": "true" });
    if (low < 0 && high > 0) svg.append(drawn("path", { class: "zero", d: `M${x(0)} 0V16` }));
    svg.append(drawn("path", { class: "outer", d: `M${x(row[4])} 8H${x(row[8])}` }));
    if (row[5] !== null) svg.append(drawn("path", { class: "inner", d: `M${x(row[5])} 8H${x(row[7])}` }));
    if (row[1] !== null) svg.append(drawn("circle", { class: "mean", cx: x(row[1]), cy: 8, r: 3 }));
    return svg;
  };
}

function parameters() {
  if (!data.rows.length) {
    by("table").append(element("p", { class: "about" }, "There is no table: see the notes above."));
    return;
  }
  let chosen = data.rows[0];
  const numbers = new Map(data.rows.map((row, place) => [row, place]));
  const bar = intervals(data.rows);
  const kinds = { "25%": "quarter", "75%": "quarter" };
  const choose = row => {
    chosen = row;
    drawMarginal(by("marginal"), data, numbers.get(row));
    table.draw();
    table.body.querySelector("tr.chosen button")?.focus({ preventScroll: true });
    by("marginal").scrollIntoView({ block: "nearest" });
  };
  const name = row => element("button", {
    type: "button", title: row[0], onclick: () => choose(row),
    "aria-label": `show the density of ${row[0]}`,
  }, row[0]);
  const table = new PagedTable(by("table"), [
    { heading: "parameter", value: row => row[0], cell: name },
    ...data.headings.map((heading, k) => ({ heading, value: row => row[k + 1], kind: kinds[heading] })),
    { heading: "50 and 90 %", cell: bar, kind: "spread" },
  ], data.rows, { label: "parameters", searched: row => row[0], mark: row => row === chosen });
  drawMarginal(by("marginal"), data, 0);
  addEventListener("keydown", event => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    table.search.focus();
  });
}

function correlation() {
  const found = data.correlation;
  if (!found) {
    by("correlation").remove();
    document.querySelector("nav a[href='#correlation']").remove();
    return;
  }
  const some = found.names.length < found.dim
    ? `The ${found.names.length} of ${found.dim} parameters that are correlated most`
    : "All parameters";
  by("correlation-about").textContent = `${some}, on the unconstrained scale, with what goes together `
    + "side by side: orange is positive, blue negative.";
  drawMap(by("correlation-map"), found);
  new PagedTable(by("correlation-pairs"), [
    { heading: "one", value: pair => pair[0], cell: pair => pair[0] },
    { heading: "other", value: pair => pair[1], cell: pair => pair[1] },
    { heading: "correlation", value: pair => pair[2], cell: pair => pair[2].toFixed(3) },
  ], found.pairs, { label: "strongest pairs", searched: pair => `${pair[0]} ${pair[1]}`, size: 10, printed: 10 });
}

function weights() {
  if (!data.weights) {
    by("weights-about").textContent = "Not known: fit.check() was not asked, or the target has no log density.";
    return;
  }
  const known = data.weights.weights.filter(w => w > 0);
  if (known[0] <= 1.001 * known[known.length - 1]) {
    by("weights-about").textContent = "All weights are the same: where the posterior has a density, it is that of the fit.";
    return;
  }
  by("weights-about").textContent = "Each dot is a fresh draw from the fit. Were the fit the posterior, "
    + "all weights would be 1. A tail as flat as the dashed line, k-hat 0.7, or flatter, cannot be "
    + "averaged over.";
  drawWeights(by("weights-picture"), data.weights);
}

function components() {
  for (const one of data.telling || []) {
    const host = element("div", { class: "picture" });
    by("components-pictures").append(host);
    const points = one.x.map((x, k) => [x, one.density[k]]);
    chart(host, {
      title: `The density of ${one.name}, and of its components`,
      x: {}, y: { low: 0, hidden: true },
      series: [
        ...one.parts.map(part => ({ points: one.x.map((x, k) => [x, part[k]]), kind: "thin" })),
        { points, kind: "line" },
      ],
      at: points,
      tell: k => `${one.name} = ${numeral(one.x[k])}: density ${numeral(one.density[k])}`,
    });
  }
}

parameters();
drawCourse(by("course-elbo"), data.course, "elbo", "ELBO", false);
drawCourse(by("course-fisher"), data.course, "fisher", "Fisher residual", true);
components();
correlation();
weights();
document.documentElement.dataset.ready = "yes";
