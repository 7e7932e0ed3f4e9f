"""What each key of the input files means, with unit and default: for the schemas, and for the page of all keys.

Keys are dotted as in messages, `[]` for the items of a list and `*` for a name of the user's own. That these are the
keys of the schemas, no more and no fewer, is tested.
"""

from __future__ import annotations

from accelsim.inputs.architecture import LEVEL_ATTRIBUTES
from accelsim.inputs.fields import About

_SIZE, _RATE, _AREA = "bit, B, KiB, MB, …", "GB/s, bit/cycle, B/cycle, words/cycle, …", "um2, mm2"
_ENERGY = "pJ, fJ, nJ, pJ/bit, …"
_BY_ROLE = {"Weights": "of weights", "Inputs": "of inputs", "Outputs": "of outputs"}


def _roles(key: str, what: str, default: str, unit: str = "") -> dict[str, About]:
    return {f"{key}.{role}": About(f"{what} {words}", default, unit) for role, words in _BY_ROLE.items()}


def _energies(key: str) -> dict[str, About]:
    found = {}
    for action, what, default in (
        ("read", "an access that reads", "from the energy table"),
        ("write", "an access that fills", "from the energy table"),
        ("update", "an access that takes a result from below", "as `write`"),
    ):
        found[f"{key}.{action}"] = About(f"energy of {what}; one value, or one by role", default, _ENERGY)
        found |= _roles(f"{key}.{action}", f"energy of {what},", default, _ENERGY)
    found[f"{key}.leak"] = About("energy that leaks in a cycle, of one instance", "none", "pJ")
    return found


_PARAMS = About(
    "values that `$name` uses anywhere in the file, and that `--set name=value` overrides; groups nest", "none"
)
_AXIS = {
    "size": About("instances along the axis"),
    "multicast": About("one read serves many children along the axis", "that of the fanout"),
    "spatial_reduction": About("many children's partial sums become one update along the axis", "that of the fanout"),
}
_COMPONENT = {
    "class": About("component class in the energy table"),
    "attributes": About("free attributes that choose the entry of the energy table, such as `{type: LPDDR4}`", "none"),
    "technology": About("node of this component", "that of the architecture", "nm"),
}


def _below(key: str, several: dict[str, About]) -> dict[str, About]:
    return {f"{key}.{name}": about for name, about in several.items()}


