"""Run a sweep: choose designs, prune those that are proved to be beaten, hand work out, keep what is finished."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from os import PathLike

from accelsim.designs import store
from accelsim.designs.joint import JointRun
from accelsim.designs.machines import Bound, Design, Listed, Load, Machine, Optuna, Values
from accelsim.designs.pool import Alone, Cluster, Pool, Workers
from accelsim.designs.store import Explored
from accelsim.designs.sweep import Sweep, load_sweep
from accelsim.designs.tables import design_rows, write_tables
from accelsim.designs.work import BOUND, EVALUATE, MAP, MAP_FREE, Item, WorkRow
from accelsim.inputs.errors import AccelsimError
from accelsim.model.limits import Limits, layer_limits
from accelsim.search.stopping import answering


def explore(
    sweep: Sweep | str | PathLike[str],
    folder: str | PathLike[str],
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    on_progress: store.OnSweepProgress | None = None,
    on_cluster: Callable[[str], None] = lambda _: None,
    on_trouble: Callable[[str], None] = lambda _: None,
) -> Explored:
    """Look at the designs of a sweep and keep the results in a folder; what is there already is not done again.

    `workers` are processes of this computer; 1: none but this one. `scheduler` is the address of a Dask scheduler whose
    workers do the work instead, `on_cluster` takes that of its dashboard. `on_trouble` takes a line about finished work
    that cannot be read, and is done again, or a cluster without workers. Ctrl-C ends a sweep with what is finished.

    Raises InputError if the file has mistakes, AccelsimError if something needed is not installed, no scheduler answers
    or it dies, workers lack this accelsim or keep dying, the folder cannot be written, or no design has a machine.
    """
    if not isinstance(sweep, Sweep):
        sweep = load_sweep(sweep)
    kept = store.Store(folder)
    if kept.trouble:
        on_trouble(kept.trouble)
    run = (JointRun if sweep.joint else _DesignsRun)(sweep, kept, on_progress, on_trouble)
    stop = "finished"
    try:
        many = workers or os.cpu_count() or 1
        pool: Workers = Alone(run.plan)
        if scheduler is not None:
            pool = Cluster(run.plan, scheduler, on_trouble)
            on_cluster(pool.dashboard)
        elif many > 1:
            pool = Pool(run.plan, many)
        try:
            run.go(pool)
        except Exception as error:
            if not (isinstance(pool, Cluster) and pool.is_lost(error)):
                raise
            ended = sum(record.status != "running" for record in run.records)
            raise AccelsimError(
                f"--scheduler {scheduler}: the Dask scheduler is gone; designs finished and kept in {folder}: {ended}; "
                "start the same command again to go on, with a scheduler that runs or without --scheduler"
            ) from None
        finally:
            pool.close()
    except KeyboardInterrupt:
        stop = "interrupted"
        answering()
    finally:
        kept.flush()
    explored = run.result(stop)
    explored.rows = design_rows(explored)
    write_tables(explored)
    return explored


class _DesignsRun(store.SweepRun):
    """One run of a sweep, design by design."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tables_bound = self.sweep.prune and self.sweep.mapper.options.narrow
        self.made: dict[int, Machine] = {}
        self.waves: list[list[store.Record]] = []
        self.closed = 0
        self.fronts: list[list[store.Point]] = [[]]
        self.queue: deque[Item] = deque()
        self.awaited: dict[str, list[tuple[Iterator[list[Item]], set[str]]]] = {}  # who waits, and for what else
        self.done = 0

    def strategy(self) -> Listed | Optuna:
        """Make the strategy that the sweep names."""
        sweep = self.sweep
        if sweep.strategy == "optuna":
            return Optuna(sweep, self.machines.meets_conditions)
        designs = self._promising_first(self.designs()) if sweep.prune else self.designs()
        return Listed(designs, sweep.wave, 2 if sweep.prune else None)

    def _promising_first(self, designs: Sequence[Design]) -> list[Design]:
        """Order designs by the product of their least objectives, so that what beats others comes first."""
        order: list[tuple[float, int, Design]] = []
        for design in designs:
            value = math.inf
            with suppress(AccelsimError):
                load = self.loads.of(design)
                machine = self.made[design.number] = self.machines.make(design)
                least = store.total(load.weights, machine, _spread(load, self._quick(machine, load)))
                value = math.prod(store.point(self.sweep, least))
            order.append((value, design.number, design))
        return [design for *_, design in sorted(order, key=lambda entry: entry[:2])]

    def go(self, pool: Workers) -> None:
        """Look at all designs."""
        began = time.process_time()
        strategy, more = self.strategy(), True
        self.tell(self.done, strategy.total, self.fronts[-1])
        while True:
            while more and self._may_ask(strategy, pool):
                wave = [store.Record(design, len(self.waves)) for design in strategy.ask()]
                more = bool(wave)
                self.waves += [wave] if wave else []
                self.records += wave
                for record in wave:
                    self._go_on(self._look_at(record))
                self._close_waves(strategy)
            while self.queue and pool.busy < pool.room:
                items = [self.queue.popleft() for _ in range(min(pool.size, len(self.queue)))]
                pool.submit(items)
            if not pool.busy and not self.queue and not more:
                break
            self.overhead += time.process_time() - began
            rows = pool.finished(store.POLL_SECONDS)
            began = time.process_time()
            self._take(rows)
            self._close_waves(strategy)
            self.tell(self.done, strategy.total, self.fronts[-1])
        self.overhead += time.process_time() - began
        self.refuse_no_machine()

    def _may_ask(self, strategy: Listed | Optuna, pool: Workers) -> bool:
        if strategy.lag is not None:
            return self.closed >= len(self.waves) + 1 - strategy.lag
        return len(self.queue) < pool.room * pool.size

    def _look_at(self, record: store.Record) -> Iterator[list[Item]]:
        """Look at a design; yields work that must be finished before it goes on."""
        status, reason = self.prepare(record, self.made.pop(record.design.number, None))
        if status:
            self._end(record, status, reason)
            return
        (machine, load), rows = record.needs, self.store.rows
        if self.sweep.prune:
            quick = self._quick(machine, load)
            if self._beaten(record, quick):
                return
            if self.tables_bound:
                items = self.items(machine, machine.hash, BOUND, load.different)
                yield items
                found = [rows[item.key] for item in items]
                if self._beaten(record, [_tighter(row, bound) for row, bound in zip(found, quick, strict=True)]):
                    return
        alike = machine.search_hash == machine.hash
        items = self.items(machine, machine.search_hash, MAP if alike else MAP_FREE, load.different)
        yield items
        record.searches = [item.key for item in items]
        record.keys = list(record.searches)
        if not alike:
            yield self._evaluations(record)
        self._judge(record)

    def _go_on(self, steps: Iterator[list[Item]]) -> None:
        """Go on with a design until it waits for work, each piece of which is asked for once."""
        for items in steps:
            pending = {item.key for item in items if not self.is_finished(item)}
            for item in items:
                if item.key in pending:
                    if item.key not in self.awaited:
                        self.queue.append(item)
                    self.awaited.setdefault(item.key, []).append((steps, pending))
            if pending:
                return

    def _quick(self, machine: Machine, load: Load) -> list[Bound]:
        """Compulsory traffic and compute bound of each different layer; of one that the model refuses none is known."""
        found = []
        for layer in load.different:
            limits = Limits(0.0, 0)
            with suppress(AccelsimError):
                limits = layer_limits(machine.architecture, self.plan.einsums[layer])
            found.append(Bound(limits.energy_pj * (1 - 1e-9), limits.cycles))
        return found

    def _beaten(self, record: store.Record, bounds: list[Bound]) -> bool:
        """Prune a design if a finished one of an earlier wave dominates what its bounds allow."""
        machine, load = record.needs
        record.bounds = _spread(load, bounds)
        least = store.point(self.sweep, store.total(load.weights, machine, record.bounds))
        by = store.beaten(least, self.fronts[max(0, record.wave - 1)])
        if by is None:
            return False
        said = ", ".join(f"{name} {value:.6g}" for name, value in zip(self.sweep.objectives, by, strict=True))
        self._end(record, "pruned", f"a finished design has {said}")
        return True

    def _evaluations(self, record: store.Record) -> list[Item]:
        """Evaluate mappings that were found without bandwidths."""
        machine, load = record.needs
        items = []
        for number, item in enumerate(self.items(machine, machine.hash, EVALUATE, load.different)):
            search = self.store.rows[record.searches[number]]
            if search["status"] == "mapped":
                record.keys[number] = item.key
                items.append(replace(item, mapping=search["mapping"]))
        return items

    def _judge(self, record: store.Record) -> None:
        machine, load = record.needs
        rows = [self.store.rows[key] for key in record.keys]
        for row, layer in zip(rows, load.different, strict=True):
            if row["status"] != "mapped":
                self._end(record, row["status"], f"{self.plan.einsums[layer].name}: {row['reason']}")
                return
        costs = [Bound(float(row["energy_pj"]), float(row["cycles"])) for row in rows]
        record.totals = store.total(load.weights, machine, _spread(load, costs))
        over = (record.totals.power_w or 0.0) > self.sweep.most_power_w
        self._end(record, "over_power" if over else "mapped", f"{record.totals.power_w:.6g} W" if over else "")

    def _end(self, record: store.Record, status: str, reason: str = "") -> None:
        record.status, record.reason = status, reason
        record.machine = None
        self.done += 1
        self.pruned += status == "pruned"

    def _take(self, rows: Sequence[WorkRow]) -> None:
        """Keep results, and go on with the designs that waited for them."""
        for row in self.keep(rows):
            for steps, pending in self.awaited.pop(row["key"], []):
                pending.discard(row["key"])
                if not pending:
                    self._go_on(steps)

    def _close_waves(self, strategy: Listed | Optuna) -> None:
        """Tell the strategy of waves that are finished, in their order."""
        while self.closed < len(self.waves) and all(r.status != "running" for r in self.waves[self.closed]):
            wave = self.waves[self.closed]
            values: list[Values] = [
                store.point(self.sweep, r.totals) if r.status == "mapped" and r.totals else None for r in wave
            ]
            strategy.tell([record.design for record in wave], values)
            points = dict(enumerate([*self.fronts[-1], *(value for value in values if value is not None)]))
            self.fronts.append([points[number] for number in sorted(store.front(points))])
            self.closed += 1


def _spread(load: Load, of_different: Sequence[Bound]) -> list[Bound]:
    """Costs of all layers from those of the different ones."""
    return [of_different[layer] for layer in load.layer_of]


def _tighter(row: WorkRow, quick: Bound) -> Bound:
    """The larger one of two bounds of each cost; that of a layer without a valid mapping says nothing."""
    if row["status"] != "bounded" or not math.isfinite(row["energy_pj"]):
        return quick
    return Bound(max(float(row["energy_pj"]), quick.energy_pj), max(math.ceil(float(row["cycles"])), quick.cycles))
