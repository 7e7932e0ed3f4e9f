"""Parts of a page that the script fills, and the words that explain it; `$more` and `$back` stand for further HTML."""

SPREAD = """<section id="spread"><h2>How the energy is spread</h2>
<p class="note" id="spread-note">Drag over the bars, or move the two handles, to choose a range of energy.</p>
<div id="spread-plot" class="plot" role="img" aria-label="Histogram of the energy of the valid mappings"></div>
<div class="range"><label>from <input id="from" type="range" step="1"></label>
<label>to <input id="to" type="range" step="1"></label></div>
<p id="range-text" role="status"></p>
<p class="controls"><button id="everything" type="button">Whole range</button>
<label><input id="log-count" type="checkbox"> logarithmic count</label></p>
$more</section>"""
SCATTER = """<section id="scatter"><h2>One cost against another</h2>
<p class="controls"><label>up <select id="y-axis"></select></label>
<label>across <select id="x-axis"></select></label></p>
<div id="scatter-plot" class="plot" role="img" aria-label="Scatter plot of the mappings listed below"></div>
<p class="note" id="scatter-note"></p></section>"""
LIST = """<section id="list"><h2 id="list-title">Mappings</h2>
<p class="controls"><label>show <select id="kinds"></select></label></p>
<p class="note" id="list-note"></p>
<div class="scroll tall" tabindex="0" role="region" aria-labelledby="list-title">
<table id="mappings"><thead></thead><tbody></tbody></table></div></section>"""
BACK = '<button id="back" type="button">Back to the list</button>'
SHOWN = """<section id="shown" tabindex="-1" aria-live="polite">
<div class="head"><h2 id="shown-title"></h2>
<button id="show-best" type="button">Show the best</button>$back</div>
<dl id="shown-costs" class="costs"></dl>
<h3>Loop nest</h3><p class="note">for: in time, par_for: in space; sizes of one instance</p><div id="nest"></div>
<h3>Energy</h3><div id="energy"></div>
<h3>Cycles</h3><p class="note">All components work at the same time: the one that needs most sets the total.</p>
<div id="cycles"></div></section>"""
ROOFLINE = """<p class="note">A mapping cannot do more MACs in a cycle than the compute units allow (flat roof), nor
more than the bandwidth of a level allows for the MACs that it does with each byte moved there (slanted roofs).</p>
<div id="roofline-plot" class="plot" role="img" aria-label="Roofline of the machine with the best mapping"></div>
<p class="note" id="roofline-note"></p>"""
READING = """<ul>
<li>A <b>mapping</b> says in what order, on which units and from which memories a layer is computed. All mappings
give the same result; they differ in energy and time.</li>
<li>A <b>level</b> is a memory, from the outermost (usually DRAM) inwards. It keeps tiles of tensors, or lets them pass
by.</li>
<li><b>DRAM words</b>, or those of another outermost level, are the words that are read from it and written to it.</li>
<li><b>Utilization</b> is the share of the compute units' cycles that do multiply-accumulates (MACs).</li>
<li>The <b>Pareto front</b> holds the mappings that none other beats in both energy and cycles.</li>
<li>Energy is that of all components together: memories, networks, compute units and leakage.</li>
</ul>"""
ALL_READING = """<p>The histogram holds all valid mappings, each evaluated. The dots are some of them, drawn at random;
some of each region of the histogram are shown as well, as rings.</p>"""
SAMPLE_READING = """<p>The histogram and the dots are mappings that were drawn so that each valid one is equally
likely. The exact numbers do not come from them. Rare mappings are seldom drawn, so some of each region of the histogram
that was seen at all are shown as well, as rings.</p>"""
