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
    from trnsim.simulation.memory_report import memory_over_time as memory
    from trnsim.study.validation import validate

    __version__: str

__all__ = ["Result", "__version__", "collective", "load", "memory", "simulate", "validate"]

_HOMES = {
    "Result": ("trnsim.results", "Result"),
    "collective": ("trnsim.simulation.collective", "collective"),
    "load": ("trnsim.scenario", "load"),
    "memory": ("trnsim.simulation.memory_report", "memory_over_time"),
    "simulate": ("trnsim.simulation", "simulate"),
    "validate": ("trnsim.study.validation", "validate"),
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("trnsim")
    if name in _HOMES:
        home, its_name = _HOMES[name]
        return getattr(import_module(home), its_name)
    raise AttributeError(f"module 'trnsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
