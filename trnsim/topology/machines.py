"""Generic machines by name: ``ring``, ``star``, ``torus:4x4x4``, ``fat-tree:16x16`` and the like."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from trnsim.documents import canonical, refuse_unknown
from trnsim.errors import InputError, Problem
from trnsim.topology.grids import Grid, grid_network
from trnsim.topology.stars import fat_tree_network, full_network, star_network

if TYPE_CHECKING:
    from trnsim.topology.network import Network

__all__ = ["MACHINES", "Ties", "is_machine", "machine"]

Ties = Literal["split", "positive"]
"""What a transfer does between two ways round a ring that are as short: both halves, or the positive way."""

MACHINES = {
    "ring": "",
    "star": "",
    "switch": "",
    "fully-connected": "",
    "torus": "4x4x4",
    "mesh": "8x8",
    "hypercube": "6",
    "fat-tree": "16x16",
}
"""Name of each generic machine, and an example of its shape; without one the size is asked for."""

MOST_ENDPOINTS = 1 << 20
MOST_FULLY_CONNECTED = 4096


def is_machine(spec: str) -> bool:
    """Say whether a specification starts with the name of a generic machine; case and dashes do not count."""
    return _name(spec) is not None


def machine(
    spec: str,
    *,
    endpoints: int | None = None,
    bandwidth_bytes_per_s: float,
    latency_s: float,
    ties: Ties = "split",
) -> Network:
    """Build a generic machine, all of whose links are alike.

    Parameters
    ----------
    spec
        ``ring``, ``star``, ``switch``, ``fully-connected``, ``torus:4x4x4``, ``mesh:8x8``, ``hypercube:6`` (64 chips),
        ``fat-tree:16x16`` (leaves x hosts of a leaf) or ``fat-tree:16x16:2`` (leaves oversubscribed 2 to 1).
    endpoints
        Chips; needed where `spec` has no shape, and checked where it has one. >= 1.
    bandwidth_bytes_per_s
        Of each link and direction. > 0.
    latency_s
        Of each link; of a ``switch``, of the path from chip to chip. >= 0.
    ties
        ``split`` halves a transfer between two ways round that are as short; ``positive`` takes one.

    Raises
    ------
    InputError
        If there is no such machine, its shape is wrong, or it does not have `endpoints` chips.

    Examples
    --------
    >>> torus = machine("torus:4x4x4", bandwidth_bytes_per_s=50e9, latency_s=500e-9)
    >>> torus.endpoints, torus.counts()
    (64, {'link': 384})
    """
    if not (1 <= bandwidth_bytes_per_s < math.inf and 0 <= latency_s < math.inf):
        raise _refused(spec, "a link carries at least 1 B/s, and its latency is not negative")
    name, dims, ratio = _read(spec, endpoints)
    if name == "fully-connected":
        return full_network(spec, dims[0], bandwidth_bytes_per_s, latency_s)
    if name in ("star", "switch"):
        is_switch = name == "switch"
        link_s = latency_s / 2 if is_switch else latency_s
        return star_network(spec, dims[0], bandwidth_bytes_per_s, link_s, reduces=is_switch)
    if name == "fat-tree":
        leaves, hosts = dims
        return fat_tree_network(spec, leaves, hosts, bandwidth_bytes_per_s, latency_s, oversubscription=ratio)
    return grid_network(spec, Grid(dims, wraps=name != "mesh", split=ties == "split"), bandwidth_bytes_per_s, latency_s)


def _read(spec: str, endpoints: int | None) -> tuple[str, tuple[int, ...], Fraction]:
    """Return the name of a machine, its shape, and the oversubscription of a fat tree."""
    word, _, shape = spec.partition(":")
    if (name := _name(spec)) is None:
        raise _refused(spec, refuse_unknown("machine", word, MACHINES))
    dims, ratio = _shape(spec, name, shape) if MACHINES[name] else (_size(spec, name, shape, endpoints), Fraction(1))
    if min(dims, default=1) < 1 or ratio < 1:
        raise _refused(spec, "sizes are at least 1, and so is oversubscription")
    chips, most = math.prod(dims), MOST_FULLY_CONNECTED if name == "fully-connected" else MOST_ENDPOINTS
    if chips > most:
        raise _refused(spec, f"{chips:,} chips are more than the {most:,} that a {name} may have")
    if endpoints not in (None, chips):
        raise _refused(spec, f"it has {chips:,} chips, not {endpoints:,}")
    return name, dims, ratio


def _name(spec: str) -> str | None:
    wanted = canonical(spec.partition(":")[0])
    return next((name for name in MACHINES if canonical(name) == wanted), None)


def _size(spec: str, name: str, shape: str, endpoints: int | None) -> tuple[int, ...]:
    if shape or endpoints is None:
        raise _refused(spec, f"a {name} has no shape; it takes its size from the number of ranks")
    return (endpoints,)


def _shape(spec: str, name: str, shape: str) -> tuple[tuple[int, ...], Fraction]:
    patterns = {"hypercube": r"(\d{1,2})", "fat-tree": r"(\d{1,7}x\d{1,7})(?::(\d{1,4}(?:\.\d{1,4})?))?"}
    found = re.fullmatch(patterns.get(name, r"(\d{1,7}(?:x\d{1,7}){0,5})"), shape.casefold())
    if found is None:
        raise _refused(spec, f"a {name} is written like {name}:{MACHINES[name]}")
    dims, *ratio = found.groups(default="1")
    sizes = tuple(int(size) for size in dims.split("x"))
    return (2,) * sizes[0] or (1,) if name == "hypercube" else sizes, Fraction(*ratio or ("1",))


def _refused(spec: str, message: str) -> InputError:
    return InputError([Problem("", message)], file=spec)
