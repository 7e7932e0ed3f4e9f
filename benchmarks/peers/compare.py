"""Compare our mapper with AccelForge and ZigZag: what each finds, both models on the same mapping, and the time.

Run `python benchmarks/peers/compare.py` beside the peers' recorded results, with `--live` beside the peers themselves,
which `setup.sh` installs, and with `--machine FILE` beside AccelForge on a machine that is in no record. Ours searches
the space that the peer searched, or even mappings alone. README.md in this folder says what the columns mean.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

import accelforge_golden as accelforge  # noqa: E402
import zigzag_golden as zigzag  # noqa: E402
from nest import Nest, Peer, Replay, as_nest, replay, uneven  # noqa: E402

from accelsim.search.mapper import map_einsum  # noqa: E402
from accelsim.search.result import SearchResult  # noqa: E402
from accelsim.search.stopping import Budget  # noqa: E402

HERE = Path(__file__).resolve().parent
GOLDEN = Path(os.environ.get("ACCELSIM_SHARED", REPOSITORY.parent / "shared")) / "golden"
VENVS = Path(os.environ.get("ACCELSIM_PEERS", Path.home() / ".cache" / "accelsim-peers"))
SAME = 1e-5
"""Relative difference up to which two models agree: theirs count in floats of 32 bits."""
HEADS = "tool,machine,problem,objective,spaces,peer,its mapping,ours,ratio,ours there,"
HEADS += "peer s,ours s,speed-up,optimum,remark"
Json = dict[str, Any]


def search(peer: Peer, budget: Budget | None, free: bool) -> tuple[SearchResult, float, float]:
    """Our best, its value, and processor time of the search; `free`: of uneven mappings too."""
    tiny = replace(peer.einsum, dims={dim: min(bound, 2) for dim, bound in peer.einsum.dims.items()})
    map_einsum(peer.architecture, tiny, objective=peer.objective, workers=1, uneven=free)  # compiles
    asked: Json = {"constraints": peer.constraints, "objective": peer.objective, "budget": budget}
    started = time.process_time()
    found = map_einsum(peer.architecture, peer.einsum, **asked, workers=1, uneven=free)
    seconds = time.process_time() - started
    return found, Replay(found.best.energy_pj, found.best.cycles).value(peer.objective), seconds


def judge(peer: Peer, nest: Nest) -> tuple[float, float, str]:
    """Value of the peer's mapping by our model, what ours is to be compared with, and how far both tools agree."""
    ours = replay(peer.architecture, peer.einsum, nest)
    again = replay(peer.architecture, peer.einsum, nest, first_reads=peer.first_reads).value(peer.objective)
    off = [" ".join(key) for key, words in peer.counts.items() if abs(ours.counts[key] - words) > SAME * words]
    rounded = ours.energy_pj if peer.objective == "edp" else 1.0  # ours rounds cycles up
    alike = abs(again - peer.value) <= max(rounded, SAME * peer.value) and not off
    said = ["counts alike" if alike else f"counts its mapping {again / peer.value - 1:+.2%}", *off]
    ranks = [rank for tensor in peer.einsum.tensors for rank in tensor.ranks]
    if any(sum(peer.einsum.dims[dim] > 1 for dim, _ in rank) > 1 for rank in ranks):
        said.insert(0, "bound only: windows")
    said += [] if ours.fits else ["its tiles do not fit by our model"]
    said += ["its tiles are uneven"] if uneven(nest, peer.einsum) else []
    value = ours.value(peer.objective)
    return value, value if ours.fits else peer.value, "; ".join([*said, *filter(None, [peer.note])])


def ask(tool: str, requests: list[Any]) -> list[Json]:
    """Answers of a peer, from its own environment."""
    python, script = VENVS / tool / "bin" / "python", HERE / f"{tool}_live.py"
    if not python.is_file():
        raise SystemExit(f"{python} is missing; run {HERE / 'setup.sh'} {VENVS}")
    done = subprocess.run([python, script], input=json.dumps(requests), stdout=subprocess.PIPE, text=True, check=True)
    answers: list[Json] = json.loads(done.stdout)
    return answers


def given(machine: Path, problem: Path, limit: float, folder: Path) -> list[Peer]:
    """What AccelForge finds for each objective in `limit` CPU seconds on a machine, which `folder` then describes."""
    names = {"machine": str(machine.resolve()), "problem": str(problem.resolve())}
    (described,) = ask("accelforge", [{**names, "describe": True}])
    if "error" in described:
        raise SystemExit(f"{machine}: {described['error']}")
    files = folder / f"{machine.stem}.json", problem.resolve()
    files[0].write_text(json.dumps({"levels_outer_to_inner": described["parts"]}))
    try:
        accelforge.load_machine(machine.stem, described["parts"])
    except ValueError as error:
        raise SystemExit(f"{machine}: {error}") from None
    requests = [{**names, "machine": str(files[0]), "objective": o, "limit": limit} for o in accelforge.METRICS]
    first = GOLDEN / "accelforge" / "workloads" / "gemm_64.yaml"
    compiles = {**requests[0], "machine": str(accelforge.machine_path(GOLDEN / "accelforge", "simple_1Mb"))}
    _, *answers = ask("accelforge", [{**compiles, "problem": str(first)}, *requests])
    peers = []
    for objective, answer in zip(accelforge.METRICS, answers, strict=True):
        if "error" in answer:
            sys.stdout.write(f"AccelForge {machine.stem} {problem.stem} {objective}: {answer['error']}\n")
            continue
        peers.append(accelforge.given_peer(files, objective, answer))
    return peers


