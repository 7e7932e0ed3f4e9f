"""The command `roofline`: where layers stand under the roofs of compute and memory, on a machine or a GPU."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accelsim.cli.printing import DONE, answer, write_figure
from accelsim.inputs.errors import AccelsimError, NoValidMapping
from accelsim.search.stopping import asked

if TYPE_CHECKING:
    from accelsim.inputs.architecture import Architecture
    from accelsim.model.limits import Stand


def roofline_command(arguments: argparse.Namespace) -> int:
    """Show where the layers of workloads stand under the roofline of a machine."""
    from accelsim.cli.inputs import is_gpu
    from accelsim.model.limits import peak_macs_per_cycle
    from accelsim.show.report.tables import machine_roofline_report, port_rows, stand_row

    if is_gpu(arguments.arch):
        if arguments.objective or arguments.constraints:
            name = "--objective" if arguments.objective else "--constraints"
            raise AccelsimError(f"{name}: {arguments.arch} is a GPU, whose fastest kernels are shown")
        from accelsim.cli.gpus import gpu_roofline

        return gpu_roofline(arguments)
    if arguments.mig or arguments.calibration or arguments.dtype:
        name = "--mig" if arguments.mig else "--calibration" if arguments.calibration else "--dtype"
        raise AccelsimError(f"{name}: {arguments.arch} is no GPU; `accelsim gpus` shows those that ship")
    objective = "energy" if arguments.objective is None else arguments.objective
    machine, stands = _stands(arguments, objective)
    if arguments.output:
        from accelsim.show.plots.throughput import plot_machine_roofline

        write_figure(arguments.output, plot_machine_roofline(machine, stands))
    peak = peak_macs_per_cycle(machine)
    document = {"architecture": machine.name, "objective": objective, "peak_macs_per_cycle": peak}
    document |= {"ports": port_rows(machine), "layers": [stand_row(stand, peak) for stand in stands]}
    answer(arguments, document, lambda: machine_roofline_report(machine, stands, objective), arguments.output)
    return DONE


def _stands(arguments: argparse.Namespace, objective: str) -> tuple[Architecture, list[Stand]]:
    """Map the layers of each workload, and say where they stand."""
    from accelsim.cli.inputs import read_inputs
    from accelsim.cli.mapping import map_layers
    from accelsim.model.limits import stand
    from accelsim.results.cache import MapOptions

    every = [
        read_inputs(argparse.Namespace(**{**vars(arguments), "workload": name, "layer": None}))
        for name in arguments.workloads
    ]
    found: list[Stand] = []
    for inputs in every:
        outcomes = list(map_layers(inputs, arguments, MapOptions(objective=objective)))
        for outcome in outcomes:
            if outcome.search is None:
                raise NoValidMapping(f"{outcome.einsum.name}: {outcome.why_not}")
            found.append(stand(inputs.architecture, outcome.einsum, outcome.search.best))
        if len(outcomes) < len(inputs.workload.layers) or asked():
            raise KeyboardInterrupt
    return every[0].architecture, found
