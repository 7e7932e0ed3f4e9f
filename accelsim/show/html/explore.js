// Draws the designs of a sweep: a scatter of two costs, and parallel coordinates of parameters and costs.
const data = JSON.parse(document.getElementById("data").textContent);
const [NUMBER, STATUS, PLACES, COSTS] = [0, 1, 2, 3];
const dark = matchMedia("(prefers-color-scheme: dark)");
const by_id = (id) => document.getElementById(id);
const design_of = new Map(data.designs.map((design) => [design[NUMBER], design]));
let shown = null;
const index_of = (name) => data.costs.findIndex((cost) => cost.name === name);
const drawn = (design) => design[STATUS] === "front" || design[STATUS] === "mapped";
const narrow = () => innerWidth < 600;
const tools = () => ({ responsive: true, displaylogo: false, ...(narrow() ? { displayModeBar: false } : {}) });

function layout(more) {
  const ink = dark.matches ? "#dddddd" : "#333333";
  const line = dark.matches ? "#444444" : "#dddddd";
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: ink, exponentformat: "SI" };
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 13 },
    margin: { l: 70, r: 20, t: 30, b: 60 }, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
    modebar: { bgcolor: "rgba(0,0,0,0)" },
    ...more, xaxis: { ...axis, ...more.xaxis }, yaxis: { ...axis, ...more.yaxis },
  };
}

function draw() {
  scatter();
  parallel();
}

function options(id, entries, first) {
  for (const [value, text] of entries) by_id(id).add(new Option(text, value, value === first, value === first));
  by_id(id).addEventListener("change", draw);
}

// Designs that have the values chosen for their parameters.
function chosen() {
  const wanted = data.parameters.map((_, i) => by_id(`only-${i}`).value);
  return data.designs.filter((d) => wanted.every((at, i) => at === "" || d[PLACES][i] === Number(at)));
}

const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

function words(design) {
  const parts = data.parameters.map((p, i) => plain(`${p.name} = ${p.values[design[PLACES][i]]}`));
  return `design ${design[NUMBER]}, ${design[STATUS]}<br>${parts.join("<br>")}`;
}

function in_words(value, scale) {
  if (value === null) return "not known";
  return scale === 1 ? value.toLocaleString("en-US") : String(Number((value / scale).toPrecision(5)));
}

