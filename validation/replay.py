"""Requests of a server, one by one: when each had its first and its last token, were its steps as long as ours.

vLLM's scheduler: sequences that decode come first; what is left of the tokens of a step goes to prompts in the order in
which they arrived, the last of which may be cut. A prompt begins when the cache has room for it. Where the cache is
full, the sequence that began last gives its room back; of its tokens those go through once more whose blocks others
have taken, the last ones first.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from accelsim.gpu.catalogue import Gpu, find_gpu
from accelsim.gpu.decoder import Decoder, load_decoder
from accelsim.gpu.serving import GAPS_US, LAUNCH_US, timed_step
from accelsim.gpu.steps import Split, StepLoad, steps_of
from accelsim.gpu.work import WIDE, Pricing, serving_mode
from accelsim.inputs.errors import AccelsimError, require

if TYPE_CHECKING:
    from scipy.interpolate import RegularGridInterpolator

SERVERS = {
    "RTX4090/Llama-3.1-8B": ("rtx_4090", "llama", Split(1), 41_408),
    "RTXPRO6000/Qwen3-32B": ("rtx_pro_6000", "qwen3_32b", Split(1, tp=2), 2**62),  # 97 % of it at most
}
"""Servers of LLMServingSim's `bench/examples`, vLLM 0.19: GPU, decoder, split, and tokens of the cache where it was
full, as their `meta.json` says."""
STEP_TOKENS, LARGE_STEP_TOKENS, _LARGE_BYTES = 2048, 8192, 70 * 2**30
"""Tokens of a step of vLLM's server (`max_num_batched_tokens`), and on GPUs of more memory than that."""
STEP_SEQUENCES = 128
"""Most sequences at once, as the times of the requests show (`max_num_seqs`)."""
BLOCK = 16
"""Tokens of a block of the cache."""
_TOKENS = (0, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
_SEQUENCES = (0, 1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
_CONTEXTS = (128, 512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True)
class Replayed:
    """Means of a run, measured and ours [s]."""

    run: str
    requests: int
    measured_token: float
    measured_first: float
    measured_whole: float
    token: float
    first: float
    whole: float

    @staticmethod
    def means() -> tuple[str, ...]:
        """What is averaged."""
        return "token", "first", "whole"

    def errors(self) -> dict[str, float]:
        """Relative error of each mean."""
        return {f"error_{name}": getattr(self, name) / getattr(self, f"measured_{name}") - 1 for name in self.means()}


def step_times(gpu: Gpu, decoder: Decoder, split: Split, stack: str = "vllm") -> RegularGridInterpolator:
    """Time [s] of steps by prompt tokens, sequences that decode, and their context; prompts are as one."""
    require("scipy.interpolate", "times between those of the grid need it", "calibrate")
    from scipy.interpolate import RegularGridInterpolator

    grid = [(tokens, some, context) for tokens in _TOKENS for some in _SEQUENCES for context in _CONTEXTS]
    steps = [
        steps_of(decoder, "bf16", split, StepLoad(int(tokens > 0), tokens, 0, some, context)) if tokens or some else {}
        for tokens, some, context in grid
    ]
    every = dict.fromkeys(each.work for step in steps for place in step.values() for each in place)
    costs = Pricing(gpu, decoder, serving_mode(gpu), "bf16", WIDE, 0.0).costs(every)
    gaps = [GAPS_US[stack] + LAUNCH_US * (tokens > 0) for tokens, _, _ in grid]
    times = [
        timed_step(decoder, split, 1, step, costs, gap).through * 1e-6 for step, gap in zip(steps, gaps, strict=True)
    ]
    shape = (len(_TOKENS), len(_SEQUENCES), len(_CONTEXTS))
    axes = (_TOKENS, _SEQUENCES, _CONTEXTS)
    return RegularGridInterpolator(axes, np.reshape(times, shape), bounds_error=False, fill_value=None)


@dataclass(slots=True)
class Waiting:
    """A request on its way: tokens in the cache, and those that it said."""

    arrival: float
    prompt: int
    output: int
    cached: int = 0
    said: int = 0
    first: float = 0.0
    last: float = 0.0

    @property
    def pending(self) -> int:
        """Tokens that must go through before it says another: its prompt, or the last that it said."""
        return self.prompt + self.said - self.cached

    @property
    def held(self) -> int:
        """Tokens for which it has room in the next step, in whole blocks."""
        return -(-(self.prompt + self.said) // BLOCK) * BLOCK

    @property
    def decodes(self) -> bool:
        """Whether its prompt is through."""
        return self.said > 0 and self.pending == 1


def walked(requests: Sequence[Waiting], times: Callable[..., Any], step_tokens: int, cache: int) -> None:
    """Go through the steps of a server, and write when each request had its first and last token.

    `times`: of a step [s], by prompt tokens, sequences that decode, and their tokens in the cache on average.
    """
    waiting, running, now = deque(sorted(requests, key=lambda one: one.arrival)), list[Waiting](), 0.0
    while waiting or running:
        if not running:
            now = max(now, waiting[0].arrival)
        preempted = False
        while len(running) > 1 and sum(one.held for one in running) > cache:
            waiting.appendleft(running.pop())
            preempted = True
        free = cache - sum(one.held for one in running)
        for one in itertools.takewhile(lambda one: one.cached, waiting):
            one.cached = max(0, min(one.cached, free))
            free -= one.cached
        left = step_tokens - sum(one.decodes for one in running)
        while waiting and waiting[0].arrival <= now and len(running) < STEP_SEQUENCES and not preempted:
            pending = sum(one.pending for one in running if not one.decodes)
            if pending >= left or sum(one.held for one in [*running, waiting[0]]) > cache:
                break
            running.append(waiting.popleft())
        decoding, parts = [one for one in running if one.decodes], list[tuple[Waiting, int]]()
        for one in running:
            if not one.decodes and left:
                parts.append((one, min(left, one.pending)))
                left -= parts[-1][1]
        context = sum(one.cached for one in decoding) / max(1, len(decoding))
        now += float(times([(sum(part for _, part in parts), len(decoding), context)])[0])
        for one, part in [*((one, 1) for one in decoding), *parts]:
            one.cached += part
            if one.pending == 0:
                one.said += 1
                one.first = one.first or now
                one.last = now
        running = [one for one in running if one.said < one.output]


def replay(rows: Sequence[Mapping[str, str]]) -> list[Replayed]:
    """Means of each run of a table, and of ours; raises AccelsimError if a server is not known."""
    found = []
    for run in dict.fromkeys(row["run"] for row in rows):
        if run not in SERVERS:
            raise AccelsimError(f"no server {run} is known; there are: {', '.join(SERVERS)}")
        name, model, split, cache = SERVERS[run]
        gpu, decoder = find_gpu(name), load_decoder(model)
        assert gpu is not None
        own = [row for row in rows if row["run"] == run]
        requests = [Waiting(float(r["queued_s"]), int(r["input_tokens"]), int(r["output_tokens"])) for r in own]
        large = gpu.memory_bytes >= _LARGE_BYTES
        walked(requests, step_times(gpu, decoder, split), LARGE_STEP_TOKENS if large else STEP_TOKENS, cache)
        measured = {
            "token": np.mean([float(r["tpot_ms"]) * 1e-3 for r in own]),
            "first": np.mean([float(r["first_token_s"]) - float(r["queued_s"]) for r in own]),
            "whole": np.mean([float(r["last_token_s"]) - float(r["queued_s"]) for r in own]),
        }
        ours = {
            "token": np.mean([(one.last - one.first) / max(1, one.output - 1) for one in requests]),
            "first": np.mean([one.first - one.arrival for one in requests]),
            "whole": np.mean([one.last - one.arrival for one in requests]),
        }
        found.append(
            Replayed(run, len(own), *(float(measured[each]) for each in Replayed.means()), *map(float, ours.values()))
        )
    return found
