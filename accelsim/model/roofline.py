"""Rooflines: what each level's bandwidth allows, against MACs for each byte moved there.

Williams, Waterman and Patterson, CACM 52(4), 2009; a roof for each level: Yang, Kurth and Williams, CCPE 32(20), 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.limits import touched_words
from accelsim.model.result import Result


@dataclass(frozen=True, slots=True)
class Port:
    """Ports of all instances of a level together.

    Attributes
    ----------
    level : str
    direction : str
        `read`, `write`, or empty where both share the bandwidth.
    bytes_per_cycle : float
    """

    level: str
    direction: str
    bytes_per_cycle: float

    @property
    def name(self) -> str:
        """Level, and direction where there is one."""
        return f"{self.level} {self.direction}".rstrip()


@dataclass(frozen=True, slots=True)
class Stand:
    """Where a layer and its mapping stand under the roofline of a machine.

    Attributes
    ----------
    layer : str
    repeat : int
        How often the network has it.
    least, roof : float
        With each word moved once through the outermost level: MACs for each byte there, and the MACs in a cycle that
        peak and bandwidth of that level allow.
    moved, reached : float
        The same of the mapping: MACs for each byte at the outermost level, and MACs in a cycle.
    limit : str
        What limits the mapping: its bottleneck.
    """

    layer: str
    repeat: int
    least: float
    roof: float
    moved: float
    reached: float
    limit: str


def stand(architecture: Architecture, einsum: Einsum, result: Result) -> Stand:
    """Where a layer stands under the roofline of the outermost level, at best and with one mapping.

    Examples
    --------
    >>> from accelsim import load_architecture, load_workload, map_einsum
    >>> machine, layer = load_architecture("two_level"), load_workload("conv1d").layers[0]
    >>> found = stand(machine, layer, map_einsum(machine, layer).best)
    >>> round(found.least, 3), found.roof, round(found.moved, 3), found.reached, found.limit
    (0.571, 1.0, 0.571, 1.0, 'MAC')
    """
    outer = Port(architecture.levels[0].name, "", 0.0)
    allowed = [peak_macs_per_cycle(architecture)]
    for port in ports(architecture):
        least = least_bytes(architecture, einsum, port)
        if port.level == outer.level and least:
            allowed.append(einsum.macs / least * port.bytes_per_cycle)
    return Stand(
        layer=einsum.name,
        repeat=einsum.repeat,
        least=einsum.macs / least_bytes(architecture, einsum, outer),
        roof=min(allowed),
        moved=result.macs / bytes_moved(result, outer),
        reached=result.macs / result.cycles,
        limit=result.bottleneck,
    )


def least_bytes(architecture: Architecture, einsum: Einsum, port: Port) -> float:
    """Bytes that go through a port of the outermost level if each word of the layer moves once."""
    outer = architecture.levels[0]

    def moves(tensor: Tensor) -> bool:
        return port.direction in ("", "write" if tensor.output else "read")

    words = (touched_words(einsum, t) * outer.element_words(t) for t in einsum.tensors if moves(t))
    return float(sum(words)) * outer.word_bits / 8


def ports(architecture: Architecture) -> list[Port]:
    """Ports whose bandwidth is limited, outermost first."""
    found = []
    for index, level in enumerate(architecture.levels):
        rates = {"": level.bandwidth, "read": level.read_bandwidth, "write": level.write_bandwidth}
        for direction, rate in rates.items():
            if rate is not None:
                total = float(rate) * level.word_bits / 8 * architecture.instances(index)
                found.append(Port(level.name, direction, total))
    return found


def peak_macs_per_cycle(architecture: Architecture) -> float:
    """MACs that all compute units together can do in a cycle."""
    return architecture.macs / architecture.compute.cycles_per_mac


def bytes_moved(result: Result, port: Port) -> float:
    """Bytes that go through the ports of all instances of a level."""
    width = next(level.word_bits for level in result.levels if level.level == port.level)
    moved = 0.0
    for tensor in result.tensors:
        if tensor.level == port.level:
            read = tensor.total_reads if port.direction != "write" else 0
            written = tensor.total_fills + tensor.total_updates if port.direction != "read" else 0
            moved += float(tensor.storage_words(read + written, width))
    return moved * width / 8


def macs_per_byte(result: Result, port: Port) -> float | None:
    """Arithmetic intensity at a level's ports; None where nothing moves."""
    moved = bytes_moved(result, port)
    return result.macs / moved if moved else None
