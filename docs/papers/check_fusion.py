"""Check the certificate of a fused network: find its least sum anew, with no code of accelsim.

    python docs/papers/check_fusion.py DIR/fusion_certificate.json

It rebuilds all ways through the graphs, all fused tilings and their parts (docs/papers/fusion.md, sections 1 to 3). A
part costs its value in the file or, where there is none, a limit. It trusts the problem as the file states it, and
values: of layers by themselves, of parts, and of `inner` (energy of the fusing level and further in).
"""

import functools
import itertools
import json
import math
import sys
from collections import Counter
from pathlib import Path

import numpy as np

CLOSE = 1e-9  # relative difference up to which sums are equal
FAR = 1 << 60
text = functools.partial(json.dumps, sort_keys=True)


def subsets(items):
    """All sets of some items."""
    items = list(items)
    return [frozenset(some) for many in range(len(items) + 1) for some in itertools.combinations(items, many)]


@functools.cache
def different(terms):
    """How many different sums the indices along a rank have."""
    sums = np.zeros(1, np.int64)
    for factor, bound in terms:
        sums = np.unique(np.add.outer(sums, factor * np.arange(bound)))
    return len(sums)


class Table:
    """Values of parts, and limits for those that have none."""

    def __init__(self, document):
        self.kinds, self.energy, self.inner = document["kinds"], document["objective"] == "energy", {}
        self.limit, self.parts = functools.cache(self.limit), {}
        for part in document["parts"]:
            its = part["kind"], part["level"], tuple(part["bounds"]), *map(frozenset, (part["arriving"], part["present"]))
            self.parts[*its, text([part["sums"], part["streamed"], part["asked"]])] = part
        for each in document["inner"]:
            known = self.inner.setdefault((each["kind"], each["level"], tuple(each["bounds"])), [])
            known.append((frozenset(each["kept"]), each["pj_per_mac"]))

    def limit(self, kind, level, bounds, arriving, present, whole):
        """What no mapping of a part falls below; `whole`: bounds of its layer, None where parts may differ in theirs."""
        its, macs, far, near, moved = self.kinds[kind], math.prod(bounds), 0, 0, {}
        by_dim, each = dict(zip(its["dims"], bounds)), its["mac_pj"]
        for name, ranks in its["tensors"].items():
            words = math.prod(different(tuple((f, by_dim[dim]) for dim, f in rank)) for rank in ranks)
            state = "present" if name in present else "arriving" if name in arriving else "out"
            asks, outside, inside = its["at"][level]["pj"][name][state]
            each, far, near = each + asks, far + words * outside, near + words * inside
            moved[name] = 0 if name in present else words * its["offchip_units"][name]
        total, written = sum(moved.values()), moved[its["output"]]
        cycles = math.ceil(macs * its["cycles_per_mac"] * (1 - 1e-12))
        for units, (rate, time) in zip((total, total - written, written, total), its["ports"]):
            cycles = max(cycles, -(-units * time // rate) if rate else 0)
        alike = whole and tuple(w if w % b == 0 else b for b, w in zip(bounds, whole))
        known = [pj for kept, pj in self.inner.get((kind, level, alike), ()) if kept <= arriving | present]
        near = max(macs * each + near + its["leak_pj"] * cycles, macs * max(known, default=0))
        return (far + near) * (1 - 1e-11) if self.energy else cycles

    def cost(self, key, whole, room):
        """Value of a part within so many words, or what it is not below; and whether it is its value."""
        least, part = self.limit(*key[:5], whole), self.parts.get(key, {"found": (), "impossible": None})
        if part["impossible"] is not None and room <= part["impossible"]:
            return math.inf, True
        for each in part["found"]:
            if each["bound"] == each["value"] and each["used"] <= room <= each["capacity"]:
                return each["value"], True
            least = max(least, each["bound"] if room <= each["capacity"] else 0)
        return least, False

    def contradictions(self, graphs):
        """Values below their limits."""
        for layer in (layer for graph in graphs for layer in graph["layers"]):
            alone, levels, none = layer["alone"], [*self.kinds[layer["kind"]]["at"]], frozenset()
            least = max(self.limit(layer["kind"], at, tuple(layer["bounds"]), none, none, None) for at in levels[:1] or [])
            if not least * (1 - CLOSE) <= alone["value"] >= alone["bound"]:
                yield f"{layer['name']} by itself: {alone['value']:.12g}, the limit is {least:.12g}"
        for key, part in self.parts.items():
            for each in (each for each in part["found"] if each["value"] is not None):
                others = (o["bound"] for o in part["found"] if each["used"] <= o["capacity"])
                if each["value"] < max(self.limit(*key[:5], None), *others) * (1 - CLOSE):
                    yield f"a part costs less than its limit: {key} {each}"


class Group:
    """Layers that run as a group, in an order; places are those of the graph."""

    def __init__(self, document, graph, order):
        self.order, self.layers = order, {place: graph["layers"][place] for place in order}
        self.kinds = {place: document["kinds"][layer["kind"]] for place, layer in self.layers.items()}
        self.output = {place: kind["output"] for place, kind in self.kinds.items()}
        self.inside, self.shared, self.ends = {}, [], set(order)
        for link in graph["links"]:
            its = sorted((r for r in link["readers"] if r["layer"] in order), key=lambda r: order.index(r["layer"]))
            if link["producer"] in order and its:
                self.inside[link["producer"]] = its
                self.ends -= {link["producer"]} if not link["goes_out"] and len(its) == len(link["readers"]) else set()
            elif len(its) > 1 and all(rank["box"] == rank["extent"] and [f for _, f in rank["terms"]] == [1]
                                      for r in its for rank in r["ranks"]):  # fmt: skip
                self.shared.append(its)
        self.needed = {p: dict(zip(kind["dims"], self.layers[p]["bounds"])) for p, kind in self.kinds.items()}
        for p in reversed(order):  # what nothing asks for is not run
            for ranks in self.ranks(p) if p not in self.ends else ():
                self.needed[p][ranks[0][1]["producer"]] = max(min(k["extent"], n - k["before"]) for _, k, n in ranks)
        ties = [[{(p, ranks[0][1]["producer"]), *((r, self.mover(r, k, n)) for r, k, n in ranks)}
                 for ranks in self.ranks(p)] for p in self.inside]  # fmt: skip
        common = [{(r["layer"], r["ranks"][k]["terms"][0][0]) for r in its}
                  for its in self.shared for k in range(len(its[0]["ranks"]))]  # fmt: skip
        starts = [(p, dim) for p in order for dim in self.needed[p]] if len(order) > 1 else []
        traced = [tuple(sorted(self.traced({start}, ties, common))) for start in starts]
        self.dims = [dict(its) for its in dict.fromkeys(traced) if its]
        self.joined = len(self.reached({(order[0], "")}, [{(p, "") for p, _ in t} for s in (*ties, common) for t in s])) == len(order)
        self.most = [math.gcd(*(self.needed[p][dim[p]] for p in self.ends)) for dim in self.dims]
        self.summed = [{p for p in order if not self.moves(p, self.output[p], dim[p])} for dim in self.dims]
        self.demand = functools.cache(self.demand)
        # what may lie in the level: places that it joins, its tensor at one of them with the dimension and words of each rank
        self.held = {}
        for p in self.inside:
            words = [max(n - k["before"] for _, k, n in ranks) + max(k["before"] for _, k, _ in ranks) for ranks in self.ranks(p)]
            dims = [ranks[0][1]["producer"] for ranks in self.ranks(p)]
            self.held[p] = {p, *(r["layer"] for r in self.inside[p])}, p, self.output[p], dims, words
        for n, its in enumerate(self.shared):
            dims, p = [rank["terms"][0][0] for rank in its[0]["ranks"]], its[0]["layer"]
            self.held["shared", n] = {r["layer"] for r in its}, p, its[0]["tensor"], dims, [self.needed[p][dim] for dim in dims]

    def moves(self, place, name, dim):
        """Whether a dimension moves a tensor of a layer."""
        return any(dim == its for rank in self.kinds[place]["tensors"][name] for its, _ in rank)

    def ranks(self, link):
        """Each rank of a link as its readers have it: layer, rank, words of its box."""
        for ranks in zip(*(r["ranks"] for r in self.inside[link])):
            layers = [r["layer"] for r in self.inside[link]]
            boxes = [1 + sum(f * (self.needed[p][dim] - 1) for dim, f in k["terms"]) for p, k in zip(layers, ranks)]
            yield list(zip(layers, ranks, boxes))

    def mover(self, place, rank, box):
        """The dimension of a reader that moves it along a rank; None if there is no such one."""
        outer = [dim for dim, _ in rank["terms"] if self.moves(place, self.output[place], dim)]
        alone = [f for _, f in rank["terms"]] == [1] and box == rank["extent"] and not rank["before"]
        return rank["terms"][0][0] if alone and not outer else outer[0] if len(outer) == 1 else None

    def reached(self, found, ties):
        """What ties join to something."""
        before = 0
        while before < len(found):
            before = len(found)
            for tie in ties:
                found = found | tie if found & tie and None not in dict(tie).values() else found
        return found

    def traced(self, found, ties, common):
        """Dimensions of all layers that move together with one; none if a link, a layer or its output forbids it."""
        before = 0
        while before < len(found):
            found = self.reached(found, itertools.chain(*ties))
            before = len(found)
            for tie in common:
                found = found | tie if found & tie and dict(tie).keys() - dict(found).keys() else found
        if not len(found) == len(dict(found)) == len(self.order) or not all(any(t <= found for t in its) for its in ties):
            return ()
        ranks = [(k, dim) for p, dim in found if p in self.ends for k in self.kinds[p]["tensors"][self.output[p]]]
        apart = any(self.needed[p][dim] == 1 or dim in self.layers[p]["whole"] for p, dim in found)
        return () if apart or any(dim in dict(k) and k != [[dim, 1]] for k, dim in ranks) else found

    def demand(self, d, steps, kept):
        """Steps of a fused loop: words that each layer runs, tile and halo of what may lie there, and what may not.

        `kept`: links whose halo stays along it.
        """
        dims, fresh, asked, sides = self.dims[d], {}, {}, {}
        for p in reversed(self.order):
            share, lows, highs = self.needed[p][dims[p]] // steps, [], []
            if p in self.ends:
                lows, highs = [np.arange(steps) * share], [np.arange(1, steps + 1) * share]
            at = self.held[p][3].index(dims[p]) if p in self.inside else 0
            ranks = list(self.ranks(p))[at] if p in self.inside else []
            for reader, rank, box in ranks:
                (low, high), stride = fresh[reader], dict(rank["terms"])[dims[reader]]
                longer = box - stride * (self.needed[reader][dims[reader]] - 1) - rank["before"]
                lows.append(np.where(high > low, stride * low - rank["before"], FAR))
                highs.append(np.where(high > low, stride * (high - 1) + longer, -FAR))
            low, high = np.min(lows, axis=0), np.max(highs, axis=0)
            idle, before = high < low, np.maximum.accumulate([-FAR, *high])[:-1]
            if ranks:
                sides[p] = [int(np.where(idle, 0, each).max()) for each in (high - low, np.maximum(0, before - low))]
                low, high = np.maximum(0, low), np.minimum(ranks[0][1]["extent"], high)
                high = np.where(idle, high, np.maximum(low, high))
            ends = np.maximum.accumulate(np.maximum(0, high))
            low, high = np.where(idle, ends, low), np.where(idle, ends, high)
            asked[p], low = (low, high), np.maximum(low, [0, *ends[:-1]]) if p in kept else low
            fresh[p] = low, np.maximum(low, high)
        runs, shares = {p: high - low for p, (low, high) in fresh.items()}, set()
        for n, its in enumerate(self.shared):
            first, *others = [r["layer"] for r in its]
            moved = [[k for k, rank in enumerate(r["ranks"]) if rank["terms"][0][0] == dims[r["layer"]]] for r in its]
            again = [np.where(runs[p] > 0, asked[p][1] - runs[p], FAR) for p in others]
            missed = [(runs[p] > 0) & ((low < asked[first][0]) | (asked[p][1] > asked[first][1]))
                      for p, low in zip(others, again)]  # fmt: skip
            if moved[0] and moved.count(moved[0]) == len(moved) and not np.any(missed):
                shares.add(n)
                low = np.minimum.accumulate(np.min([np.full(steps, asked[first][1].max()), *again], axis=0)[::-1])[::-1]
                ends = np.maximum.accumulate(np.where(runs[first] > 0, asked[first][1], 0))
                halo = max(0, int(np.max([0, *ends[:-1]] - low)))
                low = np.where(runs[first] > 0, np.minimum(low, asked[first][1] - runs[first]), low)
                sides["shared", n] = [max(0, int((ends - low).max())), halo if first in kept else 0]
        return runs, sides, shares


def left(asked, dims, outer, inner):
    """What is asked of the outermost loops of a part inside `outer` fused loops, with `inner` ones; None if broken."""
    first, last, bounds = asked["first"], asked["last"], {dim: asked["loops"].get(dim, [1, None]) for dim in dims}
    place = {d: first.index(d) if d in first else len(first) + (1 + last.index(d) if d in last else 0) for d in dims}
    for loops in outer, inner:
        places = [place[dim] for dim, _ in loops]
        if places != sorted(places) or not {dim for dim, _ in loops} <= set(asked["only"]):
            return None
        for dim, steps in loops:
            low, high = bounds[dim]
            if loops is inner and not low <= steps <= (high or steps):
                return None
            bounds[dim] = [steps, steps] if loops is inner else [-(-low // steps), high and high // steps]
        for dim in dims:
            if place[dim] < max(places, default=0) and (loops is outer or dim not in dict(inner)):
                bounds[dim] = [bounds[dim][0], 1 if bounds[dim][1] is None else min(1, bounds[dim][1])]
    steps = [math.prod(n for dim, n in outer if dim in names) for names, _, _ in asked["products"]]
    products = [[names, -(-low // n), high and high // n] for (names, low, high), n in zip(asked["products"], steps)]
    if 0 in [high for *_, high in [*bounds.values(), *products]]:
        return None
    names = [dim for dim, _ in inner]
    first, last = names + [d for d in first if d not in names], [d for d in last if d not in names]
    loops = {dim: its for dim, its in bounds.items() if its != [1, None]}
    return {"loops": loops, "first": first, "last": last, "products": products}


class Tilings:
    """Fused tilings of a group at a level; `step`: places, what is present, what stays, what leaves, words taken."""

    def __init__(self, table, group, level, step):
        self.table, self.group, self.level, self.capacity = table, group, level["name"], level["words"]
        _, self.present, self.staying, self.leaving, self.taken = step
        self.at = {p: kind["at"][self.level] for p, kind in group.kinds.items()}
        self.choices = functools.cache(self.choices)

    def best(self):
        """Cost of the best fused tiling, and whether that is its value and not only a limit."""
        group, several, best = self.group, [], (math.inf, True)
        inside = [(r["layer"], r["tensor"]) for its in group.inside.values() for r in its]
        inside += [(p, group.output[p]) for p in group.inside]
        if not group.joined or any(name not in self.at[p]["may_hold"] for p, name in inside):
            return best
        free = [n for n, its in enumerate(group.shared) if not {(r["layer"], r["tensor"]) for r in its} & self.present]
        for steps in itertools.product(*([n for n in range(1, m + 1) if m % n == 0] for m in group.most)):
            split = {d: n for d, n in enumerate(steps) if n > 1}
            halos = [(p, d) for p in group.inside for d, n in split.items()
                     if p not in self.staying and group.demand(d, n, frozenset())[1][p][1]]  # fmt: skip
            for kept in subsets(halos):
                links = {d: frozenset(p for p in group.inside if p in self.staying or (p, d) in kept) for d in split}
                needs = {d: group.demand(d, n, links[d]) for d, n in split.items()}
                for shared in subsets(n for n in free if all(n in its[2] for its in needs.values())):
                    for loops in itertools.permutations(split.items()):
                        sums = [[p in group.summed[d] for d, _ in loops] for p in group.order]
                        if all(flags == sorted(flags) for flags in sums):
                            its = loops, links, needs, shared
                            several.append((sum(min([cost for cost, *_ in each], default=math.inf) for each in self.layers(*its)), its))
        for least, its in sorted(several, key=lambda each: each[0]):
            if least >= best[0]:
                break
            best = min(best, self.exact(best, *its), key=lambda each: (each[0], not each[1]))
        return best

    def layers(self, loops, links, needs, shared):
        """For each layer and choice of its resident tensors: cost as if no other were, words, parts, words of links."""
        group, extra = self.group, dict.fromkeys(self.group.order, self.taken)
        for key in [p for p in group.inside if p not in self.staying] + [("shared", n) for n in shared]:
            joined, p, name, dims, words = group.held[key]
            moved = [dims.index(group.dims[d][p]) for d, _ in loops]
            inside = live = math.prod(n for k, n in enumerate(words) if k not in moved)
            between = 0  # words while it is not in use: halos that stay
            for k, (d, _) in reversed([*zip(moved, loops)]):
                tile, halo = needs[d][1][key]
                halo = halo if key not in group.inside or key in links[d] else 0
                live, between = halo * inside + (tile - halo) * live, halo * inside + (tile - halo) * between
                inside *= words[k]
            at = [group.order.index(place) for place in joined]
            for n, place in enumerate(group.order):
                extra[place] += self.at[p]["element_words"][name] * (live if min(at) <= n <= max(at) else between)
        several = []
        for p in group.order:
            runs = tuple(tuple(Counter(zip(needs[d][0][p].tolist(), [True] + [False] * n)).items()) for d, n in loops)
            choices = self.choices(p, loops, runs, shared)
            several.append([(self.cost(parts, extra[p] + words)[0], words, parts, extra[p]) for words, parts in choices])
        return several

    def exact(self, best, *its):
        """The better of `best` and the best choice of resident tensors of all layers."""
        for chosen in itertools.product(*(sorted(each, key=lambda one: one[0]) for each in self.layers(*its))):
            if sum(cost for cost, *_ in chosen) < best[0]:
                total = sum(words for _, words, *_ in chosen)
                costs = [self.cost(parts, extra + total) for _, _, parts, extra in chosen]
                found = sum(cost for cost, _ in costs), all(known for _, known in costs)
                best = min(best, found, key=lambda each: (each[0], not each[1]))
        return best

    def cost(self, parts, reserved):
        """Cost of the parts of a layer, where it and others take some words, and whether it is known."""
        total, known = 0.0, True
        for count, key, whole, own, least in parts:
            if reserved + least > self.capacity:
                return math.inf, True
            value = self.table.cost(key, whole, self.capacity - reserved + own)
            total, known = total + count * value[0], known and value[1]
        return total, known

    def choices(self, place, loops, runs, shared):
        """For each set of resident tensors of a layer: their words, and its parts with counts, own and least words."""
        group, kind, layer, at = self.group, self.group.kinds[place], self.group.layers[place], self.at[place]
        out, named = group.output[place], [(group.dims[d][place], n, place in group.summed[d]) for d, n in loops]
        outer, sums = ([(dim, n) for dim, n, summed in named if summed == flag] for flag in (False, True))
        asked, steps = left(layer["asked"], kind["dims"], outer, sums), dict(sums)
        taken = {name for p, name in self.present if p == place}
        taken |= {r["tensor"] for its in group.inside.values() for r in its if r["layer"] == place}
        come = {out} if place in group.inside or place in self.staying else set()
        no = taken | come
        come, taken = (come, taken) if place in self.leaving else (set(), taken | come)
        for number, r in ((number, r) for n in shared for number, r in enumerate(group.shared[n])):
            (taken if number else come).update({r["tensor"]} if r["layer"] == place else ())
        still = {}
        for name in kind["tensors"]:
            still[name] = [*(not group.moves(place, name, dim) for dim, *_ in reversed(named)), False].index(False)
        found = []
        for stay in subsets(name for name in still if still[name] and name in at["may_stay"] and name not in no):
            held = stay | come | taken
            streamed = [t for t in sorted(still) if sums and still[t] and t not in held]
            products = [sorted({d for rank in kind["tensors"][t] for d, _ in rank} - set(steps)) for t in streamed]
            if asked is None or not all(products) or held & set(at["refused"]):
                continue
            parts, words = [], Counter()
            for chosen in itertools.product(*(run for run, (*_, summed) in zip(runs, named) if not summed)):
                bounds = group.needed[place] | {dim: n for (dim, _), ((n, _), _) in zip(outer, chosen)}
                firsts = [first for (_, first), _ in chosen]
                first = {t for t in stay if t == out or all(firsts[len(firsts) - max(0, still[t] - len(sums)) :])}
                arriving, present = frozenset((come - taken) | first), frozenset((stay - first) | taken)
                own = Counter()
                for t in held:
                    ranks = [1 + sum(f * (bounds[d] // steps.get(d, 1) - 1) for d, f in k) for k in kind["tensors"][t]]
                    own[t] = at["element_words"][t] * math.prod(ranks)
                key = layer["kind"], self.level, tuple(bounds.values()), arriving, present
                if all(bounds.values()):
                    words |= Counter({t: own[t] for t in stay})
                    count, whole = math.prod(many for _, many in chosen), tuple(group.needed[place].values())
                    key += (text([[*steps], products, asked]),)
                    least = sum(at["element_words"][t] for t in at["must_keep"] if t not in held)
                    parts.append((count, key, whole, sum(own.values()), least))
            found.append((sum(words.values()), parts))
        return found


class Ways:
    """All ways through a graph at a level: a state is what has run, what lies there as a whole, and what of it outside.

    A step runs some places, and has what is present, what stays, what leaves, and the words of what lies there.
    """

    def __init__(self, document, table, graph, level, longest):
        self.document, self.table, self.graph, self.level, self.longest = document, table, graph, level, longest
        self.steps, todo = {}, [(frozenset(),) * 3]
        for state in todo:
            self.steps[state] = list(self.following(*state))
            todo += [after for after in dict.fromkeys(after for _, after in self.steps[state]) if after not in todo]
            todo.sort(key=lambda each: len(each[0]))
        self.costs = {step: self.first(step) for its in self.steps.values() for step, _ in its}
        self.end = todo[-1]

    def words(self, link):
        """Storage words of a link as a whole; infinite where the level may not hold it."""
        ends = [(link["producer"], None), *((r["layer"], r["tensor"]) for r in link["readers"])]
        if self.level is None or link["producer"] is None:
            return math.inf
        most = 0
        for (p, name), ranks in zip(ends, [None, *(r["ranks"] for r in link["readers"])]):
            kind = self.document["kinds"][self.graph["layers"][p]["kind"]]
            at, name = kind["at"][self.level["name"]], name or kind["output"]
            if name not in at["may_hold"]:
                return math.inf
            most = max(most, at["element_words"][name] * math.prod(max(k["extent"], k["box"]) for k in ranks or ()) * bool(ranks))
        return most if most <= self.level["words"] else math.inf

    def following(self, done, whole, copied):
        """Steps from a state, with the states after them."""
        links, sets, todo = self.graph["links"], [], [frozenset()]
        for some in todo:
            for p in set(range(len(self.graph["layers"]))) - done - some if len(some) < self.longest else ():
                needs = {link["producer"] for link in links if p in [r["layer"] for r in link["readers"]]} - {None}
                if needs <= done | some and some | {p} not in todo:
                    todo.append(some | {p})
        for some in todo[1:]:
            after, present = done | some, set()
            choices = []
            for n, link in enumerate(links):
                readers = [r["layer"] for r in link["readers"]]
                present |= {(r["layer"], r["tensor"]) for r in link["readers"] if n in whole and r["layer"] in some}
                if link["producer"] in some:
                    later = sum(r not in after for r in readers)
                    stays = later and self.words(link) < math.inf
                    choices.append([(n, False, bool(later or link["goes_out"]))])
                    choices[-1] += [(n, True, True)] * bool(stays and (link["goes_out"] or later > 1))
                    choices[-1] += [(n, True, False)] * bool(stays and not link["goes_out"])
            results = some - {link["producer"] for link in links}
            kept = frozenset(n for n in whole if any(r["layer"] not in after for r in links[n]["readers"]))
            for chosen in itertools.product(*choices):
                stay = {n for n, stays, _ in chosen if stays}
                taken = sum(self.words(links[n]) for n in whole | stay)
                staying = frozenset(links[n]["producer"] for n in stay)
                leaving = results | {links[n]["producer"] for n, _, leaves in chosen if leaves}
                step = some, frozenset(present), staying, leaving, taken
                copies = copied & kept | {n for n, stays, leaves in chosen if stays and leaves}
                for gone in subsets(copies) if not taken or taken <= self.level["words"] else ():
                    yield step, (after, (kept | stay) - gone, copies - gone)

    def first(self, step):
        """What a step does not cost less than, whether that is its value, and whether more is to be found out."""
        (first, *others), *_, taken = step
        if not others and not taken:
            return self.graph["layers"][first]["alone"]["bound"], True, False
        return 0.0, False, True

    def orders(self, places):
        if not places:
            yield ()
        for p in places:
            if not any(link["producer"] in places and p in [r["layer"] for r in link["readers"]] for link in self.graph["links"]):
                yield from ((p, *order) for order in self.orders(places - {p}))

    def shortest(self):
        """Least sum, with the steps of the path."""
        best = {state: (math.inf, ()) for state in self.steps} | {next(iter(self.steps)): (0.0, ())}
        for state, steps in self.steps.items():
            for step, after in steps:
                total = best[state][0] + self.costs[step][0]
                if total < best[after][0]:
                    best[after] = total, (*best[state][1], step)
        return best[self.end]

    def solve(self):
        """Least sum, and whether it is the value of a way."""
        while True:
            total, path = self.shortest()
            unknown = [step for step in path if self.costs[step][2]]
            if not unknown:
                return total, all(self.costs[step][1] for step in path)
            step, best = unknown[0], (math.inf, True)
            for order in self.orders(step[0]) if self.level else ():
                best = min(best, Tilings(self.table, Group(self.document, self.graph, order), self.level, step).best(), key=lambda b: (b[0], not b[1]))
            self.costs[step] = *best, False


def main(path):
    document = json.loads(Path(path).read_text())
    table, total, sure = Table(document), 0.0, True
    for what in table.contradictions(document["graphs"]):
        print(what)
        sure = False
    for graph in document["graphs"]:
        longest = document["longest"] or len(graph["layers"])
        several = [Ways(document, table, graph, level, longest).solve() for level in document["levels"] or [None]]
        least = min(several, key=lambda each: (each[0], not each[1]))
        total += graph["repeat"] * least[0]
        sure = sure and least[1]
    print(total, sure, document["claim"])
    claim = document["claim"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