_LEVEL = "architecture.levels[]"
_ARCHITECTURE = {
    "params": _PARAMS,
    "architecture": About("a machine: storage levels, outermost first, and compute units"),
    "architecture.name": About("its name"),
    "architecture.technology": About("node of all components that name none", "none", "nm"),
    "architecture.clock": About("clock; without one there are cycles, but no seconds and watts", "none", "MHz, GHz"),
    "architecture.energy_table": About(
        "where energies come from: a shipped table, a path, `components`, `hwcomponents`, or an Accelergy ERT and ART",
        "every energy is given",
    ),
    "architecture.energy_table.ert": About("Accelergy's energy reference table, a path"),
    "architecture.energy_table.art": About("Accelergy's area reference table, a path", "none"),
    "architecture.energy_table.rename": About("names of Accelergy's components for names of levels", "the same names"),
    "architecture.levels": About("storage levels, outermost first"),
    f"{_LEVEL}.name": About("its name, different from all others"),
    **_below(_LEVEL, _COMPONENT),
    f"{_LEVEL}.size": About(
        "capacity of one instance: shared, or by role", "required; unlimited for the first level", _SIZE
    ),
    **_roles(f"{_LEVEL}.size", "capacity of one instance for the partition", "bypassed", _SIZE),
    f"{_LEVEL}.word": About("storage granule: an element of b bits takes ceil(b / word) words", unit=_SIZE),
    **{f"{_LEVEL}.{name}": key.about for name, key in LEVEL_ATTRIBUTES.items() if key.about},
    f"{_LEVEL}.burst": About(
        "what the first level moves at least at a time; in reports, not in the cycles", "none", _SIZE
    ),
    f"{_LEVEL}.bandwidth": About("of one instance, shared by reads and writes", "unlimited", _RATE),
    f"{_LEVEL}.read_bandwidth": About("of one instance, for reads", "unlimited", _RATE),
    f"{_LEVEL}.write_bandwidth": About("of one instance, for fills and updates", "unlimited", _RATE),
    f"{_LEVEL}.efficiency": About("share of the bandwidth that is reached", "1", "0 to 1"),
    f"{_LEVEL}.keep": About("roles that are always stored here", "free"),
    f"{_LEVEL}.bypass": About("roles that are never stored here", "free"),
    f"{_LEVEL}.fanout": About("instances of the next level below one instance", "1 x 1"),
    f"{_LEVEL}.fanout.x": About("columns: a count, or a mapping", "1"),
    **_below(f"{_LEVEL}.fanout.x", _AXIS),
    f"{_LEVEL}.fanout.y": About("rows: a count, or a mapping", "1"),
    **_below(f"{_LEVEL}.fanout.y", _AXIS),
    f"{_LEVEL}.fanout.multicast": About("one read serves many children", "true"),
    f"{_LEVEL}.fanout.spatial_reduction": About("many children's partial sums become one update", "true"),
    f"{_LEVEL}.fanout.systolic": About("the fanout is a systolic array of rows (y) and columns (x)", "none"),
    f"{_LEVEL}.fanout.systolic.stationary": About("role that stays in the PEs"),
    f"{_LEVEL}.fanout.systolic.double_buffered": About("the next tile is loaded while this one computes", "false"),
    **_below(
        f"{_LEVEL}.fanout", {**_COMPONENT, "class": About("component class of the network, such as a wire", "none")}
    ),
    f"{_LEVEL}.fanout.energy": About("energies of the network", "free"),
    f"{_LEVEL}.fanout.energy.transfer": About("energy of an element to or from one child", "free", _ENERGY),
    f"{_LEVEL}.fanout.energy.source": About("where the energy comes from", "file and line"),
    f"{_LEVEL}.compression": About("share of the raw bits that is stored and moved, by role", "1: none", "0 to 1"),
    **_roles(f"{_LEVEL}.compression", "share of the raw bits", "1: none", "0 to 1"),
    f"{_LEVEL}.dma": About("the engine that moves the tiles of this level one by one", "none"),
    f"{_LEVEL}.dma.issue": About("until it can move the next tile, at least", "0", "cycles"),
    f"{_LEVEL}.dma.row": About("adjacent data that it moves at a time", "no time", _SIZE),
    f"{_LEVEL}.dma.row_cycles": About("what a row takes, by role", "0", "cycles"),
    **_roles(f"{_LEVEL}.dma.row_cycles", "what a row takes", "0", "cycles"),
    f"{_LEVEL}.dma.line": About("a line of the memory behind it", "no time", _SIZE),
    f"{_LEVEL}.dma.line_cycles": About("what each line takes besides, by role", "0", "cycles"),
    **_roles(f"{_LEVEL}.dma.line_cycles", "what each line takes besides", "0", "cycles"),
    f"{_LEVEL}.dma.along": About("dimension along which data is adjacent, by role", "the last rank"),
    **_roles(f"{_LEVEL}.dma.along", "dimension along which it is adjacent", "the last rank"),
    f"{_LEVEL}.dma.overlap": About("the next tile moves while this one computes", "true"),
    f"{_LEVEL}.energy": About("energies of an access", "from the energy table"),
    **_energies(f"{_LEVEL}.energy"),
    f"{_LEVEL}.energy.source": About("where the energies come from", "file and line"),
    f"{_LEVEL}.area": About("area of one instance", "from the energy table, or unknown", _AREA),
    "architecture.compute": About("the compute units, below the last level"),
    "architecture.compute.name": About("its name", "MAC"),
    **_below("architecture.compute", _COMPONENT),
    "architecture.compute.energy": About("energy of a multiply-accumulate", "from the energy table"),
    "architecture.compute.energy.compute": About("energy of a multiply-accumulate", "from the energy table", _ENERGY),
    "architecture.compute.energy.source": About("where the energy comes from", "file and line"),
    "architecture.compute.area": About("area of one unit", "from the energy table, or unknown", _AREA),
    "architecture.compute.cycles_per_mac": About("cycles of a multiply-accumulate", "1", "cycles"),
}

