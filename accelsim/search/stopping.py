"""When a search stops: its budget, how far it is, and how a signal ends it with what it has found.

Ctrl-C, SIGTERM and SIGHUP raise KeyboardInterrupt, once, where a run may be left at any point. A search has something
to lose: inside `heeding` nothing is raised, compiled code finds its flag set, and the rest reads `asked`. A thread
waits for signals, also while Python itself cannot answer them, and ends the process where no answer comes.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from accelsim.inputs.errors import AccelsimError

if TYPE_CHECKING:
    from accelsim.model.encode import Ints


@dataclass(frozen=True, slots=True)
class Budget:
    """What a search may take: so many mappings, so many seconds, whichever comes first; None is no limit.

    `memory_bytes` is for the tables of an exact search, 768 MiB if it is None.
    """

    mappings: int | None = None
    seconds: float | None = None
    memory_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.mappings is not None and self.mappings < 1:
            raise AccelsimError(f"a budget of {self.mappings} mappings is none; give at least 1")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise AccelsimError(f"a budget of {self.seconds} seconds is none; give a positive number")
        if self.memory_bytes is not None and self.memory_bytes < 1:
            raise AccelsimError(f"a budget of {self.memory_bytes} bytes is none; give at least 1")


class Stop(KeyboardInterrupt):  # what Ctrl-C does, from a program
    """Raised by `on_progress`: the search ends with the best mapping so far and its gap."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is, or what is done next, in words (`what`; `done` is 0 then).

    Attributes
    ----------
    done, total : int
        Mappings, or nodes of an exact search; `total` is None where only the clock or a proof ends it.
    valid : int
        Valid mappings among them.
    layer : str
        What is searched.
    objective : str
        What is minimized; empty where there are several objectives.
    best, bound : float or None
        Objective of the best mapping so far, and its lower bound.
    seconds, seconds_limit : float
        Time so far, and its limit.
    """

    done: int = 0
    valid: int = 0
    best: float | None = None
    best_energy_pj: float | None = None
    total: int | None = None
    seconds: float = 0.0
    seconds_limit: float | None = None
    bound: float | None = None
    what: str = ""
    layer: str = ""
    objective: str = ""

    @property
    def gap(self) -> float | None:
        """How far the best mapping is at most above the optimum, relative to it; None while unknown."""
        if self.best is None or not self.bound or self.bound <= 0:
            return None
        return max(0.0, self.best / self.bound - 1.0)


OnProgress = Callable[[Progress], None]
"""What `on_progress` of all searches is: called a few times a second, or with each part of a longer work."""


ANSWER_SECONDS = 0.7
"""After a signal the process ends at the latest after so many seconds, unless it writes what it has found by then."""
REPORT_SECONDS = 10.0
"""How long that may take [s]."""
TOGETHER_SECONDS = 0.3
"""Signals within so many seconds are one: `timeout` sends its signal to the process, then to its group."""
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@dataclass(slots=True)
class _State:
    """What this process knows of signals, which it has once."""

    installed: bool = False
    number: int = 0
    raised: bool = False
    again: bool = False
    answering: bool = False
    best: str = ""
    flags: list[tuple[Ints, ...] | None] = field(default_factory=list)
    parts: set[Path] = field(default_factory=set)


_STATE = _State()


def asked() -> int:
    """Number of the signal that asks the process to end, or 0."""
    return _STATE.number


@contextmanager
def heeding(*flags: Ints) -> Iterator[None]:
    """Raise nothing at a signal: what runs inside reads `asked` or a flag, and ends with what it has.

    Parameters
    ----------
    *flags : int64[1] or larger
        Set to 1 at [0] when a signal comes.
    """
    if not _STATE.installed or threading.current_thread() is not threading.main_thread():
        yield
        return
    _STATE.flags.append(flags)
    try:
        yield
    finally:
        _STATE.flags.pop()


@contextmanager
def raising() -> Iterator[None]:
    """Inside `heeding`, a part that may be given up: a signal raises KeyboardInterrupt here after all."""
    if asked():
        raise KeyboardInterrupt
    if not _STATE.flags:
        yield
        return
    _STATE.flags.append(None)
    try:
        yield
    finally:
        _STATE.flags.pop()


def answering() -> None:
    """From here on what was found is written, and a signal no longer keeps it from being so."""
    _STATE.answering = True


def hold(best: str) -> None:
    """Keep what is said of the best so far if the process has to end at once."""
    _STATE.best = best


@contextmanager
def part_file(path: Path) -> Iterator[Path]:
    """A file beside another one, for its content until it is whole; removed at the end, however that comes."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    _STATE.parts.add(beside)
    try:
        yield beside
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        _STATE.parts.discard(beside)


