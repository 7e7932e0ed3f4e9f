"""Map networks: each layer optimally, layers fused, layers on the cores of a system; and `map`, which maps all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.api.asked import Asked, whole, words
from accelsim.api.layers import LayerResult, search_layer, search_sparse
from accelsim.api.mapping import map_problem
from accelsim.api.network_results import FusionResult, NetworkResult, SystemResult, layer_files_of, layer_folders
from accelsim.api.problem import (
    MappingProblem,
    apart,
    convert_foreign,
    find_layer,
    foreign_files,
    is_gpu,
    is_system,
    params_of,
    read_problem,
    say_dense,
)
from accelsim.inputs import library
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import AccelsimError, NoValidMappingError
from accelsim.inputs.params import check_overrides
from accelsim.inputs.workload import Einsum, Workload
from accelsim.inputs.workload_reader import load_workload
from accelsim.results import write_directory
from accelsim.results.network import map_layers
from accelsim.search.result import SearchResult
from accelsim.search.stopping import OnProgress
from accelsim.search.stopping import asked as signalled

if TYPE_CHECKING:
    from accelsim.api.gpus import KernelsResult


def map(  # what its users call it
    arch: Any,
    workload: Any = None,
    *,
    layer: str | None = None,
    params: Mapping[str, Any] | None = None,
    constraints: Any = None,
    objective: str = "energy",
    require: str | Sequence[str] = (),
    mapspace: str = "auto",
    factors: str | Sequence[str] = "auto",
    top: int | float | str = 1,
    sample: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    jobs: int | None = None,
    cache: bool = True,
    all_layers: bool = False,
    inputs: Any = None,
    on_progress: OnProgress | None = None,
) -> LayerResult | NetworkResult | SystemResult | KernelsResult:
    """Find the optimal mapping of a layer, or of each layer of a network, with a proof of optimality.

    Parameters
    ----------
    arch : str, path, dict or Architecture
        An architecture: the name of one that ships (`accelsim list arch`), a path, YAML text of several lines, a dict
        of what such a file holds, or a loaded one. Also a system of cores, a GPU of the catalogue, or files of another
        tool: a list of them or their folder, which may hold the workload too.
    workload : str, path, dict, Workload, layer or torch.nn.Module
        A layer or a network, named in the same ways; also an ONNX model, a StableHLO module, a
        `config.json` of Hugging Face, or a torch module with `inputs`.
    layer : str, optional
        Map this layer of the network only.
    params : dict, optional
        Values of parameters of the files, such as `{"glb": "216 KiB", "batch": 4}`; each must be one of some file.
    constraints : str, path, dict or Constraints, optional
        What a mapping must look like besides being valid; `accelsim.constraints` writes such a dict.
    objective : str
        `energy` (default), `cycles`, `offchip_words`, `edp`, a product such as `energy^2*cycles`, or a weighted sum
        such as `energy + 0.5*cycles`, with energy in pJ. A system takes `energy`, `latency` or `throughput`.
    require : str or list of str, optional
        Limits on the cost of each layer, such as `cycles <= 2e6` or `energy <= 3 uJ`.
    mapspace : {"auto", "even", "uneven"}
        `even`: the tensors of a level are tiled at one loop. `auto`: in uneven mappings each at its own, too; these are
        searched for a few seconds, or as long as `time_limit` allows. `uneven`: until proved.
    factors : str or list of str
        `perfect`: loop bounds divide the dimensions. `auto`: loops may leave remainders, too, and bounds of windows may
        be rounded up; these are searched for a few seconds, or as long as `time_limit` allows. `imperfect`,
        `imperfect:M,K`: loops over all or some dimensions may leave remainders, in even mappings unless `mapspace` is
        `uneven`; until proved. `padded`, `padded:P`, `padded:P=60`: bounds may be rounded up; padded points are
        computed. Several are joined by `+`.
    top : int, float or str
        List the mappings of the best N values, or all within a share of the optimum, such as `0.01` or `"1%"`.
    sample : int, optional
        Draw so many mappings at random instead of the exact search, which proves nothing; `seed` is that of the draws.
    time_limit : float, optional
        Stop the search of a layer after so many seconds, with the best mapping so far and its gap.
    memory_limit : int or str, optional
        Memory of the search's tables [B], or such as `"500 MiB"`; default: 768 MiB.
    jobs : int, optional
        Threads; default: all cores. Without a time limit the result does not depend on it.
    cache : bool
        Take proved answers from the user's cache, and keep new ones there.
    all_layers : bool
        Of a network, also count layers that do not multiply and add, such as poolings: each point as a MAC.
    on_progress : callable, optional
        Called with a `Progress` a few times a second; raising `accelsim.Stop` ends the search with the best so far.

    Returns
    -------
    LayerResult
        For one layer.
    NetworkResult
        For several.
    SystemResult, KernelsResult
        On a system of cores; on a GPU.

    Raises
    ------
    NoValidMappingError
        If no mapping of a layer is valid; says which rule removed how many. A network keeps its other layers.
    InputError
        With every mistake in the files, each with its place.
    AccelsimError
        If a name, an objective or an option is unknown.
    TypeError
        If an argument is of a kind that is not accepted.

    Examples
    --------
    >>> import accelsim
    >>> found = accelsim.map("two_level", "conv1d", params={"buffer": "32 B"})
    >>> found.energy_pj, found.cycles, found.certificate.proved
    (4322.46288, 24, True)
    """
    asked = Asked(objective, mapspace, factors, top, sample, seed, time_limit, memory_limit, jobs, cache, on_progress)
    other = {"constraints": constraints, "require": require or None, "inputs": inputs, "sample": sample}
    other |= {"top": None if top == 1 else top, "memory_limit": memory_limit, "all_layers": all_layers or None}
    if is_gpu(arch):
        from accelsim.api.gpus import map_kernels

        usual = (("objective", objective, "energy"), ("mapspace", mapspace, "auto"), ("factors", factors, "auto"))
        other |= {"time_limit": time_limit, **{name: value for name, value, its in usual if value != its}}
        _refuse(other, "not for a GPU: accelsim.gpu.map has the options for GPUs")
        return map_kernels(arch, workload, layer=layer, params=params)
    if is_system(arch, (workload,), params):
        _refuse(other, "not for a system of cores, whose layers are mapped whole and assigned")
        return map_system(
            arch, workload, layer=layer, params=params, objective=objective, mapspace=mapspace, factors=factors,
            time_limit=time_limit, jobs=jobs, cache=cache, on_progress=on_progress,
        )  # fmt: skip
    given = {"layer": layer, "params": params, "constraints": constraints, "require": require, "inputs": inputs}
    problem = read_problem(arch, workload, **given, all_layers=all_layers)
    problem.say_notes()
    return network_of(problem, asked) if problem.layer is None else map_problem(problem, asked)


def _refuse(given: Mapping[str, Any], why: str) -> None:
    """Raise AccelsimError where an argument is given that means nothing here."""
    for name, value in given.items():
        if value is not None:
            raise AccelsimError(f"{name}: {why}")


def map_network(
    arch: Any,
    workload: Any,
    *,
    params: Mapping[str, Any] | None = None,
    constraints: Any = None,
    objective: str = "energy",
    require: str | Sequence[str] = (),
    mapspace: str = "auto",
    factors: str | Sequence[str] = "auto",
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    jobs: int | None = None,
    cache: bool = True,
    all_layers: bool = False,
    inputs: Any = None,
    output: str | PathLike[str] | None = None,
    on_progress: OnProgress | None = None,
) -> NetworkResult:
    """Find the optimal mapping of each layer of a network.

    Parameters
    ----------
    output : str or path, optional
        A folder into which each layer is written as soon as it is mapped.
    arch, workload, params, constraints, objective, require, mapspace, factors, time_limit, memory_limit, jobs, cache, \
