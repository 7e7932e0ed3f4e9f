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
from collections import Counter

import numpy as np

CLOSE, FAR, NONE = 1e-9, 1 << 60, frozenset()  # relative difference up to which sums are equal; no place; nothing
best_of = functools.partial(min, key=lambda each: (each[0], not each[1]), default=(math.inf, True))


def subsets(items):
    items = list(items)
    return [frozenset(some) for many in range(len(items) + 1) for some in itertools.combinations(items, many)]


@functools.cache
def different(terms):  # how many different sums the indices along a rank have
    return len(functools.reduce(lambda sums, t: np.unique(np.add.outer(sums, t[0] * np.arange(t[1]))), terms, [0]))


class Table:
    """Values of parts, and limits for those that have none."""

    def __init__(self, document):
        self.kinds, self.energy, self.inner, self.parts = document["kinds"], document["objective"] == "energy", {}, {}
        self.limit, self.wrong = functools.cache(self.limit), {}
        for part in document["parts"]:
            held = frozenset(part["arriving"]), frozenset(part["present"]), str([part["sums"], part["streamed"]])
            self.parts[part["kind"], part["level"], tuple(part["bounds"]), *held] = part
        for each in document["inner"]:
            key = each["kind"], each["level"], tuple(each["bounds"])
            self.inner.setdefault(key, []).append((frozenset(each["kept"]), each["pj_per_mac"]))

    def limit(self, kind, level, bounds, arriving, present, whole):
        """What no mapping of a part falls below; `whole`: bounds of its layer, None if parts may differ in theirs."""
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
        part = self.parts.get(key, {"found": (), "impossible": -1})
        least = [self.limit(*key[:5], whole), *(each["bound"] for each in part["found"] if room <= each["capacity"])]
        if room <= part["impossible"]:
            return math.inf, True
        for each in part["found"]:
            if each["bound"] == each["value"] and each["used"] <= room <= each["capacity"]:
                return self.above(each["value"], max(least), key), True
        return max(least) * (1 + CLOSE), False  # so that a value comes first among equals

    def above(self, value, least, what):
        if value < least * (1 - CLOSE):
            self.wrong[what] = f"a value of {value:.12g} is below its limit of {least:.12g}: {what}"
        return value


