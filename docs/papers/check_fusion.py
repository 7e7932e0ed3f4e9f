"""Check the certificate of a fused network: find its least sum anew, with no code of accelsim.

    python docs/papers/check_fusion.py DIR/fusion_certificate.json

It rebuilds all ways through the graphs, all fused tilings and their parts (docs/papers/fusion.md, sections 1 to 3). A
part costs its value in the file or, where there is none, a limit. It trusts the problem as the file states it, and
values: of layers by themselves, of parts, and of `inner` (energy of the fusing level and further in).
"""
# ruff: noqa: B905, D102, D103, T201

import functools
import hashlib
import itertools
import json
import math
import sys
from collections import Counter, defaultdict, namedtuple
from pathlib import Path

import numpy as np

FORM = "accelsim fusion certificate 2"
CLOSE, FAR, NONE = 1e-9, 1 << 40, frozenset()  # relative difference up to which sums are equal; no point; nothing
NOTHING = (math.inf, False)  # a cost, and whether it is only a limit: of equal ones a value is less
Part = namedtuple("Part", "kind level bounds arriving present sums streamed")  # as in the file
Step = namedtuple("Step", "places present staying leaving taken")  # a group: what is there, stays, leaves; words
# What may lie in the fusing level for several layers: places and names, first of who brings it. Of each rank the words
# that are written, and with padding; how it moves for each reader; places and dimensions that move it together
Link = namedtuple("Link", "tensors ranks")
Rank = namedtuple("Rank", "extent words moves tie")
Move = namedtuple("Move", "place dim stride before box")  # of a reader; `dim` is None if no dimension alone moves it


def subsets(items):
    items = list(items)
    return [frozenset(some) for many in range(len(items) + 1) for some in itertools.combinations(items, many)]


def frozen(each):  # lists as tuples, and nothing as infinite
    return tuple(map(frozen, each)) if isinstance(each, list) else math.inf if each is None else each


@functools.cache
def different(terms):  # how many different sums the indices along a rank have
    return len(functools.reduce(lambda sums, t: np.unique(np.add.outer(sums, t[0] * np.arange(t[1]))), terms, [0]))


def moving(kind):  # dimensions that move each tensor, and the output
    moved = {t: {dim for rank in ranks for dim, _ in rank} for t, ranks in kind["tensors"].items()}
    return {"moved": moved, "written": moved[kind["output"]]}


