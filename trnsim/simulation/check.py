"""Whether a loaded scenario fits its machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnsim.simulation.memory import check_memory, memory_limit_bytes, memory_warning, worst
from trnsim.units import format_bytes

if TYPE_CHECKING:
    from trnsim.scenario import Scenario
    from trnsim.simulation.memory import StageMemory

__all__ = ["Checked", "check"]


class Checked(NamedTuple):
    """What a check says of a scenario that passes it.

    Attributes
    ----------
    memory
        What the rank that needs most takes of what it may use, and the same of a chip.
    warnings
        What is legal but deserves a look: the scenario's warnings, and one about memory that is nearly full.
    """

    memory: str
    warnings: tuple[str, ...]


def check(scenario: Scenario) -> Checked:
    """Check that the ranks of a scenario fit in memory; its other rules were checked when it was loaded.

    Raises
    ------
    InputError
        If a rank needs more memory than it may use; exit code 3.

    Examples
    --------
    >>> import trnsim
    >>> check(trnsim.load("trn3-cluster")).warnings
    ()
    """
    most = worst(check_memory(scenario))
    warning = memory_warning(scenario, most)
    return Checked(_memory(scenario, most), (*scenario.warnings, *([warning] if warning else [])))


def _memory(scenario: Scenario, most: StageMemory) -> str:
    """Label memory per rank and per chip: a limit per chip is not one per rank."""
    ranks, limit = scenario.ranks_per_chip, memory_limit_bytes(scenario)
    rank = f"{format_bytes(most.terms.total)} of {format_bytes(limit)} a rank (stage {most.stage})"
    if ranks == 1:
        return f"{rank}, which is a chip"
    return f"{rank}; {format_bytes(most.terms.total * ranks)} of {format_bytes(limit * ranks)} a chip of {ranks} such ranks"
