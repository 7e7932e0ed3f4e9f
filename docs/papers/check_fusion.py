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
from collections import Counter, namedtuple

import numpy as np

CLOSE, FAR, NONE = 1e-9, 1 << 60, frozenset()  # relative difference up to which sums are equal; no place; nothing
Part = namedtuple("Part", "kind level bounds arriving present sums streamed")  # as in the file
Lying = namedtuple("Lying", "place tensor ties words places")  # what may lie in the fusing level for several layers
Step = namedtuple("Step", "places present staying leaving taken")  # a group: what is there, stays, leaves; words
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
        self.kinds, self.energy = document["kinds"], document["objective"] == "energy"
        self.answers, self.inner, self.wrong = {}, {}, {}
        self.limit, self.cost = functools.cache(self.limit), functools.cache(self.cost)
        for each in document["parts"]:
            arriving, present, streamed = (frozenset(each[names]) for names in ("arriving", "present", "streamed"))
            part = Part(each["kind"], each["level"], tuple(each["bounds"]), arriving, present, (), streamed)
            part = part._replace(sums=tuple(map(tuple, each["sums"])))
            self.answers.setdefault(part if each["asked"] else self.loose(part), []).extend(each["found"])
        for each in document["inner"]:
            pj = math.inf if each["pj_per_mac"] is None else each["pj_per_mac"]
            its = tuple(each["bounds"]), frozenset(each["kept"]), pj
            self.inner.setdefault((each["kind"], each["level"]), []).append(its)

    def loose(self, part):  # the part with any loops over what it sums
        return part._replace(sums=tuple(sorted(part.sums)), streamed=None)

    def limit(self, part, alike=True):
        """What no mapping of a part falls below; if not `alike`, nor those of unequal parts that make it up."""
        its, macs, held = self.kinds[part.kind], math.prod(part.bounds), part.arriving | part.present
        by_dim, steps = dict(zip(its["dims"], part.bounds)), math.prod(many for _, many in part.sums)
        per_mac, far, near, moved = its["mac_pj"], 0, 0, {}
        for name, ranks in its["tensors"].items():
            words = math.prod(different(tuple((f, by_dim[dim]) for dim, f in rank)) for rank in ranks)
            state = "present" if name in part.present else "arriving" if name in part.arriving else "out"
            asks, outside, inside = its["at"][part.level]["pj"][name][state]
            per_mac, near = per_mac + asks, near + words * inside
            far += words * outside * (steps if name in part.streamed else 1)
            moved[name] = 0 if name in part.present else words * its["offchip_units"][name]
        total, written = sum(moved.values()), moved[its["output"]]
        cycles = math.ceil(macs * its["cycles_per_mac"] * (1 - 1e-12))
        for units, (rate, time) in zip((total, total - written, written, total), its["ports"]):
            cycles = max(cycles, -(-units * time // rate) if rate else 0)
        known = [0.0]  # of what equal parts make up
        for bounds, kept, pj in self.inner.get((part.kind, part.level), ()) if alike else ():
            known += [pj] if kept <= held and not any(w % b for w, b in zip(bounds, part.bounds)) else []
        near = max(macs * per_mac + near + its["leak_pj"] * cycles, macs * max(known))
        return (far + near) * (1 - 1e-11) if self.energy else cycles

    def cost(self, part, room):
        """Value of a part within so many words, or what it is not below; and whether it is its value."""
        exact, loose = (self.answers.get(key, ()) for key in (part, self.loose(part)))
        bounds = [each["bound"] for each in (*exact, *loose) if room <= each["capacity"]]
        least = max([self.limit(part), *(math.inf if bound is None else bound for bound in bounds)])
        for each in exact:
            if each["bound"] == each["value"] and each["used"] <= room <= each["capacity"]:
                return (least if each["value"] is None else self.above(each["value"], least, part)), True
        return least * (1 + CLOSE), False  # so that a value comes first among equals

    def above(self, value, least, what):
        if value < least * (1 - CLOSE):
            self.wrong[what] = f"a value of {value:.12g} is below its limit of {least:.12g}: {what}"
        return value


class Group:
    """Layers that run as a group, in an order; places are those of the graph.

    `inside` has the readers of each place whose output is a link inside, `shared` those of each shared input, and
    `lying` what may lie in the fusing level of both: who brings it, as which tensor; for each rank the dimensions that
    move it, and its words; and where in the order it is in use.
    """

    def __init__(self, document, graph, order):
        self.order, self.layers = order, {p: graph["layers"][p] for p in order}
        self.kinds = {p: document["kinds"][layer["kind"]] for p, layer in self.layers.items()}
        self.needed = {p: dict(zip(kind["dims"], self.layers[p]["bounds"])) for p, kind in self.kinds.items()}
        self.ranks = {(p, t): ranks for p, kind in self.kinds.items() for t, ranks in kind["tensors"].items()}
        self.moved = {at: {dim for rank in ranks for dim, _ in rank} for at, ranks in self.ranks.items()}
        self.out = {p: (p, kind["output"]) for p, kind in self.kinds.items()}
        self.inside, self.shared, self.boxes, self.lying, self.ends = {}, {}, {}, {}, set(order)
        for n, link in enumerate(graph["links"]):
            its = sorted((r for r in link["readers"] if r["layer"] in order), key=lambda r: order.index(r["layer"]))
            ranks = [rank for r in its for rank in r["ranks"]]
            if link["producer"] in order and its:
                self.inside[link["producer"]] = its
                self.ends -= {link["producer"]} if not link["goes_out"] and len(its) == len(link["readers"]) else NONE
            elif len(its) > 1 and all([f for _, f in k["terms"]] == [1] and k["box"] == k["extent"] for k in ranks):
                self.shared["shared", n] = its
        for p in reversed([p for p in order if p in self.inside]):
            ties, words, self.boxes[p] = [], [], []
            for ranks in zip(*(r["ranks"] for r in self.inside[p])):
                its = [(r["layer"], k, self.box(r["layer"], k["terms"])) for r, k in zip(self.inside[p], ranks)]
                producer, extent = ranks[0]["producer"], ranks[0]["extent"]
                if p not in self.ends:  # what nothing asks for is not run
                    self.needed[p][producer] = max(min(extent, box - k["before"]) for _, k, box in its)
                ties.append({(p, producer), *((r, self.mover(r, k, box)) for r, k, box in its)})
                after = [box - k["before"] for _, k, box in its] + [extent] * (p in self.ends)
                words.append(max(after) + max(k["before"] for k in ranks))
                self.boxes[p].append(its)
            self.lie(p, *self.out[p], ties, words, [p, *(r["layer"] for r in self.inside[p])])
        for key, its in self.shared.items():
            ties = [{(r["layer"], k["terms"][0][0]) for r, k in zip(its, ks)} for ks in zip(*(r["ranks"] for r in its))]
            p, places = its[0]["layer"], [r["layer"] for r in its]
            self.lie(key, p, its[0]["tensor"], ties, [self.needed[p][dict(tie)[p]] for tie in ties], places)
        self.dims = [dict(some) for some in self.traced()] if len(order) > 1 else []
        self.most = [math.gcd(*(self.needed[p][dim[p]] for p in self.ends)) for dim in self.dims]
        self.summed = [{p for p in order if dim[p] not in self.moved[self.out[p]]} for dim in self.dims]
        self.demand, joined = functools.cache(self.demand), {0}
        for each in [*self.lying.values()] * len(order):
            joined |= {*each.places} if joined & {*each.places} else NONE
        self.joined = len(joined) == len(order)

    def lie(self, key, place, tensor, ties, words, places):
        self.lying[key] = Lying(place, tensor, ties, words, sorted(map(self.order.index, places)))

    def box(self, place, terms):  # words along a rank that a reader sees
        return 1 + sum(f * (self.needed[place][dim] - 1) for dim, f in terms)

    def mover(self, place, rank, box):
        """The dimension of a reader that moves it along a rank; None if there is no such one."""
        outer = [dim for dim, _ in rank["terms"] if dim in self.moved[self.out[place]]]
        alone = [f for _, f in rank["terms"]] == [1] and box == rank["extent"] and not rank["before"]
        return rank["terms"][0][0] if alone and not outer else outer[0] if len(outer) == 1 else None

    def traced(self):
        """Each choice of a dimension of each layer that move all links inside together, with what joins the layers."""
        inside, ends = [self.lying[p].ties for p in self.inside], [self.out[p] for p in self.ends]
        ties = [tie for each in self.lying.values() for tie in each.ties if None not in dict(tie).values()]
        found = [frozenset({(self.order[0], dim)}) for dim in self.needed[self.order[0]]]
        for some in found:  # grows
            more = dict.fromkeys(some | tie for tie in ties if some & tie)
            found += [each for each in more if len(dict(each)) == len(each) and each not in found]
        for some in (some for some in found if len(some) == len(self.order)):
            free = all(self.needed[p][dim] > 1 and dim not in self.layers[p]["whole"] for p, dim in some)
            ranks = [(rank, dict(some)[p]) for p, name in ends for rank in self.ranks[p, name]]
            free &= all(rank == [[dim, 1]] for rank, dim in ranks if dim in dict(rank))
            if free and all(any(tie <= some for tie in its) for its in inside):
                yield some

    def along(self, key, d):  # the rank of a tensor that a fused dimension moves in all layers that have it
        return next((k for k, tie in enumerate(self.lying[key].ties) if tie <= self.dims[d].items()), None)

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
        counts = {p: tuple(Counter(zip(its.tolist(), [True] + [False] * steps)).items()) for p, its in runs.items()}
        return counts, sides


class Tilings:
    """Fused tilings of a group at a level."""

    def __init__(self, table, group, level, step):
        self.table, self.group, self.level, self.room, self.step = table, group, level["name"], level["words"], step
        self.at = {p: kind["at"].get(self.level) for p, kind in group.kinds.items()}
        self.choices = functools.cache(self.choices)
        names = {key: {(r["layer"], r["tensor"]) for r in its} for key, its in (group.inside | group.shared).items()}
        inside = [at for p in group.inside for at in (group.out[p], *names[p])]
        self.fits = group.joined and all(self.at.values()) and all(t in self.at[p]["may_hold"] for p, t in inside)
        stored = [key for key in group.shared if self.fits and all(t in self.at[p]["may_stay"] for p, t in names[key])]
        self.free = subsets(key for key in stored if not names[key] & step.present)

    def limit(self):
        """What no fused tiling falls below: parts of a layer together run all that is needed, and touch each word."""
        if not self.fits:
            return math.inf
        several = [[self.choices(p, (), (), shared) for p in self.group.order] for shared in self.free]
        parts = [[part for choices in each for _, its in choices for _, part, *_ in its] for each in several]
        return min(sum(self.table.limit(part, False) for part in its) for its in parts)

    def best(self):
        """Cost of the best fused tiling, and whether that is its value and not only a limit."""
        group, several, best = self.group, [], (math.inf, True)
        for steps in itertools.product(*([n for n in range(1, m + 1) if m % n == 0] for m in group.most)):
            split = {d: n for d, n in enumerate(steps) if n > 1}
            if any(len({group.dims[d][p] for d in split}) < len(split) for p in group.order):
                continue  # two loops over the same dimension of a layer
            links = [(p, d) for p in group.inside for d in split if p not in self.step.staying]
            for halos in subsets((p, d) for p, d in links if group.demand(d, split[d], NONE)[1][p][1]):
                kept = {d: self.step.staying | {p for p, other in halos if other == d} for d in split}
                needs = {d: group.demand(d, n, kept[d]) for d, n in split.items()}
                shared = [keys for keys in self.free if all(keys <= sides.keys() for _, sides in needs.values())]
                for its in itertools.product(itertools.permutations(split.items()), [kept], [needs], shared):
                    sums = [[p in group.summed[d] for d, _ in its[0]] for p in group.order]
                    if all(flags == sorted(flags) for flags in sums):
                        layers = self.layers(*its)
                        least = sum(min([each[0] for each in one], default=math.inf) for one in layers)
                        several += [(least, layers)] if least < math.inf else []
        for least, layers in sorted(several, key=lambda each: each[0]):
            for chosen in itertools.product(*layers) if least < best[0] else ():
                if sum(each[0] for each in chosen) < best[0]:
                    resident = sum(words for _, words, *_ in chosen)
                    costs = [self.cost(parts, extra + resident) for *_, parts, extra in chosen]
                    best = best_of([best, (sum(cost for cost, _ in costs), all(known for _, known in costs))])
        return best

    def layers(self, loops, kept, needs, shared):
        """For each layer and choice of its resident tensors: cost as if no other were, words, parts, words of links."""
        group, extra, several = self.group, dict.fromkeys(self.group.order, self.step.taken), []
        for key in {*group.inside} - self.step.staying | shared:
            its, moved = group.lying[key], [group.along(key, d) for d, _ in loops]
            inside = live = math.prod(n for k, n in enumerate(its.words) if k not in moved)
            between = 0  # words while it is not in use: halos that stay
            for k, (d, _) in reversed([*zip(moved, loops)]):
                tile, halo = needs[d][1][key] if key in shared or key in kept[d] else (needs[d][1][key][0], 0)
                live, between = halo * inside + (tile - halo) * live, halo * inside + (tile - halo) * between
                inside *= its.words[k]
            for n, p in enumerate(group.order):
                words = live if its.places[0] <= n <= its.places[-1] else between
                extra[p] += self.at[its.place]["element_words"][its.tensor] * words
        for p in group.order:
            choices = self.choices(p, loops, tuple(needs[d][0][p] for d, _ in loops), shared)
            several.append(
                [(self.cost(parts, extra[p] + words)[0], words, parts, extra[p]) for words, parts in choices]
            )
        return several

    def cost(self, parts, reserved):
        """Cost of the parts of a layer, where it and others take some words, and whether it is known."""
        if any(reserved + least > self.room for *_, least in parts):
            return math.inf, True
        costs = [(n, self.table.cost(part, self.room - reserved + own)) for n, part, own, _ in parts]
        return sum(n * cost for n, (cost, _) in costs), all(known for _, (_, known) in costs)

    def choices(self, place, loops, runs, shared):
        """For each set of resident tensors of a layer: their words, and its parts with counts, own and least words."""
        group, at, words, out = self.group, self.at[place], self.at[place]["element_words"], self.group.out[place][1]
        named = [(group.dims[d][place], n, place in group.summed[d]) for d, n in loops]
        outer, sums = [dim for dim, _, summed in named if not summed], {dim: n for dim, n, summed in named if summed}
        there = {name for p, name in self.step.present if p == place}
        there |= {r["tensor"] for its in group.inside.values() for r in its if r["layer"] == place}
        come = {out} if place in group.inside or place in self.step.staying else set()
        no, tensors = there | come, group.kinds[place]["tensors"]
        come, there = (come, there) if place in self.step.leaving else (set(), there | come)
        for number, r in ((number, r) for key in shared for number, r in enumerate(group.shared[key])):
            (there if number else come).update({r["tensor"]} if r["layer"] == place else ())
        inner = {t: [dim not in group.moved[place, t] for dim, *_ in reversed(named)] for t in tensors}
        still = {t: [*flags, False].index(False) for t, flags in inner.items()}  # inner loops that leave it in place
        several, found = [], []
        for chosen in itertools.product(*(run for run, (*_, summed) in zip(runs, named) if not summed)):
            bounds, own = group.needed[place] | {dim: n for dim, ((n, _), _) in zip(outer, chosen)}, {}
            for t, ranks in tensors.items():
                sides = [1 + sum(f * (bounds[d] // sums.get(d, 1) - 1) for d, f in rank) for rank in ranks]
                own[t] = words[t] * math.prod(sides)
            firsts, count = [first for (_, first), _ in chosen], math.prod(many for _, many in chosen)
            several += [(count, tuple(bounds.values()), firsts, own)] * all(bounds.values())
        for stay in subsets(t for t in tensors if still[t] and t in at["may_stay"] and t not in no):
            held, parts = stay | come | there, []
            streamed = frozenset(t for t in tensors if sums and still[t] and t not in held)
            least = sum(words[t] for t in at["must_keep"] if t not in held)
            for count, bounds, firsts, own in several:
                first = {t for t in stay if t == out or all(firsts[len(firsts) - max(0, still[t] - len(sums)) :])}
                states = frozenset((come - there) | first), frozenset((stay - first) | there)
                part = Part(group.layers[place]["kind"], self.level, bounds, *states, tuple(sums.items()), streamed)
                taken = sum(own[t] for t in held)
                parts.append((count, part, taken, least))
            if all(group.moved[place, t] - sums.keys() for t in streamed) and not held & {*at["refused"]}:
                found.append((sum(max(own[t] for *_, own in several) for t in stay), parts))
        return found


def solve(document, table, graph, level):
    """Least sum of all ways through a graph at a level, and whether it is the value of a way.

    A state is what has run, and links that lie there as a whole, outside too or not.
    """
    links, layers, most = graph["links"], graph["layers"], document["longest"] or len(graph["layers"])
    reads, words, groups, steps, costs = [{r["layer"] for r in link["readers"]} for link in links], [], {}, {}, {}
    kinds = [document["kinds"][layer["kind"]] for layer in layers]
    for link in links:  # words of each as a whole, where the level may hold it
        its, p = [(r["layer"], r["tensor"]) for r in link["readers"]], link["producer"]
        its += [] if p is None else [(p, kinds[p]["output"])]
        at = {p: kinds[p]["at"].get(level and level["name"]) for p, _ in its}
        sizes = [math.prod(max(rank["extent"], rank["box"]) for rank in r["ranks"]) for r in link["readers"]]
        held = p is not None and all(at.values()) and all(t in at[p]["may_hold"] for p, t in its)
        words.append(max(at[p]["element_words"][t] * n for (p, t), n in zip(its, sizes)) if held else math.inf)

    def following(done, whole):
        sets = [NONE]
        for some in sets:  # grows
            for p in set(range(len(layers))) - done - some if len(some) < most else ():
                needs = {link["producer"] for link, its in zip(links, reads) if p in its} - {None}
                sets += [some | {p}] if needs <= done | some and some | {p} not in sets else []
        for some in sets[1:]:
            after, choices, leaving = done | some, [], some - {link["producer"] for link in links}
            present = {(r["layer"], r["tensor"]) for n, _ in whole for r in links[n]["readers"] if r["layer"] in some}
            for n, link in ((n, link) for n, link in enumerate(links) if link["producer"] in some):
                later, out = len(reads[n] - after), link["goes_out"]
                stays = [(n, True, True)] * (out or later > 1) + [(n, True, False)] * (not out)
                choices.append([(n, False, out or later > 0), *(stays if later and words[n] < math.inf else ())])
            for chosen in itertools.product(*choices):
                stay = {(n, leaves) for n, stays, leaves in chosen if stays}
                taken = sum(words[n] for n in {n for n, _ in whole | stay})
                lie = frozenset((n, out) for n, out in whole | stay if reads[n] - after)
                staying = frozenset(links[n]["producer"] for n, _ in stay)
                leaves = leaving | {links[n]["producer"] for n, _, leaves in chosen if leaves}
                step = Step(some, frozenset(present), staying, leaves, taken)
                for gone in subsets(each for each in lie if each[1]) if not taken or taken <= level["words"] else ():
                    yield step, (after, lie - gone)

    def orders(places):
        free = [p for p in places if not any(o["producer"] in places and p in its for o, its in zip(links, reads))]
        return [(p, *order) for p in free for order in orders(places - {p})] if places else [()]

    def tilings(step):
        for order in orders(step.places) if level else ():
            groups[order] = groups.get(order) or Group(document, graph, order)
            yield Tilings(table, groups[order], level, step)

    start = NONE, NONE
    todo = [start]
    for state in todo:  # grows, each step leads to a later one
        steps[state] = list(following(*state))
        todo += {after for _, after in steps[state]} - set(todo)
        todo.sort(key=lambda each: len(each[0]))
        for step, _ in steps[state]:
            alone = layers[min(step.places)]["alone"]
            costs[step] = alone["bound"], alone["bound"] == alone["value"], False
            if len(step.places) > 1 or step.taken:
                costs[step] = next((its.limit() for its in tilings(step)), math.inf), False, True
    while True:  # find out more of the shortest path
        ways, path = {start: (0.0, None, None)}, []
        for state, (step, after) in ((each, its) for each in todo if each in ways for its in steps[each]):
            total = ways[state][0] + costs[step][0]
            if total < ways.get(after, (math.inf,))[0]:
                ways[after] = total, state, step
        total, state, step = ways[todo[-1]]
        while step:
            path.append(step)
            _, state, step = ways[state]
        unknown = [step for step in path if costs[step][2]]
        if not unknown:
            return total, all(costs[step][1] for step in path)
        costs[unknown[-1]] = *best_of(its.best() for its in tilings(unknown[-1]) if its.fits), False


def check(document):
    """Least sum of a certificate, and what is wrong with it."""
    table, total, sure, claim = Table(document), 0.0, True, document["claim"]
    rest = json.dumps({key: each for key, each in document.items() if key != "sha256"}, sort_keys=True)
    changed = hashlib.sha256(rest.encode()).hexdigest() != document["sha256"]
    wrong = ["the file was changed after it was written"] if changed else []
    for graph in document["graphs"]:
        for layer in graph["layers"]:
            part, alone = Part(layer["kind"], None, tuple(layer["bounds"]), NONE, NONE, (), NONE), layer["alone"]
            least = [table.limit(part._replace(level=at), False) for at in table.kinds[layer["kind"]]["at"]]
            table.above(alone["value"], max([*least, alone["bound"]]), layer["name"])
            asked = layer["outermost_loops_asked"]
            wrong += [f"{layer['name']}: not checked with what is asked of the outermost loops"] if asked else []
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
