"""trnsim: how long a training step takes on a Trainium cluster, and why.

>>> import trnsim
>>> scenario = trnsim.load("path/to/scenario.yaml")  # doctest: +SKIP
>>> print(trnsim.simulate(scenario).summary())  # doctest: +SKIP

Importing trnsim loads nothing else; each name below is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trnsim.results import Result
    from trnsim.scenario import load
    from trnsim.simulation import simulate
    from trnsim.simulation.collective import collective

    __version__: str

__all__ = ["Result", "__version__", "collective", "load", "simulate"]

_HOMES = {
    "Result": "trnsim.results",
    "collective": "trnsim.simulation.collective",
    "load": "trnsim.scenario",
    "simulate": "trnsim.simulation",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("trnsim")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'trnsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
