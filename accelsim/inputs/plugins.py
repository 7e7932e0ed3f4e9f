"""Importers, estimators and exporters of other packages, which their entry points name.

docs/extending.md says what an entry point of each group leads to.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from accelsim.inputs.errors import AccelsimError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
IMPORTERS, ESTIMATORS, EXPORTERS = "accelsim.importers", "accelsim.estimators", "accelsim.exporters"


@lru_cache
def installed(group: str) -> dict[str, EntryPoint]:
    """Entry points of a group by name; of several with one name the first counts."""
    from importlib.metadata import entry_points  # takes as long as reading an architecture

    return {point.name: point for point in sorted(entry_points(group=group), reverse=True)}


def source_of(group: str, name: str) -> str:
    """Name and version of the package that an entry point is of."""
    package = installed(group)[name].dist
    return f"{package.name} {package.version}" if package else name


def load_plugin(group: str, name: str) -> Any:
    """What an entry point leads to; raises AccelsimError if it cannot be loaded."""
    return guarded(group, name, installed(group)[name].load)


def guarded(group: str, name: str, call: Callable[..., T], *arguments: Any) -> T:
    """Result of a function of another package; whatever it raises is an AccelsimError that names the package."""
    try:
        return call(*arguments)
    except AccelsimError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        raise AccelsimError(f"{name} (of {source_of(group, name)}) failed: {what}") from error
