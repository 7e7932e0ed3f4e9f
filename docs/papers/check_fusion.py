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

FORM = "accelsim fusion certificate 2"
CLOSE, FAR, NONE = 1e-9, 1 << 60, frozenset()  # relative difference up to which sums are equal; no place; nothing
Part = namedtuple("Part", "kind level bounds arriving present sums streamed")  # as in the file
Step = namedtuple("Step", "places present staying leaving taken")  # a group: what is there, stays, leaves; words
# What may lie in the fusing level for several layers: places and names, first of who brings it; for each rank the
# dimensions that move it together, its words, and its readers with their boxes
Link = namedtuple("Link", "tensors ties words boxes")
best_of = functools.partial(min, key=lambda each: (each[0], not each[1]), default=(math.inf, True))


def subsets(items):
    items = list(items)
    return [frozenset(some) for many in range(len(items) + 1) for some in itertools.combinations(items, many)]


def frozen(each):  # lists as tuples, and nothing as infinite
    return tuple(map(frozen, each)) if isinstance(each, list) else math.inf if each is None else each


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
            part = Part(*(frozen(each[name]) for name in Part._fields))
            self.answers.setdefault(part, []).extend(map(frozen, each["found"]))
        for each in document["inner"]:
            its = frozen(each["bounds"]), {*each["kept"]}, frozen(each["pj_per_mac"])
            self.inner.setdefault((each["kind"], each["level"]), []).append(its)

    def limit(self, part, alike=True):
        """What no mapping of a part falls below; if not `alike`, nor those of unequal parts that make it up."""
        its, macs, held = self.kinds[part.kind], math.prod(part.bounds), {*part.arriving, *part.present}
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
        loose = part._replace(sums=tuple(sorted(part.sums)), streamed=math.inf)  # with any loops over what it sums
        exact = [each for each in self.answers.get(part, ()) if room <= each[0]]
        bounds = [each[3] for each in exact] + [each[3] for each in self.answers.get(loose, ()) if room <= each[0]]
        least = max([self.limit(part), *bounds])
        for _, used, value, bound in exact:
            if bound == value and used <= room:
                return self.above(value, least, part), True
        return least * (1 + CLOSE), False  # so that a value comes first among equals

    def above(self, value, least, what):
        if value < least * (1 - CLOSE):
            self.wrong[what] = f"a value of {value:.12g} is below its limit of {least:.12g}: {what}"
        return value