class Group:
    """Layers that run as a group, in an order; places are those of the graph."""

    def __init__(self, document, graph, order):
        self.order, self.layers = order, {p: graph["layers"][p] for p in order}
        self.kinds = {p: document["kinds"][layer["kind"]] for p, layer in self.layers.items()}
        self.needed = {p: dict(zip(kind["dims"], self.layers[p]["bounds"])) for p, kind in self.kinds.items()}
        self.ranks_of = {(p, t): ranks for p, kind in self.kinds.items() for t, ranks in kind["tensors"].items()}
        self.moved = {at: {dim for rank in ranks for dim, _ in rank} for at, ranks in self.ranks_of.items()}
        self.out = {p: (p, kind["output"]) for p, kind in self.kinds.items()}
        self.inside, self.shared, self.boxes, self.held, self.ends = {}, {}, {}, {}, set(order)
        for n, link in enumerate(graph["links"]):
            its = sorted((r for r in link["readers"] if r["layer"] in order), key=lambda r: order.index(r["layer"]))
            ranks = [rank for r in its for rank in r["ranks"]]
            if link["producer"] in order and its:
                self.inside[link["producer"]] = its
                self.ends -= {link["producer"]} if not link["goes_out"] and len(its) == len(link["readers"]) else NONE
            elif len(its) > 1 and all([f for _, f in k["terms"]] == [1] and k["box"] == k["extent"] for k in ranks):
                self.shared["shared", n] = its
        # what may lie there: who brings it, as which tensor; along each rank the dimensions that move it, and its words
        for p in reversed([p for p in order if p in self.inside]):
            its = [(r["layer"], k, n) for r in self.inside[p] for n, k in enumerate(r["ranks"])]
            its = [(r, k, n, 1 + sum(f * (self.needed[r][d] - 1) for d, f in k["terms"])) for r, k, n in its]
            ranks = [[(r, k, box) for r, k, n, box in its if n == at] for at in sorted({n for _, _, n, _ in its})]
            for its in ranks if p not in self.ends else ():  # what nothing asks for is not run
                self.needed[p][its[0][1]["producer"]] = max(min(k["extent"], n - k["before"]) for _, k, n in its)
            ties = [{(p, its[0][1]["producer"]), *((r, self.mover(r, k, n)) for r, k, n in its)} for its in ranks]
            words = [max(n - k["before"] for _, k, n in its) + max(k["before"] for _, k, _ in its) for its in ranks]
            self.boxes[p], self.held[p] = ranks, (*self.out[p], ties, words)
        for key, its in self.shared.items():
            ties = [{(r["layer"], k["terms"][0][0]) for r, k in zip(its, ks)} for ks in zip(*(r["ranks"] for r in its))]
            p = its[0]["layer"]
            self.held[key] = p, its[0]["tensor"], ties, [self.needed[p][dict(tie)[p]] for tie in ties]
        starts = [{(p, dim)} for p in order for dim in self.needed[p]] if len(order) > 1 else []
        self.dims = [dict(its) for its in dict.fromkeys(tuple(sorted(self.traced(start))) for start in starts) if its]
        self.most = [math.gcd(*(self.needed[p][dim[p]] for p in self.ends)) for dim in self.dims]
        self.summed = [{p for p in order if dim[p] not in self.moved[self.out[p]]} for dim in self.dims]
        self.demand = functools.cache(self.demand)

    def mover(self, place, rank, box):
        """The dimension of a reader that moves it along a rank; None if there is no such one."""
        outer = [dim for dim, _ in rank["terms"] if dim in self.moved[self.out[place]]]
        alone = [f for _, f in rank["terms"]] == [1] and box == rank["extent"] and not rank["before"]
        return rank["terms"][0][0] if alone and not outer else outer[0] if len(outer) == 1 else None

    def traced(self, found):
        """Dimensions of all layers that move together with one; none if a link, a layer or its output forbids it."""
        before, links = NONE, [self.held[p][2] for p in self.inside]
        while before != found:
            before = found
            for tie in itertools.chain(*links):
                found = found | tie if found & tie and None not in dict(tie).values() else found
            for tie in (tie for key in self.shared for tie in self.held[key][2]) if before == found else ():
                found = found | tie if found & tie and dict(tie).keys() - dict(found).keys() else found
        apart = any(self.needed[p][dim] == 1 or dim in self.layers[p]["whole"] for p, dim in found)
        ranks = [(rank, dim) for p, dim in found if p in self.ends for rank in self.ranks_of[self.out[p]]]
        apart |= any(dim in dict(rank) and rank != [[dim, 1]] for rank, dim in ranks) or len(found) > len(self.order)
        tied = all(any(tie <= found for tie in ties) for ties in links) and dict(found).keys() == {*self.order}
        return found if tied and not apart else NONE

    def along(self, key, d):  # the rank of a tensor that a fused dimension moves in all layers that have it
        return next((k for k, tie in enumerate(self.held[key][2]) if tie <= self.dims[d].items()), None)

    def demand(self, d, steps, kept):
        """Of a fused loop: words that each layer runs in each step; tile and halo of what may lie there.

        `kept`: links whose halo stays along it.
        """
        dims, runs, fresh, asked, sides, step = self.dims[d], {}, {}, {}, {}, np.arange(steps)
        for p in reversed(self.order):
            share = self.needed[p][dims[p]] // steps
            spans = [[step * share, (step + 1) * share]] if p in self.ends else []
            ranks = self.boxes[p][self.along(p, d)] if p in self.inside else []
            for reader, rank, box in ranks:
                (low, high), stride = fresh[reader], dict(rank["terms"])[dims[reader]]
                longer = box - stride * (self.needed[reader][dims[reader]] - 1) - rank["before"]
                span = [stride * low - rank["before"], stride * (high - 1) + longer]
                spans.append(np.where(high > low, span, [[FAR], [-FAR]]))
            low, high = np.min(spans, axis=0)[0], np.max(spans, axis=0)[1]
            idle, before = high < low, np.maximum.accumulate([-FAR, *high])[:-1]
            if ranks:
                sides[p] = [max(0, int(each.max())) for each in (high - low, before - low)]
                low, high = np.maximum(0, low), np.minimum(ranks[0][1]["extent"], high)
            high = np.where(idle, 0, np.maximum(low, high))
            ends = np.maximum.accumulate(high)
            low, high = asked[p] = np.where(idle, ends, [low, high])
            low = np.maximum(low, [0, *ends[:-1]]) if p in kept else low
            fresh[p], runs[p] = (low, np.maximum(low, high)), np.maximum(0, high - low)
        for key, its in self.shared.items():
            (p, *others), (low, high) = [r["layer"] for r in its], asked[its[0]["layer"]]
            again = [np.where(runs[o] > 0, asked[o][1] - runs[o], FAR) for o in others]
            inside = [(runs[o] == 0) | (low <= a) & (asked[o][1] <= high) for o, a in zip(others, again)]
            if self.along(key, d) is not None and np.all(inside):  # the first reader may fetch for the others
                again = np.minimum.accumulate(np.min([[high.max()] * steps, *again], axis=0)[::-1])[::-1]
                ends = np.maximum.accumulate(np.where(runs[p] > 0, high, 0))
                halo = int(np.maximum(0, [0, *ends[:-1]] - again).max()) if p in kept else 0
                again = np.where(runs[p] > 0, np.minimum(again, high - runs[p]), again)
                sides[key] = [int(np.maximum(0, ends - again).max()), halo]
        return runs, sides