class Table:
    """Values of parts, and limits for those that have none."""

    def __init__(self, document):
        self.kinds, self.energy = [each | moving(each) for each in document["kinds"]], document["objective"] == "energy"
        self.answers, self.inner, self.wrong = defaultdict(list), defaultdict(list), {}
        self.words, self.limit, self.cost = map(functools.cache, (self.words, self.limit, self.cost))
        for each in document["parts"]:
            self.answers[Part(*(frozen(each[name]) for name in Part._fields))] += map(frozen, each["found"])
        for each in document["inner"]:
            its = frozen(each["bounds"]), {*each["kept"]}, frozen(each["pj_per_mac"])
            self.inner[each["kind"], each["level"]].append(its)

    def words(self, kind, bounds):
        """Words of each tensor: those in the box from the first index to the last, and those that are touched."""
        size, found = dict(zip(self.kinds[kind]["dims"], bounds)), {}
        for t, ranks in self.kinds[kind]["tensors"].items():
            ranks = [tuple((f, size[dim]) for dim, f in rank) for rank in ranks]
            box = math.prod(1 + sum(f * (n - 1) for f, n in rank) for rank in ranks)
            found[t] = box, math.prod(map(different, ranks))
        return found

    def limit(self, part, alike=True):
        """What no mapping of a part falls below; if not `alike`, nor those of unequal parts that make it up."""
        its, macs, held = self.kinds[part.kind], math.prod(part.bounds), {*part.arriving, *part.present}
        bounds, steps = dict(zip(its["dims"], part.bounds)), math.prod(many for _, many in part.sums)
        per_mac, far, near, moved = its["mac_pj"], 0, 0, {}
        for name, (_, words) in self.words(part.kind, part.bounds).items():
            state = "present" if name in part.present else "arriving" if name in part.arriving else "out"
            asks, outside, inside = its["at"][part.level]["pj"][name][state]
            per_mac, near = per_mac + asks, near + words * inside
            far += words * outside * (steps if name in part.streamed else 1)
            moved[name] = 0 if name in part.present else words * its["offchip_units"][name]
        total, written = sum(moved.values()), moved[its["output"]]
        cycles = math.ceil(macs * its["cycles_per_mac"] * (1 - 1e-12))
        for units, (rate, time) in zip((total, total - written, written, total), its["ports"]):
            cycles = max(cycles, -(-units * time // rate) if rate else 0)
        known = [0.0]  # of what equal parts make up, which have all that is summed
        for whole, kept, pj in self.inner[part.kind, part.level] if alike else ():
            cut = [n % own == 0 if dim in its["written"] else n == own for (dim, own), n in zip(bounds.items(), whole)]
            known += [pj] if kept <= held and all(cut) else []
        near = max(macs * per_mac + near + its["leak_pj"] * cycles, macs * max(known))
        return (far + near) * (1 - 1e-11) if self.energy else cycles

    def cost(self, part, room):
        """Cost of a part within so many words: its value, or what that is not below."""
        loose = part._replace(sums=tuple(sorted(part.sums)), streamed=math.inf)  # with any loops over what it sums
        exact, others = ([each for each in self.answers[key] if room <= each[0]] for key in (part, loose))
        least = max([self.limit(part), *(bound for *_, bound in exact + others)])
        values = [value for _, used, value, bound in exact if bound == value and used <= room]
        return (self.above(values[0], least, part), False) if values else (least * (1 + CLOSE), True)

    def above(self, value, least, what):
        if value < least * (1 - CLOSE):
            self.wrong[what] = f"a value of {value:.12g} is below its limit of {least:.12g}: {what}"
        return value


class Group:
    """Layers that run as a group in an order, and their fused tilings at a level; places are those of the graph.

    `links` has those inside by the place that writes them, and shared ones by numbers below 0.
    """

    def __init__(self, table, layers, links, order, level):
        self.table, self.order, self.level, self.links, self.ends = table, order, level, {}, {*order}
        self.choices, self.demand = functools.cache(self.choices), functools.cache(self.demand)
        self.layers = {p: layers[p] for p in order}
        self.needed = {p: dict(zip(its["dims"], its["bounds"])) for p, its in self.layers.items()}
        last = {p: n for n, p in enumerate(order)}  # a producer once all that it is asked for is known
        for n, link in sorted(enumerate(links), key=lambda each: -last.get(each[1]["producer"], -1)):
            self.add(link, -1 - n, [r for p in order for r in link["readers"] if r["layer"] == p])
        joined = {order[0]}
        for places in [{p for p, _ in link.tensors} for link in self.links.values()] * len(order):
            joined |= places if joined & places else NONE
        inside = [at for key, link in self.links.items() if key >= 0 for at in link.tensors]
        held = ["may_hold" in layers[p] for p in order] + [t in layers[p].get("may_hold", ()) for p, t in inside]
        self.fits = len(joined) == len(order) and all(held)
        self.dims = [*self.traced()] if len(order) > 1 else []
        self.along = {}  # the rank of a link that a fused dimension moves in all layers that have it
        for (key, link), (d, dim) in itertools.product(self.links.items(), enumerate(self.dims)):
            self.along[key, d] = next((rank for rank in link.ranks if rank.tie <= dim.items()), None)
        self.most = [math.gcd(*(self.needed[p][dim[p]] for p in self.ends)) for dim in self.dims]
        self.fewest = {p: {**its} for p, its in self.needed.items()}  # points that all tiles run, with all halos kept
        for (d, dim), p in itertools.product(enumerate(self.dims), order):
            runs = self.demand(d, self.most[d], frozenset(order))[0][p]
            self.fewest[p][dim[p]] = min(self.fewest[p][dim[p]], sum(n * many for (n, _), many in runs))

    def add(self, link, number, readers):
        """Line up the ranks of a link that is inside or shared; where none of it leaves, cut what its producer runs."""
        p, inside = link["producer"], link["producer"] in self.layers
        ends = not inside or link["goes_out"] or len(readers) < len(link["readers"])
        ranks = [rank for r in readers for rank in r["ranks"]]
        alike = all([f for _, f in rank["terms"]] == [1] and rank["box"] == rank["extent"] for rank in ranks)
        if not readers or not (inside or (alike and len(readers) > 1)):
            return
        self.ends -= NONE if ends else {p}
        brought = [(p, self.layers[p]["output"])] if inside else []
        link = self.links[p if inside else number] = Link(brought + [(r["layer"], r["tensor"]) for r in readers], [])
        for ranks in zip(*(r["ranks"] for r in readers)):
            moves, dim, extent = [*map(self.move, readers, ranks)], ranks[0]["producer"], ranks[0]["extent"]
            after = [its.box - its.before for its in moves] + [extent] * (ends and inside)
            tie = {(its.place, its.dim) for its in moves} | {(p, dim) for p, _ in brought}
            link.ranks.append(Rank(extent, max(after) + max(its.before for its in moves), moves, tie))
            if not ends:
                self.needed[p][dim] = min(extent, max(after))

    def move(self, reader, rank):
        """How the box of a reader moves along a rank."""
        p, terms, before = reader["layer"], dict(rank["terms"]), rank["before"]
        box = 1 + sum(f * (self.needed[p][dim] - 1) for dim, f in terms.items())
        exact = [*terms.values()] == [1] and box == rank["extent"] and not before
        movers = [dim for dim in terms if dim in self.layers[p]["written"]] or [dim for dim in terms if exact]
        dim = movers[0] if len(movers) == 1 else None
        return Move(p, dim, terms.get(dim), before, box)

    def traced(self):
        """Each choice of a dimension of each layer that move all links inside together, with what joins the layers."""
        ties = [rank.tie for link in self.links.values() for rank in link.ranks if None not in dict(rank.tie).values()]
        found = [frozenset({(self.order[0], dim)}) for dim in self.needed[self.order[0]]]
        for some in found:  # grows
            more = dict.fromkeys(some | tie for tie in ties if some & tie)
            found += [each for each in more if len(dict(each)) == len(each) and each not in found]
        for some in (some for some in found if len(some) == len(self.order)):
            free = all(self.needed[p][dim] > 1 and dim not in self.layers[p]["whole"] for p, dim in some)
            ends = [(dim, self.layers[p]["tensors"][self.layers[p]["output"]]) for p, dim in some if p in self.ends]
            free &= all(rank == [[dim, 1]] for dim, ranks in ends for rank in ranks if dim in dict(rank))
            if free and all(any(tie <= some for *_, tie in its.ranks) for key, its in self.links.items() if key >= 0):
                yield dict(some)

    def demand(self, d, steps, kept):
        """Of a fused loop: how often each layer runs how much; tile and halo of links, if its halo stays in `kept`."""
        dims, fresh, asked, sides, step = self.dims[d], {}, {}, {}, np.arange(steps)
        for p in reversed(self.order):
            share, rank = self.needed[p][dims[p]] // steps, self.along.get((p, d))
            spans = [(step * share, (step + 1) * share)] if p in self.ends else []
            for reader, dim, stride, before, box in rank.moves if rank else ():
                low, high = fresh[reader]
                spans.append((stride * low - before, box - before - stride * (self.needed[reader][dim] - high)))
            low, high = np.min(spans, axis=0)[0], np.max(spans, axis=0)[1]
            if rank:
                ends = np.maximum.accumulate([-FAR, *high])[:-1]
                sides[p] = [max(0, int(each.max())) for each in (high - low, ends - low)]
                low, high = np.maximum(0, low), np.minimum(rank.extent, high)
            asked[p] = low, high
            low = np.maximum(low, np.maximum.accumulate([0, *high])[:-1]) if p in kept else low
            fresh[p] = np.where(high > low, [low, high], [[FAR], [-FAR]])
        for key in (key for key in self.links if key < 0 and self.along[key, d]):
            p, *others = [its.place for its in self.along[key, d].moves]
            (low, high), reads = asked[p], [fresh[other] for other in others]
            if all(np.all((low <= first) & (last <= high)) for first, last in reads):
                again = np.minimum(high.max(), np.min([first for first, _ in reads], axis=0))
                again = np.minimum.accumulate(again[::-1])[::-1]  # the first word that a step or a later one reads
                ends = np.maximum.accumulate(fresh[p][1])
                several = ends - np.minimum(again, fresh[p][0]), ([0, *ends[:-1]] - again) * (p in kept)
                sides[key] = [max(0, int(each.max())) for each in several]
        runs = {p: np.maximum(0, high - low).tolist() for p, (low, high) in fresh.items()}
        return {p: tuple(Counter(zip(its, [True] + [False] * steps)).items()) for p, its in runs.items()}, sides

    def loops(self):
        """Sets of fused loops with their steps, and all orders of each: for each layer those over sums come last."""
        sums = [
            {d for d, dim in enumerate(self.dims) if dim[p] not in its["written"]} for p, its in self.layers.items()
        ]
        for steps in itertools.product(*([n for n in range(1, m + 1) if m % n == 0] for m in self.most)):
            split = {d: n for d, n in enumerate(steps) if n > 1}
            apart = all(len({self.dims[d][p] for d in split}) == len(split) for p in self.order)
            orders = itertools.permutations(split) if apart else ()
            orders = [its for its in orders if all(sorted(its, key=some.__contains__) == [*its] for some in sums)]
            if orders:
                yield split, orders

    def tilings(self, step, several):
        """Fused tilings with some loops: for each layer the words that links take, and its choices of parts."""
        inside = {key for key in self.links if key >= 0}
        shared = [key for key in self.links if key < 0 and not step.present & {*self.links[key].tensors}]
        shared = [key for key in shared if all(t in self.layers[p]["may_stay"] for p, t in self.links[key].tensors)]
        for key in [*shared]:  # the first reader has to fetch all of it
            if any(its.box > rank.moves[0].box for rank in self.links[key].ranks for its in rank.moves):
                shared.remove(key)
        for split, orders in several if self.fits else ():
            links = [(p, d) for p in inside - step.staying for d in split]
            for halos in subsets((p, d) for p, d in links if self.demand(d, split[d], NONE)[1][p][1]):
                kept = {d: step.staying | {p for p, other in halos if other == d} for d in split}
                needs = {d: self.demand(d, n, kept[d]) for d, n in split.items()}
                fetched = subsets(key for key in shared if all(key in sides for _, sides in needs.values()))
                for order, fetch in itertools.product(orders, fetched):
                    taken, held = dict.fromkeys(self.order, step.taken), self.held(step, fetch)
                    for key in inside - step.staying | fetch:
                        self.take(taken, key, {d: (*needs[d][1][key], key < 0 or key in kept[d]) for d in order})
                    loops = tuple((d, split[d]) for d in order)
                    runs = {p: tuple(needs[d][0][p] for d in order) for p in self.order}
                    yield taken.values(), [self.choices(p, loops, runs[p], held[p]) for p in self.order]

    def held(self, step, fetch):
        """Tensors of each layer that lie there whatever else stays: whether they come or go, or are present."""
        links = [link for key, link in self.links.items() if key >= 0 or key in fetch]
        found = dict.fromkeys((self.links[key].tensors[0] for key in fetch), "arriving")
        found |= dict.fromkeys([*step.present, *(at for link in links for at in link.tensors[1:])], "present")
        outputs = [(p, its["output"]) for p, its in self.layers.items() if p in self.links or p in step.staying]
        found |= {at: "arriving" if at[0] in step.leaving else "present" for at in outputs}
        return {p: frozenset((t, state) for (place, t), state in found.items() if p == place) for p in self.order}

    def take(self, taken, key, sides):
        """Add the words of a link while each layer runs: `sides` has its tile and halo, and whether the halo stays."""
        ranks = {d: self.along[key, d] for d in sides}
        inside = live = math.prod(rank.words for rank in self.links[key].ranks if rank not in ranks.values())
        between = 0  # words while it is not in use: halos that stay
        for d, (tile, halo, stays) in reversed(sides.items()):
            halo, rest = halo * stays * inside, tile - halo * stays
            live, between, inside = halo + rest * live, halo + rest * between, inside * ranks[d].words
        (first, name), *_ = tensors = self.links[key].tensors
        at = [self.order.index(p) for p, _ in tensors]
        for n, p in enumerate(self.order):
            words = live if min(at) <= n <= max(at) else between
            taken[p] += words * self.layers[first]["element_words"][name]

    def limit(self, step):
        """What no fused tiling falls below: its parts run all that the smallest tiles need, and touch each word."""
        bounds, several = {p: tuple(its.values()) for p, its in self.fewest.items()}, []
        for _, its in self.tilings(step, [({}, [()])]):
            parts = [(p, part) for p, choices in zip(self.order, its) for _, runs in choices for _, part, *_ in runs]
            several.append(sum(self.table.limit(part._replace(bounds=bounds[p]), False) for p, part in parts))
        return min(several, default=math.inf)

    def best(self, step):
        """Cost of the best fused tiling."""
        best = NOTHING
        for taken, its in self.tilings(step, self.loops()):
            alone = [[self.cost([n], [each]) for each in choices] for n, choices in zip(taken, its)]
            if sum(min(costs, default=NOTHING)[0] for costs in alone) < best[0]:
                best = min([best, *(self.cost(taken, chosen) for chosen in itertools.product(*its))])
        return best

    def cost(self, taken, chosen):
        """Cost of a choice of parts for each layer, where links take some words."""
        left, costs = self.level["words"] - sum(words for words, _ in chosen), []
        for links, (_, parts) in zip(taken, chosen):
            if any(left - links < least for *_, least in parts):
                return NOTHING
            costs += [(n, *self.table.cost(part, left - links + own)) for n, part, own, _ in parts]
        return sum(n * cost for n, cost, _ in costs), any(limit for *_, limit in costs)

    def choices(self, place, loops, runs, held):
        """For each set of resident tensors of a layer: their words, and its parts with counts, own and least words."""
        layer, dims, held = self.layers[place], {self.dims[d][place]: n for d, n in loops}, dict(held)
        moved, words = layer["moved"], layer["element_words"]
        sums = {dim: n for dim, n in dims.items() if dim not in layer["written"]}
        still = {t: {*itertools.takewhile(lambda d, t=t: d not in moved[t], reversed(dims))} for t in moved}
        several, found = [], []
        for chosen in itertools.product(*(run for dim, run in zip(dims, runs) if dim not in sums)):
            outer = dict(zip((dim for dim in dims if dim not in sums), chosen))
            bounds = self.needed[place] | {dim: n for dim, ((n, _), _) in outer.items()}
            boxes = self.table.words(layer["kind"], tuple(n // sums.get(dim, 1) for dim, n in bounds.items()))
            later = {dim for dim, ((_, first), _) in outer.items() if not first}
            its = math.prod(many for _, many in chosen), tuple(bounds.values()), later, boxes
            several += [its] if all(bounds.values()) else []
        for stay in subsets(t for t in moved if still[t] and t in layer["may_stay"] and t not in held):
            there, parts = stay | held.keys(), []
            streamed = tuple(sorted(t for t in moved if sums and still[t] and t not in there))
            if there & {*layer["refused"]} or not all(moved[t] - sums.keys() for t in streamed):
                continue
            least = sum(words[t] for t in layer["must_keep"] if t not in there)
            for count, bounds, later, boxes in several:
                come = {t for t in stay if t == layer["output"] or not still[t] & later}
                come |= {t for t in held if held[t] == "arriving"}
                states = tuple(sorted(come)), tuple(sorted(there - come))
                part = Part(layer["kind"], self.level["name"], bounds, *states, tuple(sums.items()), streamed)
                parts.append((count, part, sum(boxes[t][0] * words[t] for t in there), least))
            found.append((sum(max(boxes[t][0] for *_, boxes in several) * words[t] for t in stay), parts))
        return found


class Ways:
    """All ways through a graph at a level; a state is what has run, and links there as a whole, outside too or not."""

    def __init__(self, table, graph, level, longest):
        self.level, self.links, self.longest = level, graph["links"], longest
        self.layers = [each | each["at"].get(level["name"], {}) for each in graph["layers"]]
        self.group = functools.cache(lambda order: Group(table, self.layers, self.links, order, level))
        self.writers = [link["producer"] for link in self.links]
        self.tensors = [{(r["layer"], r["tensor"]) for r in link["readers"]} for link in self.links]
        self.reads = [{p for p, _ in tensors} for tensors in self.tensors]
        self.needs = [{q for q, its in zip(self.writers, self.reads) if p in its} for p, _ in enumerate(self.layers)]
        self.words = [self.whole(link["producer"], link["readers"]) for link in self.links]

    def whole(self, producer, readers):
        """Words of a link as a whole; infinite where the level may not hold it."""
        ends = [(r["layer"], r["tensor"]) for r in readers]
        ends += [] if producer is None else [(producer, self.layers[producer]["output"])]
        if producer is None or not all(t in self.layers[p].get("may_hold", ()) for p, t in ends):
            return math.inf
        sizes = [math.prod(max(rank["extent"], rank["box"]) for rank in r["ranks"]) for r in readers]
        return max(n * self.layers[r["layer"]]["element_words"][r["tensor"]] for n, r in zip(sizes, readers))

    def following(self, done, whole):
        """All steps from a state, and the states after them."""
        sets, found = [NONE], []
        for some in sets:  # grows
            free = [p for p, its in enumerate(self.needs) if p not in done | some and its <= done | some | {None}]
            more = [some | {p} for p in free if len(some) < self.longest]
            sets += [each for each in more if each not in sets]
        for some in sets[1:]:
            after, choices = done | some, []
            present = frozenset((p, t) for n, _ in whole for p, t in self.tensors[n] if p in some)
            for n in (n for n, p in enumerate(self.writers) if p in some):  # whether it stays, whether it leaves
                later, out = len(self.reads[n] - after), self.links[n]["goes_out"]
                stays = [(n, True, True)] * (out or later > 1) + [(n, True, False)] * (not out)
                choices.append([(n, False, out or later > 0), *(stays if later else ())])
            for chosen in itertools.product(*choices):
                there = whole | {(n, leaves) for n, stays, leaves in chosen if stays}
                staying = frozenset(self.writers[n] for n, stays, _ in chosen if stays)
                leaving = some - {self.writers[n] for n, _, leaves in chosen if not leaves}
                step = Step(some, present, staying, leaving, sum(self.words[n] for n, _ in there))
                lie = frozenset((n, out) for n, out in there if self.reads[n] - after)
                gone = subsets(each for each in lie if each[1]) if step.taken <= self.level["words"] else ()
                found += [(step, (after, lie - some)) for some in gone]
        return found

    def orders(self, places):
        free = [p for p in places if not self.needs[p] & places]
        return [(p, *order) for p in free for order in self.orders(places - {p})] if places else [()]

    def cost(self, step, exact):
        """Cost of a step, or a limit that is known at once."""
        if len(step.places) == 1 and not step.taken:
            alone = self.layers[min(step.places)]["alone"]
            return alone["bound"], alone["bound"] < alone["value"]
        groups = map(self.group, self.orders(step.places))
        return min(group.best(step) for group in groups) if exact else (next(groups).limit(step), True)

    def solve(self):
        """Least sum, and whether it is only a limit: by shortest paths, until all steps of one are found out."""
        steps, todo, cost, exact = {}, [(NONE, NONE)], functools.cache(self.cost), set()
        for state in todo:  # grows
            if state not in steps:
                steps[state] = self.following(*state)
                todo += [after for _, after in steps[state]]
        while True:
            ahead = {}  # from each state the least sum, the first step, and the state after it
            for state in sorted(steps, key=lambda each: -len(each[0])):
                several = [(cost(step, step in exact)[0] + ahead[to][0], step, to) for step, to in steps[state]]
                ahead[state] = min(several, key=lambda each: each[0], default=(0.0, None, None))
            path, (total, step, after) = [], ahead[NONE, NONE]
            while step:
                path.append(step)
                _, step, after = ahead[after]
            if exact.issuperset(path):
                return total, any(cost(step, True)[1] for step in path)
            exact.update(path)


def check(document):
    """Least sum of a certificate, and what is wrong with it."""
    rest = json.dumps({key: each for key, each in document.items() if key != "sha256"}, sort_keys=True)
    changed = hashlib.sha256(rest.encode()).hexdigest() != document["sha256"]
    wrong = ["the file was changed after it was written"] if changed else []
    table, total, unsure, claim = Table(document), 0.0, False, document["claim"]
    for graph in document["graphs"]:
        layers = [each | table.kinds[each["kind"]] for each in graph["layers"]]
        for layer in layers:
            part, alone = Part(layer["kind"], None, tuple(layer["bounds"]), (), (), (), ()), layer["alone"]
            least = [table.limit(part._replace(level=at), False) for at in layer["at"]]
            table.above(alone["value"], max([*least, alone["bound"]]), layer["name"])
            if layer["outermost_loops_asked"]:
                wrong.append(f"{layer['name']}: not checked with what is asked of the outermost loops")
        levels, longest = document["levels"] or [{"name": None, "words": 0}], document["longest"] or len(layers)
        several = [Ways(table, graph | {"layers": layers}, level, longest) for level in levels]
        least, limit = min(ways.solve() for ways in several)
        total, unsure = total + graph["repeat"] * least, unsure or limit
    value, bound, wrong = claim["value"], claim["bound"], [*wrong, *table.wrong.values()]
    wrong += ["a part or a layer of the least sum has a limit in place of a value"] if unsure and bound == value else []
    if not bound * (1 - CLOSE) <= total <= value * (1 + CLOSE):
        wrong.append(f"the least sum is {total:.12g}, the claim is {value:.12g}, and not below {bound:.12g}")
    return total, wrong


def read(names):
    """The certificate in the one file that is named; ends with a message where there is none."""
    if len(names) != 1:
        sys.exit("usage: python check_fusion.py DIR/fusion_certificate.json")
    try:
        document = json.loads(Path(names[0]).read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"{names[0]}: {error}")
    if not isinstance(document, dict) or document.get("format") != FORM:
        sys.exit(f"{names[0]}: no certificate of this kind; `accelsim fuse -o DIR` writes DIR/fusion_certificate.json")
    return document


if __name__ == "__main__":
    least_sum, mistakes = check(read(sys.argv[1:]))
    print("\n".join(mistakes) or f"least sum {least_sum:.12g} equals the claim")
    sys.exit(bool(mistakes))
