"""Places of a cluster by name: chips, parts of servers, cables, switch groups; and how many there are."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from trnsim.documents import nearest
from trnsim.hardware import StarScaleUp, SwitchedScaleUp, TorusScaleUp
from trnsim.record import Record
from trnsim.topology.server import server_topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.hardware import Server
    from trnsim.topology.fabric import FabricTopology

__all__ = ["CHIPS", "Cable", "Places", "Trunk"]

CHIPS: Final = "chips"

_NUMBER = "[0-9]{1,18}"
_PLACE = re.compile(rf"server ({_NUMBER})(?:/(\w+) ({_NUMBER}))?")
_CABLE = re.compile(rf"server ({_NUMBER})/(\w+ {_NUMBER}) ?- ?(\w+ {_NUMBER})")


class Cable(NamedTuple):
    """All cables between two nodes of a server, both ways; the nodes as in the server's graph, the lesser name first."""

    server: int
    ends: tuple[str, str]

    def __str__(self) -> str:
        return f"server {self.server}/{'-'.join(self.ends)}"


class Trunk(NamedTuple):
    """All cables from a switch group of a tier to the tier above."""

    tier: int
    group: int


class Places(Record, eq=False, dict=True):
    """What the parts of a cluster are called.

    Parameters
    ----------
    server, servers
        What the cluster is made of.
    fabric
        What joins the servers; None for one server.

    Examples
    --------
    >>> from trnsim.hardware import load_server
    >>> places = Places(load_server("trn3-gen2-ultraserver"), servers=2, fabric=None)
    >>> places.chips_at("server 1/rack 1"), places.name("sled", 40), places.count("rack")
    (range(216, 288), 'server 1/sled 4', 4)
    """

    server: Server
    servers: int
    fabric: FabricTopology | None

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Chips of each kind of place inside a server, the server itself included."""
        inner = {"chip": 1, "instance": self.server.chips_per_host}
        if isinstance(self.server.scale_up, SwitchedScaleUp):
            inner |= {"sled": self.server.scale_up.sled_size, "rack": self.server.scale_up.rack_size}
        return inner | {"server": self.server.chips}

    @cached_property
    def trunks(self) -> dict[str, int]:
        """Kinds of links between switches, and the tier below each."""
        if self.fabric is None:
            return {}
        return {self.fabric.path_kinds(tier + 1)[tier + 1]: tier for tier in range(self.fabric.tiers_used - 1)}

    @property
    def nic(self) -> str:
        """Kind of the links between chips and the fabric; empty without one."""
        return self.fabric.path_kinds(0)[0] if self.fabric else ""

    @cached_property
    def link_kinds(self) -> tuple[str, ...]:
        """Kinds of links that the cluster has."""
        scale_up = self.server.scale_up
        inside: list[str] = []
        if isinstance(scale_up, TorusScaleUp):
            inside = [link.kind for link in scale_up.links]
        elif isinstance(scale_up, SwitchedScaleUp):
            inside = [scale_up.sled.kind, scale_up.rack.kind, scale_up.cross.kind]
        elif isinstance(scale_up, StarScaleUp):
            inside = [scale_up.switch.kind]
        return tuple(dict.fromkeys([*inside, *([self.nic] if self.nic else []), *self.trunks]))

    def count(self, unit: str) -> int:
        """Return how many places or links of a kind there are."""
        if unit in self.sizes:
            return self.servers * (self.server.chips // self.sizes[unit])
        if unit == self.nic:
            return self.servers * self.server.chips
        if unit in self.trunks and self.fabric is not None:
            return self.fabric.groups(self.trunks[unit])
        return self.servers * len(self._cables(unit))

    def name(self, unit: str, number: int) -> str:
        """Return the name of one of them, counted from 0 over the whole cluster."""
        if unit in self.trunks and self.fabric is not None:
            return f"{self.fabric.spec.tiers[self.trunks[unit]].name} {number}"
        if unit not in self.sizes and unit != self.nic:
            cables = self._cables(unit)
            return str(Cable(number // len(cables), cables[number % len(cables)]))
        unit = "chip" if unit == self.nic else unit
        server, inner = divmod(number, self.server.chips // self.sizes[unit])
        return f"server {server}" if unit == "server" else f"server {server}/{unit} {inner}"

    def chips_at(self, place: str) -> range:
        """Return the chips of a place, numbered over the whole cluster.

        Raises
        ------
        ValueError
            If there is no such place; names those that are near.
        """
        found = _PLACE.fullmatch(place.strip())
        if found is None or (found[2] or "server") not in self.sizes:
            raise ValueError(self._no_place(place))
        unit, inner = found[2] or "server", int(found[3] or 0)
        server, size = int(found[1]), self.sizes[unit]
        within = self.server.chips // size
        if server >= self.servers:
            raise ValueError(f"there is no server {server}: {_first_to_last('server', self.servers)}")
        if inner >= within:
            raise ValueError(f"server {server} has no {unit} {inner}: {_first_to_last(unit, within)}")
        first = server * self.server.chips + inner * size
        return range(first, first + size)

    def cables_at(self, kind: str, place: str) -> Sequence[Cable]:
        """Return the cables of a kind inside servers that end at chips of a place, or the one that is named.

        Raises
        ------
        ValueError
            If there is no such place or cable.
        """
        found = _CABLE.fullmatch(place.strip())
        if found is not None:
            ends = tuple(sorted(found.groups()[1:], key=_natural))
            server = self.chips_at(f"server {found[1]}").start // self.server.chips
            if ends not in self._cables(kind):
                touching = [cable for cable in self._cables(kind) if ends[0] in cable] or self._cables(kind)
                near = nearest(place, [str(Cable(server, cable)) for cable in touching]) or (
                    str(Cable(server, touching[0])),
                )
                raise ValueError(f"no {kind} cable is there; near are {', '.join(near)}")
            return [Cable(server, (ends[0], ends[1]))]
        chips = self.chips_at(place)
        server, first = divmod(chips.start, self.server.chips)
        names = {f"chip {chip}" for chip in range(first, first + len(chips))}
        return [Cable(server, ends) for ends in self._cables(kind) if names & set(ends)]

    def cable(self, kind: str, number: int) -> Cable:
        """Return one of the cables of a kind inside servers, counted from 0 over the whole cluster."""
        cables = self._cables(kind)
        return Cable(number // len(cables), cables[number % len(cables)])

    def trunk_at(self, kind: str, place: str) -> Trunk:
        """Return the trunk of the switch group that is named.

        Raises
        ------
        ValueError
            If there is no such switch group.
        """
        tier = self.trunks[kind]
        groups, (word, _, number) = self.count(kind), place.strip().partition(" ")
        tier_name = self.name(kind, 0).partition(" ")[0]
        if word != tier_name or not re.fullmatch(_NUMBER, number) or int(number) >= groups:
            raise ValueError(f"a switch group of {kind} is due: {_first_to_last(tier_name, groups)}")
        return Trunk(tier, int(number))

    def _cables(self, kind: str) -> tuple[tuple[str, str], ...]:
        return self._cables_by_kind.get(kind, ())

    @cached_property
    def _cables_by_kind(self) -> dict[str, tuple[tuple[str, str], ...]]:
        found: dict[str, dict[tuple[str, str], None]] = {}
        for source, target, data in server_topology(self.server).graph.edges(data=True):
            one, other = sorted((source, target), key=_natural)
            found.setdefault(data["kind"], {})[one, other] = None
        return {
            kind: tuple(sorted(ends, key=lambda pair: [_natural(end) for end in pair])) for kind, ends in found.items()
        }

    def _no_place(self, place: str) -> str:
        examples = [f"server 0/{unit} 0" for unit in self.sizes if unit != "server"]
        words = re.sub(r"\d+", "0", place)
        near = nearest(words, ["server 0", *examples], n=1)
        hint = f" (did you mean one like {near[0]}?)" if near else ""
        return f"no such place{hint}; places are written server 0, {', '.join(examples)}"


def _natural(name: str) -> tuple[str, int]:
    """Sort names with a number by it."""
    word, _, number = name.partition(" ")
    return word, int(number)


def _first_to_last(unit: str, count: int) -> str:
    return f"they are {unit} 0 to {unit} {count - 1}" if count > 1 else f"the only one is {unit} 0"
