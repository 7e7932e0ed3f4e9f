"""Write the reports in validation/reports anew: `python -m validation --reports [NAME ...]`, by default all.

A report is a Markdown page. A block of `sh` or `python` on it with a block of `text` right below is run at the root of
the repository, and what it prints replaces that text. `$ACCELSIM_SHARED` is the folder of reference data. A command
that fails, for example because its data are absent, leaves the text as it is and is reported.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from accelsim.cli import BAD_INPUT, DIFFERS, DONE
from accelsim.inputs.units import near_miss
from validation.command import PAGE_WIDTH

REPORTS = Path(__file__).with_name("reports")
"""The folder of the reports."""
_BLOCK = r"^```{}\n((?:(?!```).*\n)*)```\n"
_PAIR = re.compile(r"(?<!<!-- no-run -->\n)" + _BLOCK.format("(sh|python)") + _BLOCK.format("text"), re.MULTILINE)
_PYTHON_WIDTH = 100  # as tests/test_docs.py runs them


def write_reports(names: Sequence[str] = (), folder: Path = REPORTS) -> int:
    """Write reports anew; the exit code of the command."""
    known = sorted(path.stem for path in folder.glob("*.md"))
    if unknown := [name for name in names if name not in known]:
        hint = near_miss(unknown[0], known)
        sys.stderr.write(f"no report {unknown[0]}; {hint}{' ' * bool(hint)}reports: {', '.join(known)}\n")
        return BAD_INPUT
    failed = 0
    for name in names or known:
        path, namespace = folder / f"{name}.md", dict[str, Any]({"__name__": name})
        wrong = list[str]()

        def printed(pair: re.Match[str], namespace: dict[str, Any] = namespace, wrong: list[str] = wrong) -> str:
            language, code, text = pair.groups()
            try:
                text = _run(code, namespace) if language == "python" else _answer(code)
            except subprocess.CalledProcessError as error:
                wrong.append(f"{code.strip()}: exit code {error.returncode}: {error.stderr.strip()}")
            return f"```{language}\n{code}```\n```text\n{text}```\n"

        path.write_text(_PAIR.sub(printed, path.read_text(encoding="utf-8")), encoding="utf-8")
        sys.stdout.write(f"Written: {path}\n")
        sys.stderr.writelines(f"{path}: not written: {line}\n" for line in wrong)
        failed += len(wrong)
    return BAD_INPUT if failed else DONE


def _run(code: str, namespace: dict[str, Any]) -> str:
    """Run a block of Python and return what it prints; the blocks of a page share their names."""
    with contextlib.redirect_stdout(io.StringIO()) as caught, _columns(_PYTHON_WIDTH):
        exec(code, namespace)
    return caught.getvalue()


@contextlib.contextmanager
def _columns(width: int) -> Iterator[None]:
    """Let reports be as wide as asked for."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(width)
    try:
        yield
    finally:
        del os.environ["COLUMNS"]
        os.environ |= {} if before is None else {"COLUMNS": before}


def _answer(lines: str) -> str:
    """Run commands and return what they print; studies exit with `DIFFERS` if a figure is beyond its tolerance."""
    root, shared = REPORTS.parents[1], os.environ.get("ACCELSIM_SHARED") or "../shared"
    paths = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    change = {"PATH": paths, "PYTHONPATH": str(root), "COLUMNS": str(PAGE_WIDTH), "ACCELSIM_SHARED": shared}
    done = subprocess.run(["sh", "-ec", lines], cwd=root, env=os.environ | change, capture_output=True, text=True)
    if done.returncode not in (DONE, DIFFERS):
        raise subprocess.CalledProcessError(done.returncode, lines, done.stdout, done.stderr)
    return "\n".join(each.rstrip() for each in done.stdout.strip("\n").splitlines()) + "\n"