all_layers, inputs, on_progress
        As for `accelsim.map`.

    Examples
    --------
    >>> import accelsim
    >>> net = accelsim.map_network("eyeriss", "alexnet", mapspace="even", factors="perfect")
    >>> f"{net.energy_pj * 1e-9:.2f} mJ, {len(net)} layers, {net['conv1'].certificate.proved}"
    '16.57 mJ, 8 layers, True'
    """
    asked = Asked(objective, mapspace, factors, 1, None, 0, time_limit, memory_limit, jobs, cache, on_progress)
    given = {"params": params, "constraints": constraints, "require": require, "inputs": inputs}
    problem = replace(read_problem(arch, workload, **given, all_layers=all_layers), layer=None)
    problem.say_notes()
    return network_of(problem, asked, output)


def network_of(problem: MappingProblem, asked: Asked, output: str | PathLike[str] | None = None) -> NetworkResult:
    """Map each layer of a problem, equal ones once; one that has no valid mapping does not stop the others."""
    layers = problem.workload.layers
    if asked.listed and len(layers) > 1:
        raise AccelsimError("top: lists mappings of one layer; say which with layer (--layer)")
    problem.check_constraints()

    def search(einsum: Einsum, number: int) -> SearchResult:
        return search_layer(problem, einsum, asked, f"{einsum.name} ({number}/{len(layers)})")

    best = partial(search_sparse, problem, asked=asked)
    found = NetworkResult(problem, [], asked, "exhausted")
    folders = layer_folders(layers)
    with suppress(KeyboardInterrupt):
        for outcome in map_layers(problem.architecture, layers, asked.options, problem.constraints, search, best):
            found.outcomes.append(outcome)
            if output is not None and outcome.search is not None and found.failed is None:
                try:
                    write_directory(
                        Path(output) / folders[outcome.einsum.name], layer_files_of(problem, outcome, asked)
                    )
                except OSError as error:
                    found.failed = error
    cut = any(each.search and each.search.stop == "interrupted" for each in found.outcomes)
    if cut or len(found.outcomes) < len(layers) or signalled():
        found.stopped_by = "interrupted"
    return found


def fuse(
    arch: Any,
    workload: Any,
    *,
    params: Mapping[str, Any] | None = None,
    constraints: Any = None,
    objective: str = "energy",
    chain: Sequence[str] = (),
    longest: int | None = None,
    overlap: bool = False,
    mapspace: str = "auto",
    factors: str | Sequence[str] = "auto",
    time_limit: float | None = None,
    jobs: int | None = None,
    cache: bool = True,
    on_progress: OnProgress | None = None,
) -> FusionResult:
    """Find which layers of a network to fuse, at which level and with which tiles.

    Parameters
    ----------
    objective : str
        `energy`, `cycles`, `edp`, or a product such as `energy^2*cycles`, of the sums over the network.
    chain : list of str, optional
        Fuse these layers only, in an order in which they run; each reads one before it.
    longest : int, optional
        Layers of a fused group, at most.
    overlap : bool
        Let the layers of a group run at the same time, as a pipeline of its steps.
    mapspace, factors
        As for `accelsim.map`, of layers that are not fused; parts of fused groups have even mappings with perfect
        factors.
    arch, workload, params, constraints, time_limit, jobs, cache, on_progress
        As for `accelsim.map`.

    Returns
    -------
    FusionResult
        Never worse than every layer by itself.

    Examples
    --------
    >>> import accelsim
    >>> chain = ["b5_expand", "b5_depthwise", "b5_project"]
    >>> fused = accelsim.fuse("eyeriss", "mobilenet_v2", chain=chain, mapspace="even", factors="perfect")
    >>> [segment.fused is not None for segment in fused.segments]
    [True]
    """
    whole("longest", longest)
    asked = Asked(objective, mapspace, factors, 1, None, 0, time_limit, None, jobs, cache, on_progress)
    problem = read_problem(arch, workload, params=params, constraints=constraints)
    problem.say_notes()
    return fuse_problem(problem, asked, chain=words("chain", chain), longest=longest, overlap=overlap)


def fuse_problem(problem: MappingProblem, asked: Asked, **how: Any) -> FusionResult:
    """Find which layers of a problem to fuse; `how`: `chain`, `longest` and `overlap` of `fuse`."""
    from accelsim.fusion import fuse

    say_dense(problem.architecture)
    problem.check_constraints()
    found = fuse(
        problem.architecture, problem.workload, objective=asked.objective, seconds=asked.time_limit, cache=asked.store,
        constraints={each.name: problem.constraints(each) for each in problem.workload.layers},
        options=asked.options, workers=asked.jobs, on_progress=asked.on_progress, **how,
    )  # fmt: skip
    return FusionResult(problem, found, asked.time_limit)


def map_system(
    arch: Any,
    workload: Any,
    *,
    layer: str | None = None,
    params: Mapping[str, Any] | None = None,
    objective: str = "energy",
    mapspace: str = "auto",
    factors: str | Sequence[str] = "auto",
    time_limit: float | None = None,
    jobs: int | None = None,
    cache: bool = True,
    on_progress: OnProgress | None = None,
    more: Sequence[str] = (),
) -> SystemResult:
    """Map each layer of a network on each core of a system that can run it, and assign layers to cores.

    Parameters
    ----------
    arch : str, path or dict
        A system of cores.
    objective : {"energy", "latency", "throughput"}
    more : sequence of str
        More files of another tool, read with the other two.
    workload, layer, params, mapspace, factors, time_limit, jobs, cache, on_progress
        As for `accelsim.map`; `time_limit` is for each layer on each core.

    Raises
    ------
    NoValidMappingError
        If no core can run some layer.

    Examples
    --------
    >>> import accelsim
    >>> found = accelsim.map_system("systolic_vector", "conv1d")
    >>> [row["runs"] for row in found.schedule]
    [{'array': 1}]
    """
    from accelsim.designs.soc import load_system, map_on_system

    asked = Asked("energy", mapspace, factors, 1, None, 0, time_limit, None, jobs, cache, on_progress)
    arch, beside = foreign_files(arch)
    path = str(library.find(arch, "systems") or arch)
    names = (path, str(workload)) if isinstance(workload, str | PathLike) else (path,)
    names = tuple(dict.fromkeys([*names, *more, *beside]))
    overrides, variables = apart(params_of(params), names)
    converted = convert_foreign(names, variables)
    if others := [name for name in more if name not in converted]:
        raise AccelsimError(f"{others[0]}: a system takes one workload, and finds the core of each layer itself")
    read: Any = converted.get(path, {}).get("workload", workload)
    if isinstance(read, str | PathLike):
        read = library.resolve(str(read), "workloads")
        check_overrides(overrides, [read])
    network = read if isinstance(read, Workload) else load_workload(read, overrides)
    one = find_layer(network, layer, str(workload))
    if one is not None:
        network = replace(network, layers=(one,), edges=())
    system = load_system(converted.get(path, {}).get("system", path))
    for core in system.cores:
        if isinstance(core.machine, Architecture):
            say_dense(core.machine)
    found = map_on_system(
        system, network, objective, options=asked.options, budget=asked.budget, cache=asked.store, workers=jobs,
        on_progress=asked.say,
    )  # fmt: skip
    return SystemResult(found)


def mapped_layers(problem: MappingProblem, asked: Asked) -> NetworkResult:
    """Map each layer of a problem; one without a valid mapping, or an interrupt, is the end."""
    found = network_of(problem, asked)
    for name, why in found.unmapped.items():
        raise NoValidMappingError(f"{name}: {why}")
    if found.stopped_by == "interrupted":
        raise KeyboardInterrupt
    return found
