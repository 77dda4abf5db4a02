"""What a user asks about a collective: texts with units into numbers, with everything that is wrong in one report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from trnsim import documents, hardware
from trnsim.collectives import algorithm as find_algorithm
from trnsim.collectives import op_names
from trnsim.documents.text import shorten
from trnsim.record import Record
from trnsim.simulation.sizes import parse_sizes
from trnsim.topology.forms import form_of
from trnsim.topology.machines import MACHINES, is_machine
from trnsim.units import parse_bandwidth, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trnsim.fabric.network_fabric import Fidelity
    from trnsim.simulation.problems import Report
    from trnsim.topology.machines import Ties

    Matrix = tuple[tuple[int, ...], ...]
    Policy = Literal["fastest", "neuron"]
    Kind = Literal["machine", "server", "network", "unknown"]

__all__ = [
    "DEFAULT_SIZES",
    "Place",
    "Question",
    "is_fabric",
    "read_place",
    "read_question",
    "read_text",
]

DEFAULT_SIZES: Final = "8:1GiB"
"""Sizes that are timed when nobody says which."""

_NO_SIZES: tuple[int, ...] = ()

NEURON_OPS = ("all-gather", "all-reduce", "reduce-scatter")
"""Operations for which Neuron's choice by size is known."""

_MOST_MATRIX_RANKS = 4096


class Place(Record):
    """The network that a user names.

    Parameters
    ----------
    on
        A generic machine, a server, a network of ``topologies/``, or a file.
    kind
        Which of them it is; for a file, what is in it.
    servers
        How many of the server. >= 1.
    fabric
        What joins them; None for the default.
    rank
        What is one rank of a server: a chip, or a logical core.
    link_bandwidth_bytes_per_s, link_latency_s
        Of each link and direction of a generic machine; the bandwidth is zero elsewhere.
    ties
        What transfers of a generic machine do between two ways round that are as short.
    """

    on: str
    kind: Kind
    servers: int = 1
    fabric: str | None = None
    rank: Literal["chip", "logical_core"] = "chip"
    link_bandwidth_bytes_per_s: float = 0.0
    link_latency_s: float = 0.0
    ties: Ties = "split"


class Question(Record):
    """What a user asks.

    Parameters
    ----------
    op
        Operation.
    place
        Where it takes place.
    ranks
        Members of the group; None for all that the network has place for.
    sizes
        Bytes of the buffer, ascending; zero for a barrier.
    algorithm
        A name, or ``auto``.
    fidelity
        How it is priced.
    policy
        How ``auto`` chooses.
    degrade
        How many uplinks are slowed, and what is left of their bandwidth; None if none are.
    matrix
        For an all-to-all-v what each rank (row) sends to each (column), relative to one another; empty if all are alike.
    """

    op: str
    place: Place
    ranks: int | None
    sizes: tuple[int, ...]
    algorithm: str
    fidelity: Fidelity
    policy: Policy
    degrade: tuple[int, float] | None
    matrix: Matrix


def read_question(
    report: Report,
    op: str,
    on: str,
    *,
    servers: int,
    fabric: str | None,
    ranks: int | None,
    rank: str,
    sizes: str | Sequence[int] | None,
    algorithm: str,
    fidelity: str,
    policy: str,
    link_bandwidth: str | None,
    link_latency: str | None,
    ties: str | None,
    degrade: str | None,
    matrix: str | None,
) -> Question:
    """Read the texts of a user; what is wrong goes to the report, and something legal stands in for it.

    Parameters
    ----------
    report
        Is told what is wrong.
    op, on, servers, fabric, ranks, rank, sizes, algorithm, fidelity, policy, link_bandwidth, link_latency, ties, degrade,
    matrix
        As for `trnsim.collective`.
    """
    place = read_place(
        report,
        on,
        servers=servers,
        fabric=fabric,
        rank=rank,
        link_bandwidth=link_bandwidth,
        link_latency=link_latency,
        ties=ties,
    )
    known = report.choice("op", op, op_names(), "collective")
    report.count("ranks", ranks)
    chosen = _algorithm(report, op, algorithm)
    shares = _matrix(report, known, matrix)
    return Question(
        op=known,
        place=place,
        ranks=len(shares) if shares and ranks is None else ranks,
        sizes=_sizes(report, known, sizes),
        algorithm=chosen,
        fidelity=_fidelity(report.choice("fidelity", fidelity, ("flow", "closed_form", "chunk"))),
        policy=_policy(report, known, chosen, policy),
        degrade=report.read("degrade", read_degrade, degrade, (1, 1.0)) if degrade is not None else None,
        matrix=shares,
    )


