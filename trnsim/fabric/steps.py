"""From the patterns of a step to its traffic, looking at no more members than differ."""

from __future__ import annotations

import math
from itertools import permutations
from typing import TYPE_CHECKING

from trnsim.collectives import Everyone, Rotation, Shift
from trnsim.fabric.meetings import Line, count_by_tier, count_everyone_by_tier, shift_lines
from trnsim.fabric.traffic import Traffic
from trnsim.parallel import Slot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trnsim.collectives import Pattern
    from trnsim.fabric.layout import Layout
    from trnsim.fabric.paths import Paths

__all__ = ["step_traffic", "transfer_traffic"]


def step_traffic(moves: Mapping[Pattern, int], layout: Layout, paths: Paths, *, is_kept: bool = False) -> Traffic:
    """Return the traffic of a step in which every member sends by several patterns at once.

    Parameters
    ----------
    moves
        Patterns, and for each how many transfers of the counted size one of its transfers stands for.
    layout, paths
        Where the members are, and what joins them.
    is_kept
        Whether the traffic keeps its transfers by place.

    Raises
    ------
    ValueError
        If a transfer leaves its server and there is no fabric.
    """
    traffic = Traffic(paths, is_kept)
    if list(moves.items()) == [(Everyone(layout.size), 1)]:
        _add_everyone(traffic, layout)
        return traffic
    windows = {_window(pattern, layout) for pattern in moves}
    window = windows.pop() if len(windows) == 1 else layout.size
    for pattern, times in moves.items():
        _add_pattern(traffic, layout, pattern, window, times)
    return traffic


def transfer_traffic(layout: Layout, source: int, target: int, paths: Paths, *, is_kept: bool = False) -> Traffic:
    """Return the traffic of a single transfer between two members of a group."""
    traffic = Traffic(paths, is_kept)
    here, there = layout.slot(source), layout.slot(target)
    traffic.numbers = [layout.slot(member).server for member in range(layout.size)]
    if here.server == there.server:
        traffic.inside(here.server, here, there)
    else:
        traffic.leave([here])
        traffic.arrive([there])
        source, target = (slot.server * paths.chips + slot.chip for slot in (here, there))
        traffic.by_tier.update(count_by_tier([Line(source, target, step=0, pairs=1)], paths.blocks))
    return traffic


def _shifts(pattern: Pattern, layout: Layout) -> bool:
    """Say whether a pattern is a shift that loads every repetition of the layout alike.

    That is one by whole repetitions, or one over the whole group, or a tour that goes round each repetition alike.
    """
    unit, circle = len(layout.unit), pattern.span * pattern.stride
    if isinstance(pattern, Rotation):
        return circle == layout.size and unit % (pattern.inner * pattern.stride) == 0
    return isinstance(pattern, Shift) and (circle == layout.size or pattern.stride % unit == 0)


def _window(pattern: Pattern, layout: Layout) -> int:
    """Return the members beyond which the servers repeat themselves: where a circle and a repetition end together."""
    unit = len(layout.unit)
    return unit if _shifts(pattern, layout) else math.lcm(unit, pattern.span * pattern.stride)


def _add_pattern(traffic: Traffic, layout: Layout, pattern: Pattern, window: int, times: int) -> None:
    """Add the transfers of a window of members, each `times`."""
    slots = [layout.slot(member) for member in range(window)]
    traffic.copies.update({slot.server: layout.size // window for slot in slots})
    traffic.numbers = [slot.server for slot in slots]
    crossing: list[tuple[int, int]] = []
    for source, here in enumerate(slots):
        for target in pattern.targets(source):
            there = slots[target] if target < window else layout.slot(target)
            if here.server == there.server:
                traffic.inside(here.server, here, there, times)
            else:
                crossing.append((source, target))
    if crossing:
        traffic.leave([slots[source] for source, _ in crossing], times)
        traffic.arrive([slots[target % window] for _, target in crossing], times)
        chips, blocks = traffic.paths.chips, traffic.paths.blocks
        copied = not _shifts(pattern, layout) or window == layout.size
        lines = _copied(layout, window, crossing, chips) if copied else _shifted(layout, pattern, crossing, chips)
        for tier, transfers in count_by_tier(lines, blocks).items():
            traffic.by_tier[tier] += times * transfers


def _copied(layout: Layout, window: int, crossing: list[tuple[int, int]], chips: int) -> Iterator[Line]:
    """Yield pairs of endpoints: each transfer between servers with its copies, window after window."""
    endpoints = layout.endpoints(chips, window)
    apart = window // len(layout.unit) * layout.server_step * chips
    for source, target in crossing:
        yield Line(endpoints[source], endpoints[target], apart, layout.size // window)


def _shifted(layout: Layout, pattern: Pattern, crossing: list[tuple[int, int]], chips: int) -> Iterator[Line]:
    """Yield pairs of endpoints: each transfer from the first repetition with those of its kind from all the others."""
    unit, apart = len(layout.unit), layout.server_step * chips
    whole = pattern.span * pattern.stride == layout.size
    span, stride = (layout.repetitions, 1) if whole else (pattern.span, pattern.stride // unit)
    endpoints = layout.endpoints(chips, unit)
    for source, target in crossing:
        here, there = endpoints[source], endpoints[target % unit]
        for line in shift_lines(target // unit // stride, span, stride, layout.repetitions):
            yield Line(here + line.source * apart, there + line.target * apart, line.step * apart, line.pairs)


def _add_everyone(traffic: Traffic, layout: Layout) -> None:
    """Add a transfer from every member to every other.

    Routes are followed inside one server of each content only. Between servers the NIC of a chip carries what its
    members exchange with all members elsewhere; nothing of that is listed pair by pair.
    """
    contents = layout.contents()
    traffic.numbers = layout.content_numbers()
    for number, (content, servers) in enumerate(contents.items()):
        traffic.copies[number] = servers
        on_chip: dict[int, list[Slot]] = {}
        for slot in content:
            on_chip.setdefault(slot.chip, []).append(slot)
        for here in on_chip.values():
            for core, other in permutations(here, 2):
                traffic.inside(number, core, other)
        for here, there in permutations(on_chip.values(), 2):
            traffic.inside(number, here[0], there[0], len(here) * len(there))
        if outside := layout.size - len(content):
            for chip, here in on_chip.items():
                nic = [Slot(number, chip, 0)]
                traffic.leave(nic, len(here) * outside)
                traffic.arrive(nic, len(here) * outside)
    if not layout.in_one_server:
        endpoints = layout.endpoints(traffic.paths.chips, layout.size)
        traffic.by_tier.update(count_everyone_by_tier(endpoints, traffic.paths.chips, traffic.paths.blocks))
