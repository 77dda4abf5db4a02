"""Machines as they are: some chips are slow, some links are degraded or have failed. Only exceptions are kept."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from msgspec import field

from trnsim.record import Record
from trnsim.topology.draws import choose, uniforms
from trnsim.topology.places import CHIPS, Cable, Trunk

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from trnsim.topology.draws import Lognormal, Uniform
    from trnsim.topology.places import Places

__all__ = ["Hits", "Impairments", "Perturbation", "impair"]

_NAMED = 3


class Perturbation(Record):
    """Chips or links that are not as the datasheet has them.

    Parameters
    ----------
    name
        Tells it from the others, and names its random streams.
    of
        ``"chips"``, or the kind of the links.
    speed
        Share of the healthy speed that is left, or how it is drawn, once for each place. Above 0, at most 1; 0 for links
        that have failed.
    at
        Names of places; empty where they are drawn.
    count
        How many places are drawn.
    each
        Kind of the places that are drawn; all chips, or links of the kind, in one have the same speed.
    """

    name: str
    of: str
    speed: float | Uniform | Lognormal
    at: tuple[str, ...]
    count: int
    each: str


class Impairments(Record, eq=False):
    """Everything in a cluster that is slower than it should be: the share of its speed that is left, 0 if it has failed.

    Parameters
    ----------
    chips, nics
        By chip, numbered over the whole cluster.
    cables
        By server, then by the two nodes that they join.
    trunks
        By switch group at their lower end.
    """

    chips: Mapping[int, float] = field(default_factory=dict)
    nics: Mapping[int, float] = field(default_factory=dict)
    cables: Mapping[int, Mapping[tuple[str, str], float]] = field(default_factory=dict)
    trunks: Mapping[Trunk, float] = field(default_factory=dict)

    @property
    def links(self) -> tuple[object, ...]:
        """All that there is but slow chips."""
        return self.nics, self.cables, self.trunks

    @property
    def of_links(self) -> bool:
        """Whether any link is impaired."""
        return any(self.links)


class Hits(NamedTuple):
    """What a perturbation strikes: how many chips or links, and the names of the first places."""

    struck: int
    places: tuple[str, ...]


class _Strike(NamedTuple):
    """A place, what is impaired there, and the speed that is left."""

    place: str
    targets: Sequence[Hashable]
    speed: float


def impair(perturbations: Iterable[Perturbation], places: Places, seed: int) -> tuple[Impairments, dict[str, Hits]]:
    """Find what perturbations strike; where several strike the same, their speeds are multiplied.

    A perturbation strikes each chip or link once: what lies in two of its places, such as a cable between two chips, has
    the lower of their speeds.

    Parameters
    ----------
    perturbations
        Of different names.
    places
        The cluster.
    seed
        Of the run: what is drawn depends on it and on the perturbation's name.

    Raises
    ------
    ValueError
        If a place does not exist, or more are to be drawn than there are.

    Examples
    --------
    >>> from trnsim.hardware import load_server
    >>> from trnsim.topology.places import Places
    >>> places = Places(load_server("trn2.48xlarge"), servers=1, fabric=None)
    >>> slow = Perturbation("hot", "chips", 0.5, at=("server 0/chip 3",), count=0, each="chip")
    >>> found, hits = impair([slow], places, seed=0)
    >>> found.chips, hits["hot"]
    ({3: 0.5}, Hits(struck=1, places=('server 0/chip 3',)))
    """
    speeds: dict[str, dict[Hashable, float]] = {}
    hits = {}
    for perturbation in perturbations:
        strikes = list(_strikes(perturbation, places, seed))
        struck: dict[Hashable, float] = {}
        for strike in strikes:
            for target in strike.targets:
                struck[target] = min(struck.get(target, 1.0), strike.speed)
        found = speeds.setdefault(perturbation.of, {})
        for target, speed in struck.items():
            found[target] = found.get(target, 1.0) * speed
        names = tuple(strike.place for strike in islice(strikes, _NAMED))
        hits[perturbation.name] = Hits(len(struck), names)
    return _sorted_out(speeds), hits


def _sorted_out(speeds: Mapping[str, Mapping[Hashable, float]]) -> Impairments:
    cables: dict[int, dict[tuple[str, str], float]] = {}
    trunks: dict[Trunk, float] = {}
    chips: dict[int, float] = {}
    nics: dict[int, float] = {}
    for of, found in speeds.items():
        for target, speed in found.items():
            if isinstance(target, Cable):
                cables.setdefault(target.server, {})[target.ends] = speed
            elif isinstance(target, Trunk):
                trunks[target] = speed
            elif isinstance(target, int):
                (chips if of == CHIPS else nics)[target] = speed
    return Impairments(chips, nics, cables, trunks)


def _strikes(perturbation: Perturbation, places: Places, seed: int) -> Iterator[_Strike]:
    stream = f"perturbation {perturbation.name} of seed {seed}"
    if perturbation.at:
        named = list(dict.fromkeys(perturbation.at))
        numbers = list(range(len(named)))
    else:
        units = places.count(perturbation.each)
        if perturbation.count > units:
            raise ValueError(f"{perturbation.count:,} are to be drawn, and there are {units:,}")
        numbers = choose(f"{stream}: places", units, perturbation.count)
        named = [places.name(perturbation.each, number) for number in numbers]
    speed = perturbation.speed
    speeds = [speed] * len(named) if isinstance(speed, float) else map(speed.at, uniforms(f"{stream}: speed", numbers))
    for place, drawn in zip(named, speeds, strict=True):
        yield _Strike(place, _targets(perturbation.of, place, places), drawn)


def _targets(of: str, place: str, places: Places) -> Sequence[Hashable]:
    if of in (CHIPS, places.nic):
        return places.chips_at(place)
    return [places.trunk_at(of, place)] if of in places.trunks else places.cables_at(of, place)