// Show one design: its parameters and costs, and the options that make it.
function show(number) {
  shown = design_of.get(number) ?? null;
  by_id("shown").hidden = !shown;
  for (const row of document.querySelectorAll("#designs tbody tr")) row.toggleAttribute("aria-current", Number(row.cells[0].textContent) === number);
  if (!shown) return;
  by_id("shown-title").textContent = `Design ${number}: ${shown[STATUS]}`;
  const parts = [
    ...data.parameters.map((p, i) => [p.name, p.values[shown[PLACES][i]]]),
    ...data.costs.map(({ label, scale }, i) => [label, in_words(shown[COSTS][i], scale)]),
  ];
  by_id("shown-costs").replaceChildren(...parts.map(([name, value]) => {
    const pair = [document.createElement("dt"), document.createElement("dd")], made = document.createElement("div");
    [name, value].forEach((text, i) => { pair[i].textContent = text; });
    made.append(...pair);
    return made;
  }));
  const quoted = (text) => (/^[\w.,:/=%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const option = (name, value) => data.flags ? `--${name} ${value}` : `--set ${quoted(`${name}=${value}`)}`;
  by_id("options").textContent = data.parameters.map((p, i) => option(p.name, p.values[shown[PLACES][i]])).join(" ");
}

function choose(number) {
  show(number);
  scatter();
  keep();
}

const keep = () => keepLink({ design: shown ? shown[NUMBER] : "" });

// What an axis shows of designs: a cost in its unit, or the place of a parameter among its values.
function axis_of(name) {
  const cost = index_of(name);
  if (cost >= 0) {
    const { label, scale } = data.costs[cost], type = by_id("log-axes").checked ? "log" : "linear";
    return { of: (d) => d[COSTS][cost] === null ? null : d[COSTS][cost] / scale, shown: { title: { text: label }, type } };
  }
  const at = data.parameters.findIndex((p) => p.name === name), { values } = data.parameters[at];
  const every = Math.ceil(values.length / (narrow() ? 4 : 12)), ticks = values.map((_, i) => i).filter((i) => i % every === 0);
  return { of: (d) => d[PLACES][at], shown: {
    title: { text: plain(name) }, type: "linear", tickvals: ticks, ticktext: ticks.map((i) => plain(values[i])), range: [-0.4, values.length - 0.6],
  } };
}

function scatter() {
  const [x, y] = ["x-axis", "y-axis"].map((id) => axis_of(by_id(id).value));
  const coloured = data.parameters.findIndex((p) => p.name === by_id("colour").value);
  const looks = {
    mapped: ["dominated", "circle", "#999999", 6], pruned: ["bound of a pruned design", "triangle-down", "#56B4E9", 6],
    over_power: ["over the power budget", "x", "#CC79A7", 6], front: ["front", "circle-open", "#D55E00", 11],
  };
  const traces = [];
  for (const [status, [name, symbol, color, size]] of Object.entries(looks)) {
    const own = chosen().filter((d) => d[STATUS] === status && x.of(d) !== null && y.of(d) !== null);
    if (!own.length) continue;
    const marker = { symbol, size, color, line: { width: status === "front" ? 2.5 : 0, color } };
    if (coloured >= 0) {
      Object.assign(marker, {
        color: own.map((d) => d[PLACES][coloured]), colorscale: "Viridis", cmin: 0,
        cmax: data.parameters[coloured].values.length - 1,
      });
    }
    traces.push({
      type: "scatter", mode: "markers", name: `${name} (${own.length})`, marker, hovertext: own.map(words),
      hoverinfo: "text+x+y", x: own.map(x.of), y: own.map(y.of), customdata: own.map((d) => d[NUMBER]),
    });
  }
  const own = chosen().includes(shown) && x.of(shown) !== null && y.of(shown) !== null ? [shown] : [];
  if (own.length) {
    const marker = { symbol: "circle-open", size: 20, color: dark.matches ? "#ffffff" : "#000000", line: { width: 2.5 } };
    traces.push({ type: "scatter", mode: "markers", name: `design ${shown[NUMBER]}`, marker, x: own.map(x.of), y: own.map(y.of), hoverinfo: "skip" });
  }
  Plotly.react("scatter-plot", traces, layout({ xaxis: x.shown, yaxis: y.shown }), tools());
}

function ends(at) {
  const own = data.designs.filter(drawn).map((d) => d[COSTS][at]);
  return [Math.min(...own), Math.max(...own)];
}

// A number of three digits, with a power of ten where it is long.
function short(value) {
  const power = Math.floor(Math.log10(Math.abs(value) || 1));
  return power < -3 || power > 5 ? `${(value / 10 ** power).toFixed(2)}·10<sup>${power}</sup>` : String(Number(value.toPrecision(3)));
}

function parallel() {
  const own = chosen().filter(drawn);
  const costs = data.objectives.map(index_of);
  const limits = costs.map(ends);
  const along = (value, [low, high]) => {
    if (high <= low) return 0.5;
    return low > 0 && high > 3 * low ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  };
  const heights = (d) => [
    ...data.parameters.map((p, i) => d[PLACES][i] / (p.values.length - 1)),
    ...costs.map((at, i) => along(d[COSTS][at], limits[i])),
  ];
  const names = [...data.parameters.map((p) => p.name), ...costs.map((at) => data.costs[at].label)];
  const traces = [["mapped", "dominated", "#999999", 0.5], ["front", "front", "#D55E00", 1.5]].map(([status, name, color, width]) => {
    const [x, y, text] = [[], [], []];
    for (const d of own.filter((each) => each[STATUS] === status)) {
      heights(d).forEach((height, i) => { x.push(i); y.push(height); text.push(words(d)); });
      x.push(null); y.push(null); text.push("");
    }
    return { type: "scatter", mode: "lines", name, x, y, text, hoverinfo: "text", line: { color, width } };
  });
  const annotations = [];
  const note = (x, y, text) => annotations.push({
    x, y, text, showarrow: false, xanchor: "left", xshift: 4, font: { size: narrow() ? 9 : 11 }, borderpad: 0,
    bgcolor: dark.matches ? "rgba(20,20,20,0.75)" : "rgba(255,255,255,0.75)",
  });
  data.parameters.forEach((p, i) => p.values.forEach((text, at) => {
    const every = Math.ceil(p.values.length / (narrow() ? 2 : 8));
    if (at % every === 0 || at === p.values.length - 1) note(i, at / (p.values.length - 1), text);
  }));
  costs.forEach((at, i) => limits[i].forEach((value, top) => {
    note(data.parameters.length + i, limits[i][0] < limits[i][1] ? top : 0.5, short(value / data.costs[at].scale));
  }));
  Plotly.react("parallel-plot", traces, layout({
    annotations, xaxis: { automargin: true, tickvals: names.map((_, i) => i), ticktext: names.map((name) => narrow() ? name.replace(/ (?=\[|pJ|cycle)/g, "<br>") : name), range: [-0.1, names.length - 0.4] },
    yaxis: { showticklabels: false, showgrid: false, zeroline: false, range: [-0.05, 1.05] }, margin: { l: 20, r: 20, t: 30, b: 60 },
  }), tools());
}

const axes = [...data.costs.map((cost) => [cost.name, cost.label]), ...data.parameters.map((p) => [p.name, p.name])];
options("x-axis", axes, data.across);
options("y-axis", axes, data.up);
options("colour", [["", "status"], ...data.parameters.map((p) => [p.name, p.name])], "");
data.parameters.forEach((p, i) => options(`only-${i}`, [["", "all"], ...p.values.map((text, at) => [String(at), text])], ""));
by_id("log-axes").addEventListener("change", draw);
dark.addEventListener("change", draw);
show(Number(openLink().design));
draw();
document.addEventListener("change", keep);
by_id("copy").addEventListener("click", () => copyText(by_id("copy"), by_id("options")));
by_id("scatter-plot").on("plotly_click", (event) => event.points[0].customdata && choose(event.points[0].customdata));
document.querySelector("#designs tbody").addEventListener("click", (event) => {
  const row = event.target.closest("tr");
  choose(Number(row.cells[0].textContent));
  by_id("scatter").scrollIntoView();
});
document.documentElement.dataset.ready = "true";
