"""How a group lies on the servers of a cluster."""

from __future__ import annotations

import math
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

from trnsim.collectives import Arrangement, disjoint_cycles
from trnsim.hardware import StarScaleUp, SwitchedScaleUp, TorusScaleUp
from trnsim.parallel import Slot
from trnsim.record import Record
from trnsim.topology.torus import torus_coordinates

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trnsim.hardware import Server
    from trnsim.parallel import Group, Placement

__all__ = ["Layout", "arrange", "lay_out", "renumbered", "tours"]


class Layout(Record):
    """The places of a group's members: a unit that repeats itself at a constant distance of servers.

    Groups of one layout cost the same, so it is what prices are kept by.

    Parameters
    ----------
    size
        Members of the group, a multiple of the unit's.
    unit
        Places of the first members, servers counted from the first member's. Of a group that does not repeat itself
        it holds all members.
    first_server
        Server of the first member; 0 for a group inside one server, because servers are alike.
    server_step
        Servers from one repetition to the next.
    """

    size: int
    unit: tuple[Slot, ...]
    first_server: int
    server_step: int

    @property
    def repetitions(self) -> int:
        """How often the unit stands there."""
        return self.size // len(self.unit)

    @property
    def inner(self) -> int:
        """Members that sit together in a server: the largest count by which consecutive members can be taken."""
        return math.gcd(*(sum(1 for _ in run) for _, run in groupby(slot.server for slot in self.unit)))

    @property
    def per_chip(self) -> int:
        """Members that sit together on a chip: the largest count by which consecutive members can be taken."""
        return math.gcd(*(sum(1 for _ in run) for _, run in groupby((slot.server, slot.chip) for slot in self.unit)))

    @property
    def in_one_server(self) -> bool:
        """Whether the group has no need of the fabric."""
        return self.inner == self.size

    @property
    def members_per_chip(self) -> int:
        """Members on the chip that has most."""
        return max(Counter((slot.server, slot.chip) for slot in self.unit).values())

    @property
    def spread(self) -> int:
        """Distance between the lowest and the highest of the places that the members take in their servers."""
        chips = [slot.chip for slot in self.unit]
        return max(chips) - min(chips)

    def contents(self) -> Counter[tuple[Slot, ...]]:
        """Count the servers by what they hold of the group: places with the server's number left at 0."""
        contents: Counter[tuple[Slot, ...]] = Counter()
        for content in self._contents_in_order():
            contents[content] += self.repetitions
        return contents

    def content_numbers(self) -> list[int]:
        """Return, by member of the unit, the number of its server's content in the order of `contents`."""
        number = {content: index for index, content in enumerate(self.contents())}
        return [number[content] for content in self._contents_in_order() for _ in content]

    def _contents_in_order(self) -> Iterator[tuple[Slot, ...]]:
        for _, slots in groupby(self.unit, key=lambda slot: slot.server):
            yield tuple(Slot(0, slot.chip, slot.core) for slot in slots)

    def endpoints(self, chips: int, members: int) -> list[int]:
        """Return the number of the chip in the cluster for the first `members`, servers having `chips` chips.

        Whole repetitions only.
        """
        offsets = [(self.first_server + slot.server) * chips + slot.chip for slot in self.unit]
        servers = (repetition * self.server_step for repetition in range(members // len(self.unit)))
        return [server * chips + offset for server in servers for offset in offsets]

    def on_first_chips(self, chips: int) -> Layout:
        """Return the layout with each member on the first of as many chips as its own is one of."""
        unit = tuple(Slot(slot.server, slot.chip // chips * chips, slot.core) for slot in self.unit)
        return Layout(self.size, unit, self.first_server, self.server_step)

    def slot(self, member: int) -> Slot:
        """Return the place of a member in the cluster."""
        repetition, place = divmod(member, len(self.unit))
        slot = self.unit[place]
        return Slot(self.first_server + repetition * self.server_step + slot.server, slot.chip, slot.core)


def lay_out(group: Group, placement: Placement) -> Layout:
    """Find the shortest unit of a group.

    Parameters
    ----------
    group
        Members, at least one.
    placement
        Which rank is where.

    Examples
    --------
    >>> from trnsim.parallel import Group, Placement
    >>> layout = lay_out(Group(first=3, stride=8, size=12), Placement(ranks_per_chip=1, chips=32))
    >>> len(layout.unit), layout.repetitions, layout.inner
    (4, 3, 4)
    """
    per_server = placement.ranks_per_server
    period = per_server // math.gcd(group.stride, per_server)  # members until one sits in a server as the first does
    count, step = group.size, 0
    if group.size % period == 0 and group.first % per_server < group.stride:  # no repetition shares a server
        count, step = period, group.stride * period // per_server
    slots = [placement.slot(group.first + member * group.stride) for member in range(count)]
    first = slots[0].server
    unit = tuple(Slot(slot.server - first, slot.chip, slot.core) for slot in slots)
    layout = Layout(group.size, unit, first, step)
    return Layout(group.size, unit, 0, 0) if layout.in_one_server else layout


def renumbered(layout: Layout, server: Server) -> Layout:
    """Return the layout on other chips of its servers, with the same chips for all that lie alike.

    A torus is moved so that the first member sits on chip 0. Under switches racks, sleds and places of a sled, in a
    star chips, are numbered as members come to use them. Both keep every route as it is, so a group costs the same as before, unless
    a switch group of the fabric between servers ends inside a server.

    Examples
    --------
    >>> from trnsim.hardware import load_server
    >>> from trnsim.parallel import Group, Placement
    >>> server = load_server("trn3-gen2-ultraserver")
    >>> layout = lay_out(Group(first=5, stride=72, size=4), Placement(ranks_per_chip=1, chips=144))
    >>> [slot.chip for slot in renumbered(layout, server).unit]
    [0, 72]
    """
    scale_up = server.scale_up
    if isinstance(scale_up, TorusScaleUp):
        names = _moved_to_origin([slot.chip for slot in layout.unit], scale_up.dims)
    elif isinstance(scale_up, SwitchedScaleUp):
        names = _by_first_use([slot.chip for slot in layout.unit], (scale_up.sled_size, scale_up.rack_size))
    elif isinstance(scale_up, StarScaleUp):
        names = _by_first_use([slot.chip for slot in layout.unit], (server.chips, server.chips))
    else:
        return layout
    unit = tuple(Slot(slot.server, chip, slot.core) for slot, chip in zip(layout.unit, names, strict=True))
    return Layout(layout.size, unit, layout.first_server, layout.server_step)


def _moved_to_origin(chips: Sequence[int], dims: tuple[int, ...]) -> list[int]:
    origin = torus_coordinates(chips[0], dims)
    return [
        sum(
            (place - start) % size * math.prod(dims[:axis])
            for axis, (place, start, size) in enumerate(zip(torus_coordinates(chip, dims), origin, dims, strict=True))
        )
        for chip in chips
    ]


def _by_first_use(chips: Sequence[int], sizes: tuple[int, int]) -> list[int]:
    """Give racks, sleds of a rack and places of a sled their numbers in the order of use; twins keep equal places."""
    sled_size, rack_size = sizes
    racks: dict[int, int] = {}
    sleds: dict[int, int] = {}
    places: dict[tuple[int, int], int] = {}
    used: Counter[int] = Counter()
    names = []
    for chip in chips:
        rack, in_rack = divmod(chip, rack_size)
        sled, place = divmod(in_rack, sled_size)
        rack, sled = racks.setdefault(rack, len(racks)), sleds.setdefault(sled, len(sleds))
        if (sled, place) not in places:
            places[sled, place] = used[sled]
            used[sled] += 1
        names.append(rack * rack_size + sled * sled_size + places[sled, place])
    return names


def arrange(layout: Layout, server: Server) -> Arrangement:
    """Return what algorithms may know of a group: its servers and chips, `tours`, and the torus that it covers.

    The shape of a server's torus is given where its members are all chips in the order of their numbers, equally many
    on each.
    """
    scale_up, per_chip = server.scale_up, layout.per_chip
    shape: tuple[int, ...] = ()
    if isinstance(scale_up, TorusScaleUp) and len(layout.unit) == layout.inner:
        chips = [slot.chip for slot in layout.unit[::per_chip]]
        shape = scale_up.dims if chips == list(range(math.prod(scale_up.dims))) else ()
    return Arrangement(layout.size, layout.inner, tours(layout, server), per_chip, shape)


def tours(layout: Layout, server: Server) -> tuple[tuple[int, ...], ...]:
    """Return two tours of a server's members that share no link, where they cover a square torus.

    The members have to be all chips of one plane of the first two axes, equally many on each, and both axes of one
    link class; a chip's members follow one another. Everything else gets none and is visited in the order of ranks.

    Notes
    -----
    Not modelled: the third axis of a 3-D torus, which would allow a third cycle.
    """
    scale_up = server.scale_up
    if not isinstance(scale_up, TorusScaleUp) or len(layout.unit) != layout.inner or len(scale_up.dims) < 2:
        return ()
    side, plane = scale_up.dims[0], math.prod(scale_up.dims[:2])
    on_chip: dict[int, list[int]] = {}
    for member, slot in enumerate(layout.unit):
        on_chip.setdefault(slot.chip, []).append(member)
    first = min(on_chip) // plane * plane
    square = scale_up.dims[1] == side >= 3 and scale_up.links[0] == scale_up.links[1]
    covered = sorted(on_chip) == list(range(first, first + plane)) and len(set(map(len, on_chip.values()))) == 1
    if not (square and covered):
        return ()
    return tuple(tuple(member for node in cycle for member in on_chip[first + node]) for cycle in disjoint_cycles(side))