def live(peers: list[Peer], found: list[SearchResult], again: bool) -> list[Json]:
    """What the peers find now [our units], if asked `again`, and what AccelForge says of our mappings (`ours`)."""
    answers: list[Json] = [{} for _ in peers]
    forge = [i for i, peer in enumerate(peers) if peer.tool == "AccelForge"]
    requests: list[Json] = []
    nests: list[Json] = []
    for i in forge:
        peer, parts = peers[i], accelforge.read_parts(peers[i].files[0])
        machine, problem = map(str, peer.files)
        requests.append({"machine": machine, "problem": problem, "objective": peer.objective})
        nest = as_nest(found[i].best.mapping, peer.einsum)
        nests.append({**requests[-1], "nest": accelforge.write_nest(nest, parts, peer.einsum)})
    replies = ask("accelforge", [*(requests if again else []), *nests]) if forge else []
    searches = replies[: len(forge)] if again else [{}] * len(forge)
    for i, searched, evaluated in zip(forge, searches, replies[-len(forge) :], strict=True):
        to_ours = accelforge.unit(peers[i].objective, peers[i].architecture)
        values = {**searched, "ours": evaluated.get("value"), "ours error": evaluated.get("error")}
        scaled = {key: values[key] * to_ours for key in ("value", "even", "ours") if values.get(key) is not None}
        answers[i] = {**values, **scaled}
    zig = [i for i, peer in enumerate(peers) if peer.tool == "ZigZag"]
    records = [str(zigzag.record(GOLDEN / "zigzag", peers[i].machine, peers[i].problem)) for i in zig]
    for i, reply in zip(zig, ask("zigzag", records) if zig else [], strict=True):
        answers[i] = reply
    return answers


def row(peer: Peer, nest: Nest, searched: tuple[SearchResult, float, float], now: Json, space: str) -> list[str]:
    """Cells of one line; `space` is that of our search."""
    (found, value, seconds), (again, against, said) = searched, judge(peer, nest)
    if "value" in now:
        said += f"; live {now['value'] / peer.value:.6f} of recorded"
    if "even" in now:
        said += f", {now['even'] / peer.value:.4f} if nearly even"
    said += "".join(f"; {now[key]}" for key in ("error", "ours error") if now.get(key))
    rounded = found.best.energy_pj if peer.objective == "edp" else 1.0
    if now.get("ours") and abs(now["ours"] - value) > max(rounded, SAME * value):
        said += f"; it counts ours {now['ours'] / value - 1:+.2%}"
    there = f"{now['ours'] / peer.value:.4f}" if now.get("ours") else "-"
    peer_seconds, proof = now.get("seconds", peer.seconds), found.method
    if found.certificate:
        proof = "proved" if found.certificate.proved else f"within {found.certificate.gap:.2%}"
    values = [f"{each:.7g}" for each in (peer.value, again, value)]
    times = [f"{peer_seconds:.2f}", f"{seconds:.2f}", f"{peer_seconds / seconds:.1f}"]
    names = [peer.tool, peer.machine, peer.problem, peer.objective, f"{peer.space.split()[0]}/{space}"]
    return [*names, *values, f"{value / against:.4f}", there, *times, proof, said]


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description="Our mapper beside AccelForge and ZigZag.")
    parser.add_argument("--live", action="store_true", help="run the peers too, from $ACCELSIM_PEERS")
    parser.add_argument("--only", default="", metavar="WORDS", help="only lines that have all of these words")
    parser.add_argument("--seconds", type=float, default=60.0, help="budget of each of our searches (default: 60)")
    parser.add_argument("--even", action="store_true", help="search even mappings only, whatever the peer searched")
    parser.add_argument("--machine", type=Path, help="architecture of AccelForge that is in no record; runs AccelForge")
    parser.add_argument("--problem", type=Path, default=GOLDEN / "accelforge" / "workloads" / "gemm_64.yaml")
    parser.add_argument("--limit", type=float, default=300.0, help="of each search of AccelForge then [CPU s]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.machine:
            peers = given(options.machine, options.problem, options.limit, Path(folder))
        else:
            peers = [*accelforge.load_peers(GOLDEN / "accelforge"), *zigzag.load_peers(GOLDEN / "zigzag")]
        compare(peers, options)


def compare(loaded: Sequence[Peer], options: argparse.Namespace) -> None:
    """Search, and print a line for each peer's result and what each tool searched."""
    budget, words = Budget(seconds=options.seconds), set(options.only.split())
    peers: list[tuple[Peer, Nest]] = []
    spaces: dict[str, None] = {}
    searched, ours = [], []
    for peer in loaded:
        if not words <= {peer.tool, peer.machine, peer.problem, peer.objective}:
            continue
        sys.stderr.write(f"searching {peer.machine} {peer.problem} {peer.objective}\n")
        if peer.nest is None:
            sys.stdout.write(f"{peer.tool} {peer.machine} {peer.problem}: not compared, its loops leave remainders\n")
            continue
        free = not options.even and peer.space.startswith("uneven")
        peers.append((peer, peer.nest))
        searched.append(search(peer, budget, free))
        ours.append("uneven" if free else "even")
        spaces[f"{peer.tool} searches {peer.space}"] = None
    again = not options.machine
    results = [each for each, _, _ in searched]
    now = live([peer for peer, _ in peers], results, again) if options.live or options.machine else [{}] * len(peers)
    lines = [HEADS.split(",")]
    rows = zip(peers, searched, now, ours, strict=True)
    lines += [row(*peer, one, answer, space) for peer, one, answer, space in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
    sys.stdout.writelines(f"{space}\n" for space in spaces)
    sys.stdout.write(
        "ours searches what `spaces` says after the stroke, without remainders, spatial loops as the peer's;\n"
    )
    sys.stdout.write("its tiles also stay where loops outside the fanouts above them step without moving them\n")


if __name__ == "__main__":
    main()
