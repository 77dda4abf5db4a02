"""Whether a loaded scenario fits its machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.simulation.memory import check_memory, memory_warning, worst

if TYPE_CHECKING:
    from trnsim.scenario import Scenario

__all__ = ["check"]


def check(scenario: Scenario) -> tuple[str, ...]:
    """Check that the ranks of a scenario fit in memory; its other rules were checked when it was loaded.

    Returns
    -------
    tuple of str
        What is legal but deserves a look: the scenario's warnings, and one about memory that is nearly full.

    Raises
    ------
    InputError
        If a rank needs more memory than it may use; exit code 3.

    Examples
    --------
    >>> import trnsim
    >>> check(trnsim.load("trn3-cluster"))
    ()
    """
    warning = memory_warning(scenario, worst(check_memory(scenario)))
    return (*scenario.warnings, *([warning] if warning else []))