def said(number: int) -> str:
    """Why a process ends, in words."""
    return "interrupted" if number in (0, signal.SIGINT) else f"stopped by {signal.Signals(number).name}"


@contextmanager
def stoppable() -> Iterator[None]:
    """Let signals stop what runs inside, as the module says; the last thing a process does, for it stays so.

    A signal that is ignored when the process begins, as by `nohup`, is ignored further on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    mine = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader,), daemon=True).start()
    for number in mine:
        signal.signal(number, _handle)
    sys.unraisablehook = _raise_again
    _STATE.installed = True
    try:
        yield
    finally:
        _STATE.answering = True
        for number in mine:  # Python's own end would give them back to the system, which kills
            signal.signal(number, signal.SIG_IGN)


def leave() -> None:
    """End a process that has answered a signal.

    Not by returning: after KeyboardInterrupt inside `exec`, which dataclasses use, Python exits as for SIGINT although
    it was caught; and what a compiler has given up half-way may be freed twice.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(128 + _STATE.number)


def _handle(number: int, _: FrameType | None) -> None:
    _STATE.number = _STATE.number or number
    heeded = bool(_STATE.flags) and _STATE.flags[-1] is not None
    if not (_STATE.raised or _STATE.answering or heeded):
        _STATE.raised = True
        raise KeyboardInterrupt


def _raise_again(lost: sys.UnraisableHookArgs) -> None:
    """Raise KeyboardInterrupt again where it came inside a destructor or a callback, in which Python drops it."""
    if not isinstance(lost.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
    elif not _STATE.answering:
        _STATE.raised, _STATE.again = False, True
        threading.Timer(0.01, os.kill, (os.getpid(), _STATE.number)).start()  # once this destructor is left


def _watch(reader: int) -> None:
    """Wait for signals, and end the process where they are not answered, or at the second one."""
    number = os.read(reader, 1)[0]
    first = time.monotonic()
    _STATE.number = _STATE.number or number
    threading.Thread(target=_end_late, args=(first,), daemon=True).start()
    while True:
        for flag in (flag for flags in list(_STATE.flags) for flag in flags or ()):
            flag[0] = 1
        os.read(reader, 1)
        if time.monotonic() - first > TOGETHER_SECONDS and not _STATE.again:
            _end()
        _STATE.again = False


def _end_late(first: float) -> None:
    """End the process where it does not answer, or takes too long for it."""
    while time.monotonic() - first < (REPORT_SECONDS if _STATE.answering else ANSWER_SECONDS):
        time.sleep(0.02)
    _end()


def _end() -> None:
    """End the process at once; nothing that is half written stays."""
    for part in list(_STATE.parts):
        with suppress(OSError):
            part.unlink(missing_ok=True)
    best = f"; {_STATE.best}" if _STATE.best and not _STATE.answering else ""
    with suppress(OSError):
        shown = "\r\x1b[K\x1b[?25h" if os.isatty(2) else ""  # a line of progress goes, the cursor comes back
        os.write(2, f"{shown}{said(_STATE.number)}{best}\n".encode())
    os._exit(128 + _STATE.number)