_PAIR = "one integer, or `[h, w]`"
_GPU = {
    "params": _PARAMS,
    "gpu": About("a GPU as its data sheet has it"),
    "gpu.name": About("its name"),
    "gpu.chip": About("its die, such as `GH100`"),
    "gpu.generation": About("its architecture"),
    "gpu.compute_capability": About("of CUDA, such as `9.0`"),
    "gpu.aliases": About("shorter names that commands find it by", "none"),
    "gpu.devices": About("names that drivers and tables of measurements call it", "none"),
    "gpu.sms": About("streaming multiprocessors that are enabled"),
    "gpu.clock": About("its clocks"),
    "gpu.clock.boost": About(
        "at which kernels run until power limits them, and the peaks of FP64, FP32 and vector formats hold",
        unit="MHz, GHz",
    ),
    "gpu.clock.tensor": About("at which the peaks of the other formats hold", unit="MHz, GHz"),
    "gpu.operations_per_sm_cycle": About(
        "dense, of an SM, by number format; a multiply-add is two. A format that is not here is not computed"
    ),
    "gpu.peak_tflops": About("dense peaks that the data sheet prints, by number format", unit="TFLOPS"),
    "gpu.peak_tflops_sparse": About("peaks with 2:4 sparse weights, by number format", "none", "TFLOPS"),
    "gpu.mma": About(
        "shape of a tensor-core instruction by number format, such as `m16n8k16`; from m64 on its operands come from "
        "shared memory. A format that is not here is computed without tensor cores",
        "no tensor cores",
    ),
    "gpu.memory": About("device memory"),
    "gpu.memory.size": About("capacity", unit=_SIZE),
    "gpu.memory.type": About("`HBM…`, `GDDR…` or `LPDDR…`, which says its energy"),
    "gpu.memory.bandwidth": About("peak", unit="GB/s, TB/s"),
    "gpu.l2": About("level-2 cache"),
    "gpu.l2.size": About("capacity", unit=_SIZE),
    "gpu.l2.bandwidth": About("of reads, all SMs together", unit="GB/s, TB/s"),
    "gpu.sm": About("what one SM has"),
    "gpu.sm.smem": About("shared memory that its blocks may take", unit=_SIZE),
    "gpu.sm.smem_per_block": About("shared memory that one block may take", unit=_SIZE),
    "gpu.sm.registers": About("32-bit registers"),
    "gpu.sm.warps": About("most warps at once"),
    "gpu.sm.blocks": About("most blocks at once"),
    "gpu.nvlink": About("of one GPU, both directions together", "none", "GB/s"),
    "gpu.tdp": About("power limit of the board", unit="W"),
    "gpu.mig": About("slices by the names of their MIG profiles", "none"),
    "gpu.mig.*.sms": About("SMs of the slice"),
    "gpu.mig.*.memory_eighths": About("eighths of memory, memory bandwidth and L2"),
    "gpu.sources": About("where figures come from, by key, `all` for the others"),
    "gpu.unsure": About("figures that no data sheet confirms, by key, and why", "none"),
}
_FORMS = {
    "conv": About("a convolution", "one of `conv`, `gemm`, `einsum`"),
    "conv.N": About("batch", "1"),
    "conv.K": About("output channels, of all groups"),
    "conv.C": About("input channels, of all groups"),
    "conv.P": About("output rows", "from `H`"),
    "conv.Q": About("output columns", "from `W`"),
    "conv.H": About("input rows without padding", "from `P`"),
    "conv.W": About("input columns without padding", "from `Q`"),
    "conv.R": About("rows of the kernel"),
    "conv.S": About("columns of the kernel"),
    "conv.stride": About(f"stride: {_PAIR}", "1"),
    "conv.dilation": About(f"dilation: {_PAIR}", "1"),
    "conv.padding": About(f"padding on each side: {_PAIR}", "0"),
    "conv.groups": About("groups; as many as channels: depthwise", "1"),
    "gemm": About("`Outputs[M,N] = Inputs[M,K] x Weights[K,N]`", "one of `conv`, `gemm`, `einsum`"),
    "gemm.B": About("batch dimension", "none"),
    "gemm.H": About("second batch dimension, such as heads", "none"),
    "gemm.M": About("rows of the outputs"),
    "gemm.N": About("columns of the outputs"),
    "gemm.K": About("the reduction"),
    "gemm.pass": About("`forward`, `input_gradient` or `weight_gradient` of a linear layer", "forward"),
    "einsum": About("any Einsum", "one of `conv`, `gemm`, `einsum`"),
    "einsum.dims": About("bounds of the dimensions"),
    "einsum.tensors": About("ranks of each tensor, such as `[C, 2*P + R]`"),
    "einsum.output": About("the tensor that is written"),
    "einsum.roles": About("role of each tensor whose name is none: `Weights`, `Inputs`, `Outputs`", "Inputs"),
}
_LAYER = {
    **_FORMS,
    "repeat": About("how often the network has this layer", "1"),
    "bits": About("bits of a word, by role or tensor, and `psums` of partial sums", "16", "bit"),
    "whole": About("dimensions along which all words are needed at once, such as the keys of a soft-max", "none"),
}
_WORKLOAD = {
    "params": _PARAMS,
    "workload": About("one Einsum, or a network of layers"),
    "workload.name": About("its name"),
    **_below("workload", _LAYER),
    "workload.layers": About("layers in the order in which they run", "one Einsum"),
    "workload.layers[].name": About("its name, different from all others"),
    "workload.layers[].from": About("layers whose outputs its inputs are, by tensor where it has several", "none"),
    **_below("workload.layers[]", _LAYER),
    "workload.yields": About("what one run gives, such as `{frames: $batch}`", "none"),
}
_MAPPING = {
    "params": _PARAMS,
    "mapping": About("one mapping of an Einsum onto a machine"),
    "mapping.imperfect": About("dimensions whose loops may leave remainders", "none"),
    "mapping.padded": About("larger bounds, such as `[P=56]`", "none"),
    "mapping.levels": About("what each level does, outermost first; one may stand several times (uneven)"),
    "mapping.levels[].level": About("name of the level"),
    "mapping.levels[].keep": About("tensors that it keeps", "where the machine leaves no choice"),
    "mapping.levels[].temporal": About("its loops in time, outermost first, such as `[K=4, C=2]`", "none"),
    "mapping.levels[].spatial": About("its loops over the fanout", "none"),
    "mapping.levels[].spatial.x": About("loops over the columns", "none"),
    "mapping.levels[].spatial.y": About("loops over the rows", "none"),
}
_BLOCK = {
    "factors": About("bounds of loops: `R=1`, `K<=8`, `C>=2`, all of it (`R=all`), or what is left (`P=rest`)", "any"),
    "only": About("the dimensions that may have a loop here", "all"),
    "order": About("dimensions outermost first, `...` for all others", "any"),
}
_AXIS_BLOCK = {key: _BLOCK[key] for key in ("factors", "only")}
_CONSTRAINTS = {
    "params": _PARAMS,
    "constraints": About("what all mappings that are looked at satisfy"),
    "constraints.min_utilization": About("least overall utilization", "0", "0 to 1"),
    "constraints.limits": About(
        "the most that a mapping may cost, such as `cycles <= 1.2e6`, `energy <= 3 uJ`", "none"
    ),
    "constraints.levels": About("what is asked of single levels", "nothing"),
    "constraints.levels[].level": About("name of the level"),
    "constraints.levels[].keep": About("tensors that it must keep", "free"),
    "constraints.levels[].bypass": About("tensors that it must not keep", "free"),
    "constraints.levels[].temporal": About("its loops in time", "any"),
    **_below("constraints.levels[].temporal", _BLOCK),
    "constraints.levels[].spatial": About("its loops over the fanout", "any"),
    "constraints.levels[].spatial.x": About("loops over the columns", "any"),
    **_below("constraints.levels[].spatial.x", _AXIS_BLOCK),
    "constraints.levels[].spatial.y": About("loops over the rows", "any"),
    **_below("constraints.levels[].spatial.y", _AXIS_BLOCK),
}
_ENTRY = "energy_table.entries[]"
_ENERGY_TABLE = {
    "params": _PARAMS,
    "energy_table": About("energies of components, by class and attributes"),
    "energy_table.name": About("its name"),
    "energy_table.entries": About("the entry with the most attributes that all match is used"),
    f"{_ENTRY}.class": About("component class"),
    f"{_ENTRY}.technology": About("node that the component must have", "any", "nm"),
    f"{_ENTRY}.attributes": About("what must equal the component's own: size, word, block_size, attributes", "none"),
    f"{_ENTRY}.energy": About("energies of an access"),
    **_energies(f"{_ENTRY}.energy"),
    f"{_ENTRY}.energy.compute": About("energy of a multiply-accumulate", "none", _ENERGY),
    f"{_ENTRY}.area": About("area of one instance", "unknown", _AREA),
    f"{_ENTRY}.source": About("where the entry comes from"),
}
_VALUES = "sweep.parameters.*"
_SWEEP = {
    "params": _PARAMS,
    "sweep": About("designs to explore"),
    "sweep.name": About("name of the sweep, its plots and its folder", "that of the file"),
    "sweep.architecture": About("a shipped name, or a path relative to the sweep file"),
    "sweep.set": About("parameters of the architecture that are the same in all designs", "none"),
    "sweep.workloads": About("names or paths of workloads, or mappings"),
    "sweep.workloads[].workload": About("name or path"),
    "sweep.workloads[].weight": About("how often it counts", "1"),
    "sweep.workloads[].layers": About("only these layers", "all"),
    "sweep.workloads[].set": About("its parameters that are the same in all designs", "none"),
    "sweep.parameters": About("parameters of the architecture or of workloads: a list of values each, or a range"),
    f"{_VALUES}.from": About("first value of a range", unit="that of the parameter"),
    f"{_VALUES}.to": About("largest value of a range", unit="that of the parameter"),
    f"{_VALUES}.step": About("what each value is larger than the one before", "`factor`", "that of the parameter"),
    f"{_VALUES}.factor": About("how many times each value is the one before", "`step`"),
    "sweep.conditions": About("only designs for which all hold, such as `pe.x * pe.y <= 256`", "none"),
    "sweep.area": About("area of a design as a formula of its parameters", "what the architecture tells", _AREA),
    "sweep.budgets": About("limits of area and power", "none"),
    "sweep.budgets.area": About("designs above it are not mapped", "none", _AREA),
    "sweep.budgets.power": About("designs above it are not on the front", "none", "mW, W"),
    "sweep.objectives": About("some of `energy`, `cycles`, `time`, `edp`, `power`, `area`", "energy, cycles"),
    "sweep.per": About("what totals are divided by: what each workload yields, such as `frames`", "a run"),
    "sweep.strategy": About("`grid`, `random` or `optuna`", "grid"),
    "sweep.designs": About("how many designs random and optuna look at", "required with them"),
    "sweep.seed": About("of random and optuna", "0"),
    "sweep.wave": About("designs that are decided together, where later ones depend on earlier ones", "16"),
    "sweep.prune": About("leave out designs that are proved to be beaten", "false"),
    "sweep.map": About("what the mapper is asked", "what suits the objectives"),
    "sweep.map.objective": About("what the mapper makes small, as `map --objective`", "what suits the objectives"),
    "sweep.map.uneven": About("levels may keep tensors at different loops", "false"),
    "sweep.map.imperfect": About("dimensions that may leave remainders, or `all`", "none"),
    "sweep.map.pad": About("dimensions whose bounds may be rounded up, or `all`", "none"),
    "sweep.map.seconds": About("limit of the search of each layer", "none", "s"),
    "sweep.map.constraints": About("a file of constraints for all layers", "none"),
}
ABOUT: dict[str, dict[str, About]] = {
    "architecture": _ARCHITECTURE,
    "gpu": _GPU,
    "workload": _WORKLOAD,
    "mapping": _MAPPING,
    "constraints": _CONSTRAINTS,
    "energy_table": _ENERGY_TABLE,
    "sweep": _SWEEP,
}
"""What each key of each kind of file means."""
