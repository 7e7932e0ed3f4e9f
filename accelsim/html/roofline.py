"""Rooflines: what each level's bandwidth allows, against MACs for each byte moved there.

Williams, Waterman and Patterson, CACM 52(4), 2009; a roof for each level: Yang, Kurth and Williams, CCPE 32(20), 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

from accelsim.architecture import Architecture
from accelsim.result import Result


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
    moved = 0
    for tensor in result.tensors:
        if tensor.level == port.level:
            read = tensor.total_reads if port.direction != "write" else 0
            written = tensor.total_fills + tensor.total_updates if port.direction != "read" else 0
            moved += (read + written) * -(-tensor.word_bits // width)
    return moved * width / 8


def macs_per_byte(result: Result, port: Port) -> float | None:
    """Arithmetic intensity at a level's ports; None where nothing moves."""
    moved = bytes_moved(result, port)
    return result.macs / moved if moved else None