class Tilings:
    """Fused tilings of a group at a level; `step`: places, what is present, what stays, what leaves, words taken."""

    def __init__(self, table, group, level, step):
        self.table, self.group, self.level, self.capacity = table, group, level["name"], level["words"]
        _, self.present, self.staying, self.leaving, self.taken = step
        self.at = {p: kind["at"][self.level] for p, kind in group.kinds.items()}
        self.choices = functools.cache(self.choices)
        names = {key: {(r["layer"], r["tensor"]) for r in its} for key, its in (group.inside | group.shared).items()}
        self.joined = {key: {group.held[key][0], *dict(its)} for key, its in names.items()}
        sets = [*self.joined.values()] * len(group.order)
        joined = functools.reduce(lambda some, its: some | its if some & its else some, sets, {group.order[0]})
        inside = [at for p in group.inside for at in (group.out[p], *names[p])]
        self.fits = len(joined) == len(group.order) and all(t in self.at[p]["may_hold"] for p, t in inside)
        stored = [key for key in group.shared if all(t in self.at[p]["may_stay"] for p, t in names[key])]
        self.free = subsets(key for key in stored if not names[key] & self.present)

    def limit(self):
        """What no fused tiling falls below: parts of a layer together run all that is needed, and touch each word."""
        several = [[self.choices(p, (), (), shared) for p in self.group.order] for shared in self.free]
        keys = [[key for choices in each for _, parts in choices for _, key, *_ in parts] for each in several]
        return min(sum(self.table.limit(*key[:5], None) for key in its) for its in keys) if self.fits else math.inf

    def best(self):
        """Cost of the best fused tiling, and whether that is its value and not only a limit."""
        group, several, best = self.group, [], (math.inf, True)
        for steps in itertools.product(*([n for n in range(1, m + 1) if m % n == 0] for m in group.most)):
            split = {d: n for d, n in enumerate(steps) if n > 1}
            links = [(p, d) for p in group.inside for d in split if p not in self.staying]
            for halos in subsets((p, d) for p, d in links if group.demand(d, split[d], NONE)[1][p][1]):
                kept = {d: self.staying | {p for p, other in halos if other == d} for d in split}
                needs = {d: group.demand(d, n, kept[d]) for d, n in split.items()}
                shared = [keys for keys in self.free if all(keys <= sides.keys() for _, sides in needs.values())]
                for its in itertools.product(itertools.permutations(split.items()), [kept], [needs], shared):
                    sums = [[p in group.summed[d] for d, _ in its[0]] for p in group.order]
                    if all(flags == sorted(flags) for flags in sums):
                        layers = self.layers(*its)
                        several.append((sum(min([each[0] for each in one], default=math.inf) for one in layers), its))
        for least, its in sorted(several, key=lambda each: each[0]):
            for chosen in itertools.product(*self.layers(*its)) if least < best[0] else ():
                if sum(each[0] for each in chosen) < best[0]:
                    costs = [self.cost(parts, extra + sum(each[1] for each in chosen)) for *_, parts, extra in chosen]
                    best = best_of([best, (sum(cost for cost, _ in costs), all(known for _, known in costs))])
        return best

    def layers(self, loops, kept, needs, shared):
        """For each layer and choice of its resident tensors: cost as if no other were, words, parts, words of links."""
        group, extra, several = self.group, dict.fromkeys(self.group.order, self.taken), []
        for key in {*group.inside} - self.staying | shared:
            p, name, _, words = group.held[key]
            moved, between = [group.along(key, d) for d, _ in loops], 0  # words while it is not in use: halos that stay
            inside = live = math.prod(n for k, n in enumerate(words) if k not in moved)
            for k, (d, _) in reversed([*zip(moved, loops)]):
                tile, halo = needs[d][1][key] if key in shared or key in kept[d] else (needs[d][1][key][0], 0)
                live, between = halo * inside + (tile - halo) * live, halo * inside + (tile - halo) * between
                inside *= words[k]
            at = [group.order.index(place) for place in self.joined[key]]
            for n, place in enumerate(group.order):
                extra[place] += self.at[p]["element_words"][name] * (live if min(at) <= n <= max(at) else between)
        for p in group.order:
            runs = tuple(tuple(Counter(zip(needs[d][0][p].tolist(), [True] + [False] * n)).items()) for d, n in loops)
            its = self.choices(p, loops, runs, shared)
            several.append([(self.cost(parts, extra[p] + words)[0], words, parts, extra[p]) for words, parts in its])
        return several

    def cost(self, parts, reserved):
        """Cost of the parts of a layer, where it and others take some words, and whether it is known."""
        if any(reserved + least > self.capacity for *_, least in parts):
            return math.inf, True
        costs = [(n, self.table.cost(key, whole, self.capacity - reserved + own)) for n, key, whole, own, _ in parts]
        return sum(n * cost for n, (cost, _) in costs), all(known for _, (_, known) in costs)

    def choices(self, place, loops, runs, shared):
        """For each set of resident tensors of a layer: their words, and its parts with counts, own and least words."""
        group, at, words, out = self.group, self.at[place], self.at[place]["element_words"], self.group.out[place][1]
        named = [(group.dims[d][place], n, place in group.summed[d]) for d, n in loops]
        outer, steps = [dim for dim, _, summed in named if not summed], {dim: n for dim, n, summed in named if summed}
        taken = {name for p, name in self.present if p == place}
        taken |= {r["tensor"] for its in group.inside.values() for r in its if r["layer"] == place}
        come = {out} if place in group.inside or place in self.staying else set()
        no, whole, tensors = taken | come, tuple(group.needed[place].values()), group.kinds[place]["tensors"]
        come, taken = (come, taken) if place in self.leaving else (set(), taken | come)
        for number, r in ((number, r) for key in shared for number, r in enumerate(group.shared[key])):
            (taken if number else come).update({r["tensor"]} if r["layer"] == place else ())
        inner = {t: [dim not in group.moved[place, t] for dim, *_ in reversed(named)] for t in tensors}
        still = {t: [*flags, False].index(False) for t, flags in inner.items()}  # inner loops that leave it in place
        several, found = [], []
        for chosen in itertools.product(*(run for run, (*_, summed) in zip(runs, named) if not summed)):
            bounds, own = group.needed[place] | {dim: n for dim, ((n, _), _) in zip(outer, chosen)}, {}
            for t, ranks in tensors.items():
                sides = [1 + sum(f * (bounds[d] // steps.get(d, 1) - 1) for d, f in rank) for rank in ranks]
                own[t] = words[t] * math.prod(sides)
            firsts, count = [first for (_, first), _ in chosen], math.prod(many for _, many in chosen)
            several += [(count, tuple(bounds.values()), firsts, own)] * all(bounds.values())
        for stay in subsets(t for t in tensors if still[t] and t in at["may_stay"] and t not in no):
            held, parts = stay | come | taken, []
            streamed = [t for t in sorted(tensors) if steps and still[t] and t not in held]
            products = [sorted(group.moved[place, t] - steps.keys()) for t in streamed]
            key, least = str([[*map(list, steps.items())], products]), [t for t in at["must_keep"] if t not in held]
            for count, bounds, firsts, own in several:
                first = {t for t in stay if t == out or all(firsts[len(firsts) - max(0, still[t] - len(steps)) :])}
                states = frozenset((come - taken) | first), frozenset((stay - first) | taken)
                its = group.layers[place]["kind"], self.level, bounds, *states, key
                parts.append((count, its, whole, sum(own[t] for t in held), sum(words[t] for t in least)))
            if all(products) and not held & set(at["refused"]):
                found.append((sum(max(own[t] for *_, own in several) for t in stay), parts))
        return found


def solve(document, table, graph, level):
    """Least sum of all ways through a graph at a level, and whether it is the value of a way.

    A state is what has run, and what lies there as a whole, outside too or not. A step runs some places, and has what
    is present, what stays, what leaves, and the words of what lies there.
    """
    links, layers, todo, steps, costs, groups = graph["links"], graph["layers"], [(NONE, NONE)], {}, {}, {}
    reads, most = [{r["layer"] for r in link["readers"]} for link in links], document["longest"] or len(layers)
    words = [math.inf] * len(links)  # of a link as a whole, where the level may hold it
    for n, link in enumerate(links):
        its = [(r, math.prod(max(rank["extent"], rank["box"]) for rank in r["ranks"])) for r in link["readers"]]
        its = [(r["layer"], r["tensor"], many) for r, many in its]
        kinds, o = {p: document["kinds"][layers[p]["kind"]] for p in range(len(layers))}, link["producer"]
        at = {p: kind["at"][level["name"]] for p, kind in kinds.items()} if level and o is not None else {}
        if at and all(t in at[p]["may_hold"] for p, t in [*(one[:2] for one in its), (o, kinds[o]["output"])]):
            words[n] = max(at[p]["element_words"][t] * many for p, t, many in its)

    def following(done, whole):
        sets = [NONE]
        for some in sets:
            for p in set(range(len(layers))) - done - some if len(some) < most else ():
                needs = {link["producer"] for link, its in zip(links, reads) if p in its} - {None}
                sets += [some | {p}] if needs <= done | some and some | {p} not in sets else []
        for some in sets[1:]:
            after, choices, leaving = done | some, [], some - {link["producer"] for link in links}
            present = [(r["layer"], r["tensor"]) for n, _ in whole for r in links[n]["readers"] if r["layer"] in some]
            for n, link in ((n, link) for n, link in enumerate(links) if link["producer"] in some):
                later, out, several = len(reads[n] - after), link["goes_out"], [(n, True, True), (n, True, False)]
                several = several[not (out or later > 1) : 2 - out] if later and words[n] < math.inf else []
                choices.append([(n, False, bool(later or out)), *several])
            for chosen in itertools.product(*choices):
                stay = {(n, leaves) for n, stays, leaves in chosen if stays}
                taken = sum(words[n] for n in {n for n, _ in whole | stay})
                lie = frozenset((n, out) for n, out in whole | stay if reads[n] - after)
                out = leaving | {links[n]["producer"] for n, _, leaves in chosen if leaves}
                step = some, frozenset(present), frozenset(links[n]["producer"] for n, _ in stay), out, taken
                for gone in subsets(each for each in lie if each[1]) if not taken or taken <= level["words"] else ():
                    yield step, (after, lie - gone)

    def orders(places):
        free = [p for p in places if not any(o["producer"] in places and p in its for o, its in zip(links, reads))]
        return [(p, *order) for p in free for order in orders(places - {p})] if places else [()]

    def tilings(step):
        for order in orders(step[0]) if level else ():
            groups[order] = groups.get(order) or Group(document, graph, order)
            yield Tilings(table, groups[order], level, step)

    for state in todo:
        steps[state] = list(following(*state))
        todo += {after for _, after in steps[state]} - set(todo)
        todo.sort(key=lambda each: len(each[0]))  # so that each step leads to a later one
        for step, _ in steps[state]:
            alone = layers[min(step[0])]["alone"]
            costs[step] = alone["bound"], alone["bound"] == alone["value"], False
            if len(step[0]) > 1 or step[-1]:
                costs[step] = next((its.limit() for its in tilings(step)), math.inf), False, True
    while True:  # find out more of the shortest path
        ways = dict.fromkeys(todo, (math.inf, ())) | {todo[0]: (0.0, ())}
        for state, (step, after) in [(each, one) for each in todo for one in steps[each]]:
            way = ways[state][0] + costs[step][0], (*ways[state][1], step)
            ways[after] = min(ways[after], way, key=lambda each: each[0])
        total, path = ways[todo[-1]]
        unknown = [step for step in path if costs[step][2]]
        if not unknown:
            return total, all(costs[step][1] for step in path)
        costs[unknown[0]] = *best_of(its.best() for its in tilings(unknown[0]) if its.fits), False


def check(document):
    """Least sum of a certificate, and what is wrong with it."""
    table, total, sure, claim = Table(document), 0.0, True, document["claim"]
    rest = json.dumps({key: each for key, each in document.items() if key != "sha256"}, sort_keys=True)
    changed = hashlib.sha256(rest.encode()).hexdigest() != document["sha256"]
    wrong = ["the file was changed after it was written"] if changed else []
    for graph in document["graphs"]:
        for layer in graph["layers"]:
            key, alone = (tuple(layer["bounds"]), NONE, NONE, None), layer["alone"]
            least = [table.limit(layer["kind"], at, *key) for at in table.kinds[layer["kind"]]["at"]]
            table.above(alone["value"], max([*least, alone["bound"]]), layer["name"])
            wrong += [f"{layer['name']}: {layer['asked']} is asked of the outermost loops"] if layer["asked"] else []
        least, known = best_of(solve(document, table, graph, level) for level in document["levels"] or [None])
        total, sure = total + graph["repeat"] * least, sure and known
    value, bound, wrong = claim["value"], claim["bound"], [*wrong, *table.wrong.values()]
    wrong += [] if sure or bound < value else ["a part or a layer of the least sum has a limit in place of a value"]
    if not bound * (1 - CLOSE) <= total <= value * (1 + CLOSE):
        wrong.append(f"the least sum is {total:.12g}, the claim is {value:.12g}, and not below {bound:.12g}")
    return total, wrong


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        least_sum, mistakes = check(json.load(file))
    print("\n".join(mistakes) or f"least sum {least_sum:.12g} equals the claim")
    sys.exit(bool(mistakes))
