(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { mappings, histogram } = data;
  const best = mappings[0];
  const lined = data.complete_front && data.front === "energy and cycles";
  const MOST_ROWS = 300;
  const COLUMNS = {
    energy_pj: { name: "energy", text: (v) => energy(v) },
    cycles: { name: "cycles", text: (v) => si(v, "", 4) },
    offchip_words: { name: `words moved at ${data.levels[0]}`, text: (v) => si(v, "", 4) },
    utilization: { name: "utilization", text: (v) => percent(v) },
  };
  const KINDS = {
    all: ["all", () => true],
    front: [data.complete_front ? `Pareto front of ${data.front}` : `best known in ${data.front}`, (m) => m.label.includes("front")],
    named: ["with a name", (m) => ["best", "front", "named"].includes(m.kind)],
    drawn: ["drawn uniformly", (m) => m.kind === "drawn"],
  };
  const view = { from: 0, to: histogram ? histogram.counts.length : 1, shown: 0, kind: "all", sort: "energy_pj", down: false };

  // ---- text ----
  const at = (id) => document.getElementById(id);
  const count = (value) => Math.round(value).toLocaleString("en-US");
  const digits = (value) => (value >= 1000 ? count(value) : String(Number(value.toPrecision(4))));
  const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const energy = (pj, digits = 4) => si(pj * 1e-12, "J", digits);
  const times = (factor) => `${factor < 1000 ? Number(factor.toPrecision(3)) : count(factor)}x`;

  function si(value, unit, digits) {
    const prefixes = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "u"], [1e-9, "n"], [1e-12, "p"]];
    if (!value) return unit ? `0\u00a0${unit}` : "0";
    const rounded = Number(value.toPrecision(digits));
    const [scale, prefix] = prefixes.find(([size]) => Math.abs(rounded) >= size * (1 - 1e-9)) || prefixes.at(-1);
    const number = Number((rounded / scale).toPrecision(digits));
    return unit ? `${number}\u00a0${prefix}${unit}` : `${number}${prefix}`;
  }

  function percent(share) {
    if (share > 0 && share < 1e-5) return "<0.001\u00a0%";
    if (share < 1 && share >= 0.9995) return ">99.9\u00a0%";
    return `${Number((100 * share).toPrecision(3))}\u00a0%`;
  }

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "onclick") made.addEventListener("click", value);
      else made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  /** A name that breaks between its words only (WeightBuffer, b1_project), and within those that are very long. */
  function breakable(name) {
    const words = name.split(/(?<=[a-z0-9])(?=[A-Z])|(?<=[_./-])|(?<= )/).flatMap((word) => word.match(/.{1,14}/gsu) || []);
    return words.flatMap((word, i) => i ? [element("wbr"), word] : [word]);
  }

  /** Wilson's 95 % interval of a share, as in accelsim.population.sampling. */
  function interval(chosen, of) {
    const z = 1.96, share = chosen / of;
    const middle = (share + z * z / (2 * of)) / (1 + z * z / of);
    const half = z / (1 + z * z / of) * Math.sqrt(share * (1 - share) / of + z * z / (4 * of * of));
    return [Math.max(0, middle - half), Math.min(1, middle + half)];
  }

  // ---- axes ----
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const coarse = matchMedia("(pointer: coarse)").matches;
  const config = { displayModeBar: false, responsive: true, doubleClick: "reset" };

  /** Round numbers between two: every decade, 1-2-5, or even steps, as many as a narrow plot can carry. */
  function ticks(low, high, most = innerWidth < 600 ? 3 : 6) {
    const found = [];
    if (low > 0 && high / low > 8) {
      const digits = high / low > 300 ? [1] : [1, 2, 5];
      for (let decade = 10 ** Math.floor(Math.log10(low)); decade <= high; decade *= 10) {
        for (const digit of digits) if (digit * decade >= low && digit * decade <= high) found.push(digit * decade);
      }
      const every = Math.ceil(found.length / (most + 2));
      return found.filter((_, index) => index % every === 0);
    }
    const rough = (high - low) / most || 1, size = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((digit) => digit * size).find((width) => width >= rough);
    for (let value = Math.ceil(low / step) * step; value <= high; value += step) found.push(value);
    return found;
  }

  function axis(values, column) {
    const low = Math.min(...values), high = Math.max(...values), logarithmic = low > 0 && high > 3 * low;
    const room = logarithmic ? (high / low) ** 0.05 : (high - low || high || 1) * 0.05;
    const ends = logarithmic ? [low / room, high * room] : [low - room, high + room];
    const shown = ticks(ends[0], ends[1]);
    return {
      title: { text: plain(column.name), standoff: 12 }, type: logarithmic ? "log" : "linear",
      range: logarithmic ? ends.map(Math.log10) : ends, tickangle: 0, tickvals: shown, ticktext: shown.map(column.text),
      gridcolor: style("--grid"), ticks: "outside", ticklen: 4, tickcolor: style("--grid"), zeroline: false, linecolor: style("--line"), automargin: true,
    };
  }

  function layout(more) {
    const ink = style("--ink");
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 13 },
      margin: { l: 58, r: 18, t: 26, b: 48 }, showlegend: false, hovermode: "closest",
      hoverlabel: { bgcolor: style("--page"), bordercolor: ink, font: { color: ink }, align: "left" }, ...more,
    };
  }

  // ---- the distribution ----
  function drawSpread() {
    const logs = histogram.edges.map(Math.log10);
    const { counts, of, edges } = histogram;
    const inside = (bin) => bin >= view.from && bin < view.to;
    const shown = ticks(edges[0], edges.at(-1));
    const name = `mappings drawn, of ${count(of)}`;
    const trace = {
      type: "bar", x: counts.map((_, bin) => (logs[bin] + logs[bin + 1]) / 2), y: counts,
      width: counts.map((_, bin) => logs[bin + 1] - logs[bin]),
      marker: { color: counts.map((_, bin) => style(inside(bin) && !everything() ? "--pick" : "--bar")), line: { width: 0 } },
      text: counts.map((n, bin) => `${energy(edges[bin])} to ${energy(edges[bin + 1])}<br>${count(n)} of ${count(of)} (${percent(n / of)})`),
      textposition: "none", hovertemplate: "%{text}<extra></extra>",
    };
    const logarithmic = at("log-count").checked, most = Math.max(...counts);
    const upward = logarithmic ? ticks(1, Math.max(10, most)) : ticks(0, most, 5);
    const lines = histogram.marks.map(([, pj]) => ({
      type: "line", x0: Math.log10(pj), x1: Math.log10(pj), yref: "paper", y0: 0, y1: 1, line: { color: style("--ink"), width: 1.5, dash: "dot" },
    }));
    const middle = (logs[0] + logs.at(-1)) / 2;
    const notes = histogram.marks.map(([label, pj]) => ({
      x: Math.max(logs[0], Math.log10(pj)), y: 1, yref: "paper", yanchor: "bottom", xanchor: Math.log10(pj) < middle ? "left" : "right",
      text: `${label} ${energy(pj)}`, showarrow: false, font: { size: 12 },
    }));
    Plotly.react("spread-plot", [trace], layout({
      bargap: 0, dragmode: coarse ? false : "select", selectdirection: "h", shapes: lines, annotations: notes, selections: [],
      xaxis: { title: { text: "energy" }, range: [logs[0], logs.at(-1)], tickvals: shown.map(Math.log10), ticktext: shown.map((v) => energy(v)), gridcolor: style("--grid"), ticks: "outside", ticklen: 4, tickcolor: style("--grid"), zeroline: false, fixedrange: true },
      yaxis: {
        title: { text: name, standoff: 10 }, type: logarithmic ? "log" : "linear", range: logarithmic ? [Math.log10(0.7), Math.log10(most * 1.4)] : [0, most * 1.05],
        tickvals: upward, ticktext: upward.map((v) => si(v, "", 3)), gridcolor: style("--grid"), ticks: "outside", ticklen: 4, tickcolor: style("--grid"), zeroline: false, fixedrange: true, automargin: true,
      },
    }), config);
  }

  const everything = () => !histogram || (view.from === 0 && view.to === histogram.counts.length);
  const inRange = (mapping) => everything() || (mapping.bin >= view.from && mapping.bin < view.to);

  function choose(from, to) {
    const bins = histogram.counts.length;
    view.from = Math.max(0, Math.min(from, bins - 1));
    view.to = Math.min(bins, Math.max(to, view.from + 1));
    describeRange();
    drawSpread();
    drawScatter();
    drawList();
  }

  function chooseAndKeep(from, to) {
    choose(from, to);
    keep();
  }

  function describeRange() {
    const { counts, of, edges } = histogram;
    const inside = counts.slice(view.from, view.to).reduce((sum, n) => sum + n, 0);
    const [low, high] = interval(inside, of);
    const estimate = `about ${percent(inside / of)} of all valid even mappings (95\u00a0%: ${percent(low)} to ${percent(high)})`;
    const words = `${energy(edges[view.from])} to ${energy(edges[view.to])}`;
    at("range-text").textContent = everything()
      ? `Whole range: ${words}, ${times(edges[view.to] / edges[0])}.`
      : `${words}: ${count(inside)} of the ${count(of)} mappings drawn, so ${estimate}.`;
    for (const [id, value, edge] of [["from", view.from, view.from], ["to", view.to, view.to]]) {
      at(id).value = value;
      at(id).setAttribute("aria-valuetext", energy(edges[edge]));
    }
    at("everything").disabled = everything();
  }

  function startSpread() {
    const bins = histogram.counts.length;
    Object.assign(at("from"), { min: 0, max: bins - 1 });
    Object.assign(at("to"), { min: 1, max: bins });
    at("from").addEventListener("input", () => chooseAndKeep(at("from").valueAsNumber, view.to));
    at("to").addEventListener("input", () => chooseAndKeep(Math.min(view.from, at("to").valueAsNumber - 1), at("to").valueAsNumber));
    at("everything").addEventListener("click", () => chooseAndKeep(0, bins));
    if (coarse) at("spread-note").textContent = "Move the two handles to choose a range of energy, or tap a bar.";
    at("log-count").addEventListener("change", drawSpread);
    describeRange();
    drawSpread();
    const logs = histogram.edges.map(Math.log10);
    const binAt = (x) => logs.findLastIndex((edge) => edge <= x);
    at("spread-plot").on("plotly_selected", (event) => {
      if (!event?.range) return;
      const [low, high] = [...event.range.x].sort((a, b) => a - b);
      chooseAndKeep(binAt(low), binAt(high) + 1);
    });
    at("spread-plot").on("plotly_click", (event) => chooseAndKeep(event.points[0].pointNumber, event.points[0].pointNumber + 1));
    at("spread-plot").on("plotly_doubleclick", () => chooseAndKeep(0, bins));
  }

  // ---- one cost against another ----
  function hover(mapping) {
    const costs = Object.values(COLUMNS).map(({ name, text }, index) => `${plain(name)} ${text(mapping[Object.keys(COLUMNS)[index]])}`);
    return [`<b>${plain(mapping.label)}</b>`, ...costs].join("<br>");
  }

  function points(chosen, x, y, marker, more = {}) {
    const found = mappings.flatMap((mapping, index) => (chosen(mapping, index) ? [index] : []));
    return {
      type: "scatter", mode: "markers", x: found.map((i) => mappings[i][x]), y: found.map((i) => mappings[i][y]), customdata: found,
      text: found.map((i) => hover(mappings[i])), hovertemplate: "%{text}<extra></extra>", marker, ...more,
    };
  }

  function drawScatter() {
    if (!at("scatter-plot")) return;
    const x = at("x-axis").value, y = at("y-axis").value;
    const ink = style("--ink"), pick = style("--pick"), bar = style("--bar"), page = style("--page");
    const faded = (mapping) => !inRange(mapping);
    const front = (mapping) => KINDS.front[1](mapping);
    const rest = (kind) => (mapping) => mapping.kind === kind && !front(mapping);
    const open = { color: page, line: { color: bar, width: 1.3 } };
    const traces = [
      points((m) => rest("region")(m) && faded(m), x, y, { ...open, size: 6, opacity: 0.25 }),
      points((m) => rest("drawn")(m) && faded(m), x, y, { color: bar, size: 5, opacity: 0.2 }),
      points((m) => rest("region")(m) && !faded(m), x, y, { ...open, size: 7 }),
      points((m) => rest("drawn")(m) && !faded(m), x, y, { color: bar, size: 5.5, opacity: 0.75 }),
      points((m) => rest("named")(m), x, y, { color: bar, size: 9, symbol: "square", line: { color: page, width: 1 }, opacity: 0.95 }),
    ];
    const step = { line: { color: ink, width: 1.2, shape: x === "cycles" ? "hv" : "vh" } };
    const lines = lined && ((x === "cycles" && y === "energy_pj") || (x === "energy_pj" && y === "cycles"));
    const frontTrace = points(front, x, y, { color: ink, size: 10, symbol: "diamond", line: { color: page, width: 1 } }, lines ? { mode: "lines+markers", ...step } : {});
    traces.push(lines ? sorted(frontTrace) : frontTrace);
    traces.push(points((_, index) => index === 0, x, y, { color: ink, size: 15, symbol: "star", line: { color: page, width: 1 } }));
    traces.push(points((_, index) => index === view.shown, x, y, { color: pick, size: 19, symbol: "circle-open", line: { width: 3 } }, { hoverinfo: "skip", hovertemplate: null }));
    const values = (key) => mappings.map((mapping) => mapping[key]);
    Plotly.react("scatter-plot", traces, layout({
      dragmode: coarse ? false : "zoom", xaxis: axis(values(x), COLUMNS[x]), yaxis: axis(values(y), COLUMNS[y]),
    }), config);
  }

  function sorted(trace) {
    const order = trace.x.map((_, i) => i).sort((a, b) => trace.x[a] - trace.x[b]);
    for (const key of ["x", "y", "customdata", "text"]) trace[key] = order.map((i) => trace[key][i]);
    return trace;
  }

  function startScatter() {
    for (const [id, value] of [["y-axis", "energy_pj"], ["x-axis", "cycles"]]) {
      at(id).append(...Object.entries(COLUMNS).map(([key, { name }]) => element("option", { value: key }, name)));
      at(id).value = value;
      at(id).addEventListener("change", drawScatter);
    }
    drawScatter();
    at("scatter-plot").on("plotly_click", (event) => show(event.points[0].customdata));
    const has = (kind) => mappings.some((mapping) => mapping.kind === kind);
    at("scatter-note").textContent = [
      `Star: ${best.label.split(", ")[0]}.`,
      data.complete_front ? `Diamonds: the Pareto front (complete, proved)${lined ? "; no mapping is below and left of its line" : ""}.` : "",
      !data.complete_front && mappings.some(KINDS.front[1]) ? `Diamonds: the best known in ${data.front}; the front is not complete, others may beat them.` : "",
      has("drawn") ? "Dots: drawn uniformly." : "", has("region") ? "Rings: from regions where few are drawn." : "",
      has("named") ? "Squares: others with a name." : "", "Click a mark to see its mapping.",
      coarse ? "" : "Drag to enlarge, double-click for all.",
    ].filter(Boolean).join(" ");
  }

  // ---- the list ----
  const HEADS = [["label", "mapping"], ["energy_pj", "energy"], ["over", "x lowest"], ["cycles", "cycles"], ["offchip_words", `${data.levels[0]} words`], ["utilization", "utilization"]];
  const lowest = Math.min(...mappings.map((mapping) => mapping.energy_pj));

  function drawList() {
    if (!at("list")) return;
    const value = (mapping) => mapping[view.sort === "over" ? "energy_pj" : view.sort];
    const compare = (a, b) => (typeof value(a) === "string" ? value(a).localeCompare(value(b), "en", { numeric: true }) : value(a) - value(b));
    const found = mappings.filter((mapping) => inRange(mapping) && KINDS[view.kind][1](mapping));
    found.sort((a, b) => (view.down ? -1 : 1) * compare(a, b) || mappings.indexOf(a) - mappings.indexOf(b));
    const rows = found.slice(0, MOST_ROWS);
    at("list-note").textContent = found.length > rows.length
      ? `The first ${count(rows.length)} of ${count(found.length)} in this order; choose a range to see the others.`
      : `${count(found.length)} ${found.length === 1 ? "mapping" : "mappings"}. Click one to see its loop nest.`;
    at("mappings").tHead.replaceChildren(element("tr", {}, ...HEADS.map(([key, name]) => {
      const sorting = view.sort === key ? { "aria-sort": view.down ? "descending" : "ascending" } : {};
      return element("th", { scope: "col", ...sorting }, element("button", { type: "button", "data-key": key, onclick: () => sortBy(key) }, name));
    })));
    at("mappings").tBodies[0].replaceChildren(...rows.map(listRow));
  }

  function listRow(mapping) {
    const index = mappings.indexOf(mapping), current = index === view.shown ? { "aria-current": "true" } : {};
    const cells = [energy(mapping.energy_pj), times(mapping.energy_pj / lowest), si(mapping.cycles, "", 4), si(mapping.offchip_words, "", 4), percent(mapping.utilization)];
    return element("tr", { "data-index": index, onclick: () => show(index), ...current },
      element("td", {}, element("button", { type: "button" }, mapping.label)), ...cells.map((text) => element("td", { class: "number" }, text)));
  }

  function sortBy(key) {
    view.down = view.sort === key && !view.down;
    view.sort = key;
    drawList();
    keep();
    at("mappings").querySelector(`[data-key="${key}"]`).focus();
  }

  function startList() {
    if (histogram) at("list-title").textContent = "Mappings in the range";
    const kinds = Object.entries(KINDS).filter(([key, [, belongs]]) => key === "all" || mappings.some(belongs));
    at("kinds").append(...kinds.map(([key, [name]]) => element("option", { value: key }, name)));
    at("kinds").addEventListener("change", () => { view.kind = at("kinds").value; drawList(); });
    drawList();
  }

  // ---- the mapping shown ----
  function show(index) {
    view.shown = index;
    drawShown();
    keep();
    drawScatter();
    drawRoofline();
    for (const row of at("mappings")?.tBodies[0].rows ?? []) {
      row.toggleAttribute("aria-current", Number(row.dataset.index) === index);
    }
    const narrow = matchMedia("(max-width: 999px)").matches;
    at("shown").scrollTo?.({ top: 0 });
    if (narrow) at("shown").scrollIntoView();
    at("shown").focus({ preventScroll: true });
  }

  function drawShown() {
    const mapping = mappings[view.shown], isBest = view.shown === 0;
    at("shown-title").textContent = isBest ? "Best mapping" : `Mapping: ${mapping.label}`;
    at("show-best").hidden = isBest;
    if (at("back")) at("back").hidden = isBest;
    const { needed } = mapping, names = [...data.levels, data.compute];
    const compute = names.length - 1;
    const limit = needed[compute] === mapping.cycles ? compute : needed.indexOf(mapping.cycles);
    const over = (key) => (isBest || !best[key] ? "" : `${times(mapping[key] / best[key])} the best`);
    const costs = [
      ["energy", energy(mapping.energy_pj, 5), over("energy_pj") || `${digits(mapping.energy_pj / data.macs)} pJ/MAC`],
      ["cycles", count(mapping.cycles), over("cycles") || `limited by ${names[limit]}`],
      [`${data.levels[0]} words`, count(mapping.offchip_words), over("offchip_words")],
      ["utilization", percent(mapping.utilization), mapping.units && `${data.compute} ${mapping.units}`],
    ];
    at("shown-costs").replaceChildren(...costs.map(([name, value, note]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, value, element("small", {}, note || "")))));
    at("nest").replaceChildren(...nestLevels(mapping));
    at("yaml").textContent = mapping.yaml;
    at("download").href = `data:text/yaml;charset=utf-8,${encodeURIComponent(mapping.yaml)}`;
    at("energy").replaceChildren(...energyBars(mapping));
    at("cycles").replaceChildren(cycleBars(names, needed, limit, mapping.cycles));
  }

  function nestLevels(mapping) {
    let depth = 0;
    const levels = mapping.nest.map(([used, keeps, ...lines], index) => {
      const loops = lines.map((line) => {
        const loop = /^(par_)?for /.test(line), spatial = line.startsWith("par_for");
        const made = element("p", { class: spatial ? "loop spatial" : loop ? "loop" : "keeps", style: `padding-left:${Math.min(depth, 20) * 0.55}rem` }, line);
        depth += loop ? 1 : 0;
        return made;
      });
      const head = element("p", {}, element("b", {}, data.levels[index]), `${used.startsWith("x") ? " " : ", "}${used.replace(/ %/g, "\u00a0%")}`);
      return element("div", { class: "level" }, head, element("p", { class: "keeps" }, keeps), ...loops);
    });
    return [...levels, element("div", { class: "level" }, element("p", {}, element("b", {}, data.compute), ` ${mapping.units}`))];
  }

  /** Black or white, whichever can be read better on a colour. */
  function inkOn(colour) {
    const [r, g, b] = [1, 3, 5].map((i) => (parseInt(colour.slice(i, i + 2), 16) / 255) ** 2.2);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000000" : "#ffffff";
  }

  function componentSums(mapping) {
    const sums = data.components.map(() => 0);
    for (const [component, , pj] of mapping.energy) sums[component] += pj;
    return sums;
  }

  function swatch({ letter, colour }) {
    return element("span", { class: "swatch", style: `background:${colour};color:${inkOn(colour)}`, "aria-hidden": "true" }, letter);
  }

  function energyBars(mapping) {
    const sums = componentSums(mapping), bestSums = componentSums(best), compare = mapping !== best;
    const longest = Math.max(...sums, ...(compare ? bestSums : []));
    const rows = data.components.map((name, component) => {
      if (!sums[component] && !(compare && bestSums[component])) return null;
      const pieces = mapping.energy.filter(([of]) => of === component).sort((a, b) => a[1] - b[1]).map(([, tensor, pj]) => {
        const { name: said, letter, colour } = data.tensors[tensor], width = 100 * pj / longest;
        return element("i", { style: `width:${width}%;background:${colour};color:${inkOn(colour)}`, title: `${said}: ${energy(pj)}` }, width > 4 ? letter : "");
      });
      const mark = compare ? [element("i", { class: "mark", style: `left:${99 * bestSums[component] / longest}%`, title: `best mapping: ${energy(bestSums[component])}` })] : [];
      return element("tr", {}, element("th", { scope: "row" }, ...breakable(name)), element("td", {}, element("div", { class: "bar" }, ...pieces, ...mark)),
        element("td", { class: "number" }, energy(sums[component], 3)), element("td", { class: "number" }, percent(sums[component] / mapping.energy_pj)));
    });
    const legend = element("ul", { class: "legend" }, ...data.tensors.map((tensor) => element("li", {}, swatch(tensor), tensor.name)),
      ...(compare ? [element("li", {}, element("span", { class: "tick" }), "the best mapping")] : []));
    return [legend, element("table", { class: "bars" }, element("tbody", {}, ...rows.filter(Boolean))), energyTable(mapping)];
  }

  function energyTable(mapping) {
    const parts = data.components.map(() => data.tensors.map(() => 0));
    for (const [component, tensor, pj] of mapping.energy) parts[component][tensor] = pj;
    const rows = parts.map((row, component) => [data.components[component], row]).filter(([, row]) => row.some(Boolean));
    const head = element("tr", {}, ...["component", ...data.tensors.map(({ name }) => name)].map((name) => element("th", { scope: "col" }, ...breakable(name))));
    const body = rows.map(([name, row]) => element("tr", {}, element("th", { scope: "row" }, ...breakable(name)), ...row.map((pj) => element("td", { class: "number" }, pj ? energy(pj) : ""))));
    const made = element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
    return element("details", {}, element("summary", {}, "Energy in numbers"), element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Energy by component and tensor" }, made));
  }

  function cycleBars(names, needed, limit, total) {
    const rows = names.map((name, index) => {
      const bar = element("div", { class: "bar" }, element("i", { style: `width:${100 * needed[index] / total}%;background:var(--bar)` }));
      const said = needed[index] ? count(needed[index]) : "no limit";
      return element("tr", index === limit ? { class: "most" } : {}, element("th", { scope: "row" }, ...breakable(name)), element("td", {}, bar), element("td", { class: "number" }, said));
    });
    return element("table", { class: "bars" }, element("tbody", {}, ...rows));
  }

  // ---- the roofline ----
  function drawRoofline() {
    const { roofs, peak } = data, shown = mappings[view.shown];
    const each = shown === best ? [best] : [best, shown];
    const intensities = each.flatMap((mapping) => mapping.intensity.filter((value) => value));
    const ridges = roofs.map(({ bytes_per_cycle: rate }) => peak / rate);
    const low = Math.min(0.5, ...intensities, ...ridges) / 3, high = Math.max(2, ...intensities, ...ridges) * 3;
    const dashes = ["solid", "dash", "dot", "dashdot", "longdash"], symbols = ["circle", "square", "diamond", "triangle-up", "star"];
    const rooflines = roofs.map(({ name, bytes_per_cycle: rate }, index) => ({
      type: "scatter", mode: "lines", x: [low, ridges[index], high], y: [low * rate, peak, peak], name: plain(name),
      line: { color: style("--soft"), width: 2, dash: dashes[index % 5] }, hoverinfo: "skip", showlegend: false,
    }));
    const flat = { type: "scatter", mode: "lines", x: [low, high], y: [peak, peak], name: plain(data.compute), line: { color: style("--ink"), width: 2.5 }, hoverinfo: "skip", showlegend: false };
    const marks = each.flatMap((mapping) => roofs.map(({ name, bytes_per_cycle: rate }, index) => {
      const macs = data.macs / mapping.cycles, value = mapping.intensity[index], who = mapping === best ? "best mapping" : mapping.label;
      const said = `<b>${plain(who)}</b> at ${plain(name)}<br>${value ? digits(value) : ""} MACs/byte<br>${digits(macs)} of at most ${digits(Math.min(peak, value * rate))} MACs/cycle`;
      return {
        type: "scatter", mode: "markers", x: value ? [value] : [], y: value ? [macs] : [], text: [said], hovertemplate: "%{text}<extra></extra>", name: plain(name), showlegend: mapping === best,
        marker: { size: 13 + 4 * index, symbol: `${symbols[index % 5]}-open`, color: mapping === best ? style("--ink") : style("--pick"), line: { width: 2.5 } },
      };
    }));
    const speeds = each.map((mapping) => data.macs / mapping.cycles);
    const yAxis = axis([Math.min(...speeds, peak / 10) / 2, peak * 2], { name: "MACs/cycle", text: (v) => si(v, "", 3) });
    const xAxis = axis([low, high], { name: "MACs for each byte moved at the level", text: (v) => si(v, "", 3) });
    const label = { x: Math.log10(low), y: Math.log10(peak), xanchor: "left", yanchor: "bottom", showarrow: false, text: plain(`${data.compute}: ${digits(peak)} MACs/cycle`) };
    Plotly.react("roofline-plot", [flat, ...rooflines, ...marks], layout({
      dragmode: false, xaxis: { ...xAxis, fixedrange: true }, yaxis: { ...yAxis, fixedrange: true }, annotations: [label],
      showlegend: true, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 12 } },
    }), config);
    at("roofline-note").textContent = roofs.length
      ? `The best mapping does ${digits(data.macs / best.cycles)} of at most ${digits(peak)} MACs/cycle.${shown === best ? "" : ` Coloured: ${shown.label}.`}`
      : "No level of this architecture has a limited bandwidth: only the compute units bound the speed.";
  }

  // ---- the address, which says what is chosen ----
  function keep() {
    const order = view.sort === "energy_pj" && !view.down ? "" : view.sort;
    keepLink({ mapping: view.shown || "", sort: order, down: view.down ? 1 : "" });
  }

  /** Choose what the address asks for, of what there is. */
  function openChosen() {
    const asked = openLink();
    if (Number(asked.mapping) in mappings) view.shown = Number(asked.mapping);
    if (HEADS.some(([key]) => key === asked.sort)) Object.assign(view, { sort: asked.sort, down: asked.down === "1" });
    if (at("kinds")) view.kind = at("kinds").value;
    if (histogram) choose(at("from").valueAsNumber, at("to").valueAsNumber);
    else drawScatter(), drawList();
    drawShown();
    drawRoofline();
    document.addEventListener("change", keep);
  }

  function drawAll() {
    if (histogram) drawSpread();
    drawScatter();
    drawRoofline();
  }

  at("copy").addEventListener("click", () => { at("yaml").parentNode.open = true; copyText(at("copy"), at("yaml")); });
  at("show-best").addEventListener("click", () => show(0));
  at("back")?.addEventListener("click", () => at("list").scrollIntoView());
  drawShown();
  if (histogram) startSpread();
  if (at("scatter")) startScatter();
  if (at("list")) startList();
  drawRoofline();
  openChosen();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  document.documentElement.dataset.ready = "true";
})();