def read_place(
    report: Report,
    on: str,
    *,
    servers: int = 1,
    fabric: str | None = None,
    rank: str = "chip",
    link_bandwidth: str | None = None,
    link_latency: str | None = None,
    ties: str | None = None,
) -> Place:
    """Read which network a user means; what is wrong goes to the report."""
    report.count("servers", servers)
    place = Place(
        on=on,
        kind=report.read("on", lambda on: kind_of(on, several=servers > 1 or fabric is not None), on, "unknown"),
        servers=servers,
        fabric=fabric,
        rank="logical_core" if report.choice("rank", rank, ("chip", "logical_core")) == "logical_core" else "chip",
        link_bandwidth_bytes_per_s=_given(report, "link_bandwidth", parse_bandwidth, link_bandwidth),
        link_latency_s=_given(report, "link_latency", parse_time, link_latency),
        ties="positive" if ties and report.choice("ties", ties, ("split", "positive")) == "positive" else "split",
    )
    of_machines = {"link_bandwidth": link_bandwidth, "link_latency": link_latency, "ties": ties}
    of_servers = {
        "servers": servers if servers > 1 else None,
        "fabric": fabric,
        "rank": None if place.rank == "chip" else place.rank,
    }
    if place.kind == "machine" and link_bandwidth is None:
        report.add("link_bandwidth", 'due for a generic machine, whose links are all alike; write it like "50 GB/s"')
    if place.kind in ("server", "network"):
        _refuse(
            report,
            of_machines,
            f"only for generic machines ({', '.join(MACHINES)}); {shorten(on)} has links of its own",
        )
    if place.kind in ("machine", "network"):
        _refuse(
            report,
            of_servers,
            f"only for servers of the catalog; {shorten(on)} is all there is, and its ranks are chips",
        )
    return place


def _refuse(report: Report, given: Mapping[str, object], reason: str) -> None:
    """Note every value that was given."""
    for key, value in given.items():
        if value is not None:
            report.add(key, reason, value)


def kind_of(on: str, *, several: bool = False) -> Kind:
    """Return what a user's words stand for.

    A graph of ``topologies/`` with the name of a server shows one of them in more detail; `several` are always servers.

    Raises
    ------
    ValueError
        If nothing has that name, with near matches and the list; or if it is a fabric, which has no chips of its own.

    Examples
    --------
    >>> kind_of("torus:4x4x4"), kind_of("trn2-ultraserver"), kind_of("dgx-h100")
    ('machine', 'server', 'network')
    """
    if is_machine(on):
        return "machine"
    plain = on.rpartition("@")[0] or on
    file = documents.existing(on) or documents.existing(plain)
    is_server = file is None and plain in hardware.names("servers")
    if file is None and on in documents.names("topologies"):
        file = documents.locate("topologies", on)
    if is_server and (several or file is None or form_of(documents.read_document(file)) != "graph"):
        return "server"
    if file is None:
        known = (*MACHINES, *hardware.names("servers"), *documents.names("topologies"))
        raise ValueError(documents.refuse_unknown("topology or server", on.partition(":")[0], dict.fromkeys(known)))
    form = form_of(documents.read_document(file))
    if form == "fabric":
        raise ValueError("it joins servers and has no chips of its own; name a server here, and this with --fabric")
    return "server" if form is None else "network"


def is_fabric(name: str) -> bool:
    """Say whether a name or a file is that of a fabric, which joins servers.

    Examples
    --------
    >>> is_fabric("ultracluster"), is_fabric("dgx-h100")
    (True, False)
    """
    file = documents.existing(name)
    if file is None and name in documents.names("topologies"):
        file = documents.locate("topologies", name)
    return file is not None and form_of(documents.read_document(file)) == "fabric"