class Group:
    """Layers that run as a group, in an order; places are those of the graph.

    `links` has those inside by the place that writes them, and shared ones by numbers below 0.
    """

    def __init__(self, layers, links, order):
        self.order, self.layers, self.links, self.ends = order, {p: layers[p] for p in order}, {}, {*order}
        self.needed = {p: dict(zip(its["dims"], its["bounds"])) for p, its in self.layers.items()}
        tensors = [(p, t, ranks) for p, its in self.layers.items() for t, ranks in its["tensors"].items()]
        self.moved = {(p, t): {dim for rank in ranks for dim, _ in rank} for p, t, ranks in tensors}
        self.out = {p: self.moved[p, its["output"]] for p, its in self.layers.items()}
        inside = {link["producer"]: link for link in links if {r["layer"] for r in link["readers"]} & {*order}}
        for p in (p for p in reversed(order) if p in inside):
            readers = self.readers(inside[p])
            ends = inside[p]["goes_out"] or len(readers) < len(inside[p]["readers"])
            self.ends -= NONE if ends else {p}
            self.add(p, [(p, layers[p]["output"])], readers, ends)
        for n, link in enumerate(links):
            readers = self.readers(link) if link["producer"] not in order else []
            ranks = [rank for r in readers for rank in r["ranks"]]
            if len(readers) > 1 and all([f for _, f in k["terms"]] == [1] and k["box"] == k["extent"] for k in ranks):
                self.add(-1 - n, [], readers, False)
        self.dims = [dict(some) for some in self.traced()] if len(order) > 1 else []
        self.most = [math.gcd(*(self.needed[p][dim[p]] for p in self.ends)) for dim in self.dims]
        self.summed = [{p for p in order if dim[p] not in self.out[p]} for dim in self.dims]
        self.demand, joined = functools.cache(self.demand), {order[0]}
        for places in [{p for p, _ in link.tensors} for link in self.links.values()] * len(order):
            joined |= places if joined & places else NONE
        self.joined = len(joined) == len(order)

    def readers(self, link):
        return [r for p in self.order for r in link["readers"] if r["layer"] == p]

    def add(self, key, producer, readers, ends):
        """Line up the ranks of a link, and cut its producer to what is asked for, unless it `ends` here."""
        link = self.links[key] = Link(producer + [(r["layer"], r["tensor"]) for r in readers], [], [], [])
        for ranks in zip(*(r["ranks"] for r in readers)):
            its = [(r["layer"], k) for r, k in zip(readers, ranks)]
            its = [(p, k, 1 + sum(f * (self.needed[p][dim] - 1) for dim, f in k["terms"])) for p, k in its]
            dim, extent, after = ranks[0]["producer"], ranks[0]["extent"], [box - k["before"] for _, k, box in its]
            if key >= 0 and not ends:
                self.needed[key][dim] = max(min(extent, words) for words in after)
            words = max(after + [extent] * ends) + max(k["before"] for k in ranks)
            link.words.append(words if key >= 0 else its[0][2])
            link.boxes.append(its)
            link.ties.append({(p, self.mover(p, k, box)) for p, k, box in its} | {(p, dim) for p, _ in producer})

    def mover(self, place, rank, box):
        """The dimension of a reader that moves it along a rank; None if there is no such one."""
        outer = [dim for dim, _ in rank["terms"] if dim in self.out[place]]
        alone = [f for _, f in rank["terms"]] == [1] and box == rank["extent"] and not rank["before"]
        return rank["terms"][0][0] if alone and not outer else outer[0] if len(outer) == 1 else None

    def traced(self):
        """Each choice of a dimension of each layer that move all links inside together, with what joins the layers."""
        ties = [tie for link in self.links.values() for tie in link.ties if None not in dict(tie).values()]
        inside = [link.ties for key, link in self.links.items() if key >= 0]
        found = [frozenset({(self.order[0], dim)}) for dim in self.needed[self.order[0]]]
        for some in found:  # grows
            more = dict.fromkeys(some | tie for tie in ties if some & tie)
            found += [each for each in more if len(dict(each)) == len(each) and each not in found]
        for some in (some for some in found if len(some) == len(self.order)):
            free = all(self.needed[p][dim] > 1 and dim not in self.layers[p]["whole"] for p, dim in some)
            ends = [(dim, self.layers[p]["tensors"][self.layers[p]["output"]]) for p, dim in some if p in self.ends]
            free &= all(rank == [[dim, 1]] for dim, ranks in ends for rank in ranks if dim in dict(rank))
            if free and all(any(tie <= some for tie in its) for its in inside):
                yield some

    def along(self, key, d):  # the rank of a link that a fused dimension moves in all layers that have it
        return next((k for k, tie in enumerate(self.links[key].ties) if tie <= self.dims[d].items()), None)

    def demand(self, d, steps, kept):
        """Of a fused loop: how often each layer runs how much; tile and halo of links, if its halo stays in `kept`."""
        dims, runs, fresh, asked, sides, step = self.dims[d], {}, {}, {}, {}, np.arange(steps)
        for p in reversed(self.order):
            share = self.needed[p][dims[p]] // steps
            spans = [[step * share, (step + 1) * share]] if p in self.ends else []
            boxes = self.links[p].boxes[self.along(p, d)] if p in self.links else []
            for reader, rank, box in boxes:
                (low, high), stride = fresh[reader], dict(rank["terms"])[dims[reader]]
                longer = box - stride * (self.needed[reader][dims[reader]] - 1) - rank["before"]
                span = [stride * low - rank["before"], stride * (high - 1) + longer]
                spans.append(np.where(high > low, span, [[FAR], [-FAR]]))
            low, high = np.min(spans, axis=0)[0], np.max(spans, axis=0)[1]
            idle, before = high < low, np.maximum.accumulate([-FAR, *high])[:-1]
            if boxes:
                sides[p] = [max(0, int(each.max())) for each in (high - low, before - low)]
                low, high = np.maximum(0, low), np.minimum(boxes[0][1]["extent"], high)
            high = np.where(idle, 0, np.maximum(low, high))
            ends = np.maximum.accumulate(high)
            low, high = asked[p] = np.where(idle, ends, [low, high])
            low = np.maximum(low, [0, *ends[:-1]]) if p in kept else low
            fresh[p], runs[p] = (low, np.maximum(low, high)), np.maximum(0, high - low)
        for key in (key for key in self.links if key < 0 and self.along(key, d) is not None):
            p, *others = [place for place, _ in self.links[key].tensors]
            (low, high), again = asked[p], [np.where(runs[o] > 0, asked[o][1] - runs[o], FAR) for o in others]
            if all(np.all((runs[o] == 0) | (low <= a) & (asked[o][1] <= high)) for o, a in zip(others, again)):
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
        self.at = {p: its["at"].get(self.level) for p, its in group.layers.items()}
        self.choices = functools.cache(self.choices)
        inside = [at for key, link in group.links.items() if key >= 0 for at in link.tensors]
        self.fits = group.joined and all(self.at.values()) and all(t in self.at[p]["may_hold"] for p, t in inside)
        shared = {key: link for key, link in group.links.items() if key < 0 and self.fits}
        for key, link in [*shared.items()]:  # the first reader has to fetch all of it
            most = all(box <= its[0][2] for its in link.boxes for *_, box in its)
            if not most or not all(t in self.at[p]["may_stay"] for p, t in link.tensors):
                del shared[key]
        self.free = subsets(key for key in shared if not step.present & {*group.links[key].tensors})

    def limit(self):
        """What no fused tiling falls below: parts of a layer together run all that is needed, and touch each word."""
        several = self.free if self.fits else []
        several = [[self.choices(p, (), (), shared) for p in self.group.order] for shared in several]
        parts = [[part for choices in each for _, its in choices for _, part, *_ in its] for each in several]
        return min([sum(self.table.limit(part, False) for part in its) for its in parts], default=math.inf)

    def loops(self):
        """Fused loops in each order, links whose halo stays, what loops ask for, and what first readers fetch."""
        group = self.group
        for steps in itertools.product(*([n for n in range(1, m + 1) if m % n == 0] for m in group.most)):
            split = {d: n for d, n in enumerate(steps) if n > 1}
            if any(len({group.dims[d][p] for d in split}) < len(split) for p in group.order):
                continue  # two loops over the same dimension of a layer
            orders = itertools.permutations(split.items())  # loops over sums come last
            orders = {its: [[p in group.summed[d] for d, _ in its] for p in group.order] for its in orders}
            orders = [its for its, sums in orders.items() if all(each == sorted(each) for each in sums)]
            links = [(p, d) for p in group.links if p >= 0 and p not in self.step.staying for d in split]
            for halos in subsets((p, d) for p, d in links if group.demand(d, split[d], NONE)[1][p][1]):
                kept = {d: self.step.staying | {p for p, other in halos if other == d} for d in split}
                needs = {d: group.demand(d, n, kept[d]) for d, n in split.items()}
                shared = [keys for keys in self.free if all(keys <= sides.keys() for _, sides in needs.values())]
                yield from itertools.product(orders, [kept], [needs], shared)

    def best(self):
        """Cost of the best fused tiling, and whether that is its value and not only a limit."""
        several, best = [self.layers(*its) for its in self.loops()], (math.inf, True)
        several = [(sum(min([each[0] for each in one], default=math.inf) for one in its), its) for its in several]
        for least, layers in sorted(several, key=lambda each: each[0]):
            for chosen in itertools.product(*layers) if least < best[0] else ():
                if sum(each[0] for each in chosen) < best[0]:
                    words = sum(each[1] for each in chosen)
                    costs = [self.cost(parts, extra + words) for *_, parts, extra in chosen]
                    best = best_of([best, (sum(cost for cost, _ in costs), all(known for _, known in costs))])
        return best

    def layers(self, loops, kept, needs, shared):
        """For each layer and choice of its resident tensors: cost as if no other were, words, parts, words of links."""
        group, extra, several = self.group, dict.fromkeys(self.group.order, self.step.taken), []
        for key in {key for key in group.links if key >= 0} - self.step.staying | shared:
            link, moved = group.links[key], [group.along(key, d) for d, _ in loops]
            inside = live = math.prod(n for k, n in enumerate(link.words) if k not in moved)
            between = 0  # words while it is not in use: halos that stay
            for k, (d, _) in reversed([*zip(moved, loops)]):
                tile, halo = needs[d][1][key] if key in shared or key in kept[d] else (needs[d][1][key][0], 0)
                live, between = halo * inside + (tile - halo) * live, halo * inside + (tile - halo) * between
                inside *= link.words[k]
            (first, name), at = link.tensors[0], [group.order.index(p) for p, _ in link.tensors]
            for n, p in enumerate(group.order):
                extra[p] += self.at[first]["element_words"][name] * (live if min(at) <= n <= max(at) else between)
        for p in group.order:
            its = self.choices(p, loops, tuple(needs[d][0][p] for d, _ in loops), shared)
            several.append([(self.cost(parts, extra[p] + n)[0], n, parts, extra[p]) for n, parts in its])
        return several

    def cost(self, parts, reserved):
        """Cost of the parts of a layer, where it and others take some words, and whether it is known."""
        if any(reserved + least > self.room for *_, least in parts):
            return math.inf, True
        costs = [(n, *self.table.cost(part, self.room - reserved + own)) for n, part, own, _ in parts]
        return sum(n * cost for n, cost, _ in costs), all(known for *_, known in costs)

    def choices(self, place, loops, runs, shared):
        """For each set of resident tensors of a layer: their words, and its parts with counts, own and least words."""
        group, step, words, layer = self.group, self.step, self.at[place]["element_words"], self.group.layers[place]
        tensors, out, dims = layer["tensors"], layer["output"], {group.dims[d][place]: n for d, n in loops}
        sums = {dim: n for dim, n in dims.items() if dim not in group.out[place]}
        inside = [link.tensors[1:] for key, link in group.links.items() if key >= 0]
        read = {t for p, t in step.present.union(*inside) if p == place}
        written = {out} if place in group.links or place in step.staying else NONE
        come = {t for key in shared for p, t in group.links[key].tensors[:1] if p == place}
        there = {t for key in shared for p, t in group.links[key].tensors[1:] if p == place} | read
        (come if place in step.leaving else there).update(written)
        several, found, still = [], [], {}
        for t in tensors:  # inner loops that leave it in place
            moving = [k for k, dim in enumerate(dims, 1) if dim in group.moved[place, t]]
            still[t] = {*[*dims][max(moving, default=0) :]}
        for chosen in itertools.product(*(run for dim, run in zip(dims, runs) if dim not in sums)):
            its = dict(zip((dim for dim in dims if dim not in sums), chosen))
            bounds = group.needed[place] | {dim: n for dim, ((n, _), _) in its.items()}
            tile, own = {dim: bounds[dim] // sums.get(dim, 1) for dim in bounds}, {}
            for t, ranks in tensors.items():
                own[t] = words[t] * math.prod(1 + sum(f * (tile[d] - 1) for d, f in rank) for rank in ranks)
            later = {dim for dim, ((_, first), _) in its.items() if not first}
            count = math.prod(many for _, many in chosen)
            several += [(count, tuple(bounds.values()), later, own)] if all(bounds.values()) else []
        free = [t for t in tensors if still[t] and t in self.at[place]["may_stay"] and t not in read | written]
        for stay in subsets(free):
            held, parts = stay | come | there, []
            streamed = tuple(sorted(t for t in tensors if sums and still[t] and t not in held))
            least = sum(words[t] for t in self.at[place]["must_keep"] if t not in held)
            for count, bounds, later, own in several:
                first = {t for t in stay if t == out or not still[t] & later}
                states = tuple(sorted((come - there) | first)), tuple(sorted((stay - first) | there))
                part = Part(layer["kind"], self.level, bounds, *states, tuple(sums.items()), streamed)
                parts.append((count, part, sum(own[t] for t in held), least))
            if all(group.moved[place, t] - sums.keys() for t in streamed) and not held & {*self.at[place]["refused"]}:
                found.append((sum(max(own[t] for *_, own in several) for t in stay), parts))
        return found


class Ways:
    """All ways through a graph at a level; a state is what has run, and links there as a whole, outside too or not."""

    def __init__(self, table, graph, level, longest):
        self.table, self.level, self.layers, self.links, self.groups = table, level, graph["layers"], graph["links"], {}
        self.most, self.words = longest or len(self.layers), []
        self.reads = [{r["layer"] for r in link["readers"]} for link in self.links]
        for link in self.links:  # words of each as a whole, infinite where the level may not hold it
            p, its = link["producer"], [(self.layers[r["layer"]], r["tensor"], r["ranks"]) for r in link["readers"]]
            its += [] if p is None else [(self.layers[p], self.layers[p]["output"], [])]
            at = [(layer["at"].get(level and level["name"]), t, ranks) for layer, t, ranks in its]
            held = p is not None and all(each and t in each["may_hold"] for each, t, _ in at)
            sizes = [[max(rank["extent"], rank["box"]) for rank in ranks] for *_, ranks in at if ranks]
            several = [each["element_words"][t] * math.prod(size) for (each, t, _), size in zip(at, sizes) if held]
            self.words.append(max(several, default=math.inf))

    def following(self, done, whole):
        """All steps from a state, and the states after them."""
        sets = [NONE]
        for some in sets:  # grows
            for p in {*range(len(self.layers))} - done - some if len(some) < self.most else ():
                needs = {link["producer"] for link, its in zip(self.links, self.reads) if p in its} - {None}
                sets += [some | {p}] if needs <= done | some and some | {p} not in sets else []
        for some in sets[1:]:
            after, choices, leaving = done | some, [], some - {link["producer"] for link in self.links}
            readers = [r for n, _ in whole for r in self.links[n]["readers"] if r["layer"] in some]
            for n, link in ((n, link) for n, link in enumerate(self.links) if link["producer"] in some):
                later, out = len(self.reads[n] - after), link["goes_out"]
                stays = [(n, True, True)] * (out or later > 1) + [(n, True, False)] * (not out)
                choices.append([(n, False, out or later > 0), *(stays if later and self.words[n] < math.inf else ())])
            for chosen in itertools.product(*choices):
                stay = {(n, leaves) for n, stays, leaves in chosen if stays}
                taken = sum(self.words[n] for n in {n for n, _ in whole | stay})
                staying = frozenset(self.links[n]["producer"] for n, _ in stay)
                out = leaving | {self.links[n]["producer"] for n, _, leaves in chosen if leaves}
                step = Step(some, frozenset((r["layer"], r["tensor"]) for r in readers), staying, out, taken)
                lie = frozenset((n, out) for n, out in whole | stay if self.reads[n] - after)
                fits = not taken or taken <= self.level["words"]
                for gone in subsets(each for each in lie if each[1]) if fits else ():
                    yield step, (after, lie - gone)

    def orders(self, places):
        pairs = [(link["producer"], its) for link, its in zip(self.links, self.reads) if link["producer"] in places]
        free = [p for p in places if not any(p in its for _, its in pairs)]
        return [(p, *order) for p in free for order in self.orders(places - {p})] if places else [()]

    def tilings(self, step):
        for order in self.orders(step.places) if self.level else ():
            self.groups[order] = self.groups.get(order) or Group(self.layers, self.links, order)
            yield Tilings(self.table, self.groups[order], self.level, step)

    def cost(self, step):
        """Cost of a step, whether it is the value of a tiling, and whether more can be found out."""
        if len(step.places) > 1 or step.taken:
            return next((its.limit() for its in self.tilings(step)), math.inf), False, True
        alone = self.layers[min(step.places)]["alone"]
        return alone["bound"], alone["bound"] == alone["value"], False

    def solve(self):
        """Least sum, and whether it is the value of a way: by shortest paths, until all of one is found out."""
        start, steps, costs = (NONE, NONE), {}, {}
        todo = [start]
        for state in todo:  # grows; each step leads to a later one
            steps[state] = [*self.following(*state)]
            costs |= {step: self.cost(step) for step, _ in steps[state] if step not in costs}
            todo += {after for _, after in steps[state]} - {*todo}
            todo.sort(key=lambda each: len(each[0]))
        while True:
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
            costs[unknown[-1]] = *best_of(its.best() for its in self.tilings(unknown[-1]) if its.fits), False


def check(document):
    """Least sum of a certificate, and what is wrong with it."""
    rest = json.dumps({key: each for key, each in document.items() if key != "sha256"}, sort_keys=True)
    changed = hashlib.sha256(rest.encode()).hexdigest() != document["sha256"]
    wrong = ["the file was changed after it was written"] if changed else []
    table, total, sure, claim = Table(document), 0.0, True, document["claim"]
    for graph in document["graphs"]:
        layers = [each | document["kinds"][each["kind"]] for each in graph["layers"]]
        for layer in layers:
            part, alone = Part(layer["kind"], None, tuple(layer["bounds"]), (), (), (), ()), layer["alone"]
            least = [table.limit(part._replace(level=at), False) for at in layer["at"]]
            table.above(alone["value"], max([*least, alone["bound"]]), layer["name"])
            asked = layer["outermost_loops_asked"]
            wrong += [f"{layer['name']}: not checked with what is asked of the outermost loops"] if asked else []
        levels = document["levels"] or [None]
        several = [Ways(table, graph | {"layers": layers}, level, document["longest"]) for level in levels]
        least, known = best_of(ways.solve() for ways in several)
        total, sure = total + graph["repeat"] * least, sure and known
    value, bound, wrong = claim["value"], claim["bound"], [*wrong, *table.wrong.values()]
    wrong += [] if sure or bound < value else ["a part or a layer of the least sum has a limit in place of a value"]
    if not bound * (1 - CLOSE) <= total <= value * (1 + CLOSE):
        wrong.append(f"the least sum is {total:.12g}, the claim is {value:.12g}, and not below {bound:.12g}")
    return total, wrong


def read(names):
    """The certificate in the one file that is named; ends with a message where there is none."""
    if len(names) != 1:
        sys.exit("usage: python check_fusion.py DIR/fusion_certificate.json")
    try:
        with open(names[0]) as file:
            document = json.load(file)
    except (OSError, ValueError) as error:
        sys.exit(f"{names[0]}: {error}")
    if not isinstance(document, dict) or document.get("format") != FORM:
        sys.exit(f"{names[0]}: no certificate of this kind; `accelsim fuse -o DIR` writes DIR/fusion_certificate.json")
    return document


if __name__ == "__main__":
    least_sum, mistakes = check(read(sys.argv[1:]))
    print("\n".join(mistakes) or f"least sum {least_sum:.12g} equals the claim")
    sys.exit(bool(mistakes))
