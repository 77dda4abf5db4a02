"""Arithmetic of a two-level NeuronSwitch server: sleds, racks, and twins across racks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.hardware import SwitchedScaleUp

__all__ = ["switched_path", "twins"]


def twins(chips: int, rack_size: int) -> Iterator[tuple[int, int]]:
    """Yield each pair of chips that hold the same place in two racks: a cable joins them directly.

    Examples
    --------
    >>> list(twins(6, 3))
    [(0, 3), (1, 4), (2, 5)]
    """
    for chip in range(chips):
        for twin in range(chip + rack_size, chips, rack_size):
            yield chip, twin


def switched_path(start: int, end: int, scale_up: SwitchedScaleUp) -> tuple[str, ...]:
    """Return the nodes from chip `start` to chip `end`, both included, on the path of fewest latency.

    In a sled over the sled's switch (or the rack's, if that is faster), in a rack over the rack's switch, to another
    rack first inside the own rack to the twin of `end`, then over the direct cable.

    Parameters
    ----------
    start, end
        Numbers of the two chips: rack after rack, sled after sled.
    scale_up
        Sizes and link classes.
    """
    nodes = [f"chip {start}"]
    if start == end:
        return tuple(nodes)
    rack = start // scale_up.rack_size
    twin = rack * scale_up.rack_size + end % scale_up.rack_size
    if twin != start:
        sled, twin_sled = start // scale_up.sled_size, twin // scale_up.sled_size
        in_sled = sled == twin_sled and scale_up.sled.latency_s.value <= scale_up.rack.latency_s.value
        nodes += [f"sled {sled}" if in_sled else f"rack {rack}", f"chip {twin}"]
    return (*nodes, f"chip {end}") if twin != end else tuple(nodes)