def _given(report: Report, key: str, parse: Callable[[object], float], text: str | None) -> float:
    """Return what a text with a unit stands for; 0 without one."""
    return 0.0 if text is None else report.read(key, parse, text, 0.0)


def _sizes(report: Report, op: str, sizes: str | Sequence[int] | None) -> tuple[int, ...]:
    if op == "barrier":
        if sizes is not None:
            report.warnings.append("bytes: a barrier has no buffer, so sizes make no difference")
        return (0,)
    if sizes is None or isinstance(sizes, str):
        return report.read("bytes", parse_sizes, DEFAULT_SIZES if sizes is None else sizes, _NO_SIZES)
    for size in sizes:
        report.read("bytes", parse_sizes, str(size), _NO_SIZES)
    return tuple(sizes)


def _algorithm(report: Report, op: str, name: str) -> str:
    """Return the name of an algorithm as it is kept; of one that no operation is known for, as it was given."""
    if documents.canonical(name) == "auto":
        return "auto"
    known = any(documents.canonical(op) == documents.canonical(each) for each in op_names())
    return report.read("algorithm", lambda word: find_algorithm(op, word).name, name, "auto") if known else name


def _policy(report: Report, op: str, algorithm: str, policy: str) -> Policy:
    if report.choice("policy", policy, ("fastest", "neuron")) != "neuron":
        return "fastest"
    if algorithm != "auto":
        report.warnings.append(f"policy: {algorithm} was named, so there is nothing to choose")
    elif op and op not in NEURON_OPS:
        report.add("policy", f"Neuron's choice is known for {', '.join(NEURON_OPS)}, not for {op}", policy)
    return "neuron"


def _matrix(report: Report, op: str, file: str | None) -> Matrix:
    if file is None:
        return ()
    if op and op != "all-to-all-v":
        report.add("matrix", f"for an all-to-all-v, not for {op}")
        return ()
    return report.read("matrix", lambda path: read_matrix(read_text(path)), file, ())


def read_text(path: str) -> str:
    """Return the text of a file.

    Raises
    ------
    ValueError
        If there is no such file, or it holds no text.
    """
    file = documents.existing(path)
    if file is None:
        raise ValueError("no such file")
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise ValueError(f"cannot be read: {reason}") from None


def _fidelity(word: str) -> Fidelity:
    return "closed_form" if word == "closed_form" else "chunk" if word == "chunk" else "flow"


def read_degrade(text: str) -> tuple[int, float]:
    """Read how many links are slowed, and what is left of their bandwidth.

    Raises
    ------
    ValueError
        If it is not a count of at least 1, a colon, and a share above 0 and up to 1.

    Examples
    --------
    >>> read_degrade("10:0.5")
    (10, 0.5)
    """
    links, colon, factor = text.partition(":")
    try:
        found = int(links), float(factor)
    except ValueError:
        found = 0, 0.0
    if not colon or found[0] < 1 or not 0 < found[1] <= 1:
        raise ValueError("write how many links, and what is left of their bandwidth, like 10:0.5")
    return found


def read_matrix(text: str) -> Matrix:
    r"""Read what each rank sends to each: a row of whole numbers for each sender, parted by commas or blanks.

    Raises
    ------
    ValueError
        If it is not square, or holds something else.

    Examples
    --------
    >>> read_matrix("0, 2\n1, 0")
    ((0, 2), (1, 0))
    """
    lines = [line.replace(",", " ").split() for line in text.splitlines() if line.strip()]
    try:
        rows = tuple(tuple(int(cell) for cell in line) for line in lines)
    except ValueError:
        raise ValueError("it holds whole numbers, a row for each sender") from None
    if not rows or len(rows) > _MOST_MATRIX_RANKS or any(len(row) != len(rows) for row in rows):
        lengths = ", ".join(map(str, sorted({len(row) for row in rows})))
        raise ValueError(
            f"it is square, up to {_MOST_MATRIX_RANKS:,} ranks; here {len(rows)} rows have {lengths or 'no'} numbers"
        )
    if min(map(min, rows)) < 0 or not any(map(any, rows)):
        raise ValueError("what is sent is not negative, and not all of it zero")
    return rows
