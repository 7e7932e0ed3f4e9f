"use strict";
// Draws the designs of a sweep: a scatter of two costs, and parallel coordinates of parameters and costs.
const data = JSON.parse(document.getElementById("data").textContent);
const [NUMBER, STATUS, PLACES, COSTS] = [0, 1, 2, 3];
const dark = matchMedia("(prefers-color-scheme: dark)");
const by_id = (id) => document.getElementById(id);
const index_of = (name) => data.costs.findIndex((cost) => cost.name === name);

function layout(more) {
  const ink = dark.matches ? "#dddddd" : "#333333";
  const line = dark.matches ? "#444444" : "#dddddd";
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: ink };
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 13 }, height: 460,
    margin: { l: 70, r: 20, t: 20, b: 60 }, legend: { orientation: "h", y: 1.08 },
    ...more, xaxis: { ...axis, ...more.xaxis }, yaxis: { ...axis, ...more.yaxis },
  };
}

function options(id, entries, chosen) {
  for (const [value, text] of entries) by_id(id).add(new Option(text, value, false, value === chosen));
  by_id(id).addEventListener("change", scatter);
}

function words(design) {
  const parts = data.parameters.map((p, i) => `${p.name} = ${p.values[design[PLACES][i]]}`);
  return `design ${design[NUMBER]}, ${design[STATUS]}<br>${parts.join("<br>")}`.replace(/[&"']/g, "");
}

function scatter() {
  const [x, y] = ["x-axis", "y-axis"].map((id) => index_of(by_id(id).value));
  const coloured = data.parameters.findIndex((p) => p.name === by_id("colour").value);
  const looks = {
    mapped: ["dominated", "circle", "#999999", 6], pruned: ["bound of a pruned design", "triangle-down", "#56B4E9", 6],
    over_power: ["over the power budget", "x", "#CC79A7", 6], front: ["front", "circle-open", "#D55E00", 11],
  };
  const traces = [];
  for (const [status, [name, symbol, color, size]] of Object.entries(looks)) {
    const own = data.designs.filter((d) => d[STATUS] === status && d[COSTS][x] !== null && d[COSTS][y] !== null);
    if (!own.length) continue;
    const marker = { symbol, size, color, line: { width: status === "front" ? 2.5 : 0, color } };
    if (coloured >= 0) {
      Object.assign(marker, {
        color: own.map((d) => d[PLACES][coloured]), colorscale: "Viridis", cmin: 0,
        cmax: data.parameters[coloured].values.length - 1,
      });
    }
    traces.push({
      type: "scattergl", mode: "markers", name: `${name} (${own.length})`, marker, hovertext: own.map(words),
      hoverinfo: "text+x+y", x: own.map((d) => d[COSTS][x] * data.costs[x].scale),
      y: own.map((d) => d[COSTS][y] * data.costs[y].scale),
    });
  }
  const type = by_id("log-axes").checked ? "log" : "linear";
  Plotly.react("scatter-plot", traces, layout({
    xaxis: { title: { text: data.costs[x].label }, type }, yaxis: { title: { text: data.costs[y].label }, type },
  }), { responsive: true, displaylogo: false });
}

function parallel() {
  const own = data.designs.filter((d) => d[STATUS] === "front" || d[STATUS] === "mapped");
  if (!own.length) return;
  const dimensions = data.parameters.map((p, i) => ({
    label: p.name, values: own.map((d) => d[PLACES][i]), tickvals: p.values.map((_, at) => at), ticktext: p.values,
  }));
  for (const name of data.objectives) {
    const at = index_of(name);
    dimensions.push({ label: data.costs[at].label, values: own.map((d) => d[COSTS][at] * data.costs[at].scale) });
  }
  const line = {
    color: own.map((d) => Number(d[STATUS] === "front")), cmin: 0, cmax: 1,
    colorscale: [[0, dark.matches ? "#666666" : "#bbbbbb"], [1, "#D55E00"]],
  };
  Plotly.react("parallel-plot", [{ type: "parcoords", dimensions, line }],
    layout({ margin: { l: 80, r: 60, t: 60, b: 30 } }), { responsive: true, displaylogo: false });
}

function sort_by(head) {
  const body = head.closest("table").tBodies[0];
  const column = head.cellIndex;
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const key = (row) => row.cells[column].dataset.value;
  const compare = (a, b) => key(a) === undefined
    ? a.cells[column].textContent.localeCompare(b.cells[column].textContent, "en", { numeric: true })
    : Number(key(a)) - Number(key(b));
  for (const row of [...body.rows].sort((a, b) => (down ? -1 : 1) * compare(a, b))) body.append(row);
}

const costs = data.costs.map((cost) => [cost.name, cost.label]);
options("x-axis", costs, data.across);
options("y-axis", costs, data.up);
options("colour", [["", "status"], ...data.parameters.map((p) => [p.name, p.name])], "");
by_id("log-axes").addEventListener("change", scatter);
for (const head of document.querySelectorAll("table.sortable th")) head.addEventListener("click", () => sort_by(head));
dark.addEventListener("change", () => { scatter(); parallel(); });
scatter();
parallel();
document.documentElement.dataset.ready = "true";
