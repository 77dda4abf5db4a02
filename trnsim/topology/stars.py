"""Machines whose routes are a formula and no grid: stars, fully connected chips, and two-level fat trees."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from trnsim.topology.bisections import fat_tree_bisection, full_bisection, star_bisection
from trnsim.topology.network import SWITCH, Network, Routes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trnsim.topology.network import Bisection

    Whole = NDArray[np.int64]

__all__ = ["fat_tree_network", "full_network", "star_network"]


def star_network(
    name: str, hosts: int, bandwidth_bytes_per_s: float, latency_s: float, *, reduces: bool = False
) -> Network:
    """Hang chips on one switch: an up link and a down link each, so that every path has two.

    Parameters
    ----------
    name
        As the user wrote it.
    hosts
        Chips. >= 1.
    bandwidth_bytes_per_s, latency_s
        Of each link.
    reduces
        Whether the switch can add.

    Examples
    --------
    >>> star = star_network("star", 8, 50e9, 250e-9)
    >>> [star.link_name(link) for link in star.routes([1], [6]).link]
    ['chip 1 -> switch', 'switch -> chip 6']
    """

    def router(sources: Whole, targets: Whole) -> Routes:
        moves = sources != targets
        ups = np.where(moves & (sources != SWITCH), sources, -1)
        downs = np.where(moves & (targets != SWITCH), hosts + targets, -1)
        return Routes.from_columns(np.stack([ups, downs], axis=1))

    def namer(link: int) -> str:
        return f"chip {link} -> switch" if link < hosts else f"switch -> chip {link - hosts}"

    bisection = star_bisection(hosts, bandwidth_bytes_per_s)
    port = (hosts, bandwidth_bytes_per_s)
    return _network(
        name, hosts, {"up": port, "down": port}, latency_s, (router, namer), bisection=bisection, reduces=reduces
    )


def full_network(name: str, chips: int, bandwidth_bytes_per_s: float, latency_s: float) -> Network:
    """Join every two chips by a cable of their own.

    Parameters
    ----------
    name
        As the user wrote it.
    chips
        >= 1.
    bandwidth_bytes_per_s, latency_s
        Of each link.

    Examples
    --------
    >>> full = full_network("fully-connected", 4, 50e9, 250e-9)
    >>> full.links, full.link_name(full.routes([3], [1]).link[0])
    (12, 'chip 3 -> chip 1')
    """
    peers = chips - 1

    def router(sources: Whole, targets: Whole) -> Routes:
        link = sources * peers + targets - (targets > sources)
        return Routes.from_columns(np.where(sources == targets, -1, link)[:, None])

    def namer(link: int) -> str:
        source, peer = divmod(link, peers)
        return f"chip {source} -> chip {peer + (peer >= source)}"

    return _network(
        name,
        chips,
        {"link": (chips * peers, bandwidth_bytes_per_s)},
        latency_s,
        (router, namer),
        bisection=full_bisection(chips, bandwidth_bytes_per_s),
    )


def fat_tree_network(
    name: str,
    leaves: int,
    hosts: int,
    bandwidth_bytes_per_s: float,
    latency_s: float,
    *,
    oversubscription: Fraction = Fraction(1),
) -> Network:
    """Hang chips on leaf switches, and those on spines over which packets are sprayed.

    The spines act as one, and a leaf has one trunk up and one trunk down that carry what its hosts send together,
    divided by the oversubscription.

    Parameters
    ----------
    name
        As the user wrote it.
    leaves
        Leaf switches. >= 1.
    hosts
        Chips on each leaf. >= 1.
    bandwidth_bytes_per_s
        Of the links of a host.
    latency_s
        Of each link; a path across leaves has four.
    oversubscription
        Ports down over ports up of a leaf. >= 1.

    References
    ----------
    Leiserson, IEEE Trans. Computers C-34(10), 1985, doi:10.1109/TC.1985.6312192

    Examples
    --------
    >>> tree = fat_tree_network("fat-tree:16x16", 16, 16, 50e9, 500e-9)
    >>> [tree.link_name(link) for link in tree.routes([15], [16]).link]
    ['chip 15 -> leaf 0', 'leaf 0 -> spine', 'spine -> leaf 1', 'leaf 1 -> chip 16']
    """
    chips = leaves * hosts
    port = (chips, bandwidth_bytes_per_s)
    trunk = (leaves, float(Fraction(bandwidth_bytes_per_s) * hosts / oversubscription))

    def router(sources: Whole, targets: Whole) -> Routes:
        moves, crosses = sources != targets, sources // hosts != targets // hosts
        columns = (
            np.where(moves, sources, -1),
            np.where(crosses, 2 * chips + sources // hosts, -1),
            np.where(crosses, 2 * chips + leaves + targets // hosts, -1),
            np.where(moves, chips + targets, -1),
        )
        return Routes.from_columns(np.stack(columns, axis=1))

    def namer(link: int) -> str:
        if link < 2 * chips:
            chip = link % chips
            ends = f"chip {chip}", f"leaf {chip // hosts}"
        else:
            ends = f"leaf {(link - 2 * chips) % leaves}", "spine"
        downward = chips <= link < 2 * chips or link >= 2 * chips + leaves
        return " -> ".join(reversed(ends) if downward else ends)

    kinds = {"up": port, "down": port, "leaf-spine": trunk, "spine-leaf": trunk}
    bisection = fat_tree_bisection(leaves, hosts, bandwidth_bytes_per_s, trunk[1])
    return _network(name, chips, kinds, latency_s, (router, namer), bisection=bisection)


def _network(
    name: str,
    endpoints: int,
    kinds: dict[str, tuple[int, float]],
    latency_s: float,
    ways: tuple[Callable[[Whole, Whole], Routes], Callable[[int], str]],
    *,
    bisection: Bisection,
    reduces: bool = False,
) -> Network:
    """Make a network of kinds of links in a row, each with its size and bandwidth; the first leaves the chips."""
    counts, rates = np.array(list(kinds.values())).T
    kind = np.repeat(np.arange(len(kinds)), counts.astype(np.int64))
    router, namer = ways
    return Network(
        name=name,
        endpoints=endpoints,
        kinds=tuple(kinds),
        kind=kind.astype(np.int16),
        bytes_per_s=np.rint(rates)[kind].astype(np.int64),
        latency_s=np.full(len(kind), latency_s),
        orbit=kind,
        reduces=reduces,
        uplinks=np.flatnonzero(kind == 0),
        router=router,
        namer=namer,
        bisection=bisection,
    )
