"""What is known and what is assumed of a set of measured runs: one file for each in `study/data/groups`."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from msgspec.structs import asdict
from pydantic import Field

from trnsim.documents import Choice, Table, names, read_document, validate
from trnsim.hardware import load_server
from trnsim.hardware import names as names_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trnsim.hardware import Server
    from trnsim.study.measured import MeasuredRow

__all__ = [
    "GroupFile",
    "MachineTable",
    "fill_blanks",
    "groups",
    "machine_of",
    "matching",
    "model_keys",
    "of_its_own",
    "server_of",
    "training_keys",
]

Kept = TypeVar("Kept")

_FABRICS = {"efa": "ultracluster", "infiniband": "infiniband-ndr", "roce": "roce-24k", "dcn": "tpu-dcn"}
_FOLDER = Path(__file__).resolve().parent.parent / "data" / "groups"


class MachineTable(Table):
    """A machine of the catalog."""

    server: str = Field(description="server of the catalog")
    fabric: str = Field(description="network between servers")
    software: str = Field(description="software family that its rows are simulated with")
    slices: dict[str, str] = Field(
        default_factory=dict,
        description="by chips of a slice (accelerators / nodes), the server that stands for it in place of `server`",
    )
    collectives: dict[str, Any] = Field(
        default_factory=dict, description="keys of the table `collectives` of a scenario"
    )


class PeerTable(Table):
    """The error that another model has on the whole set."""

    mape_percent: float = Field(description="mean absolute error of step time")
    source: str = Field(description="who says so")


class GroupFile(Table):
    """What the columns of a set leave open."""

    assumed: list[str] = Field(description="what is assumed, in words, for people who read the result")
    hardware: dict[str, MachineTable] = Field(description="by the text of the column `hardware`, or a pattern of it")
    only: dict[str, list[str]] = Field(
        default_factory=dict, description="cells that rows of the set have, by column; other rows are of GROUP/other"
    )
    without: dict[str, list[str]] = Field(
        default_factory=dict, description="texts that cells of the set do not have in them, by column; as `only`"
    )
    least: dict[str, int] = Field(default_factory=dict, description="smallest value of a column; as `only`")
    parts: str | None = Field(default=None, description="column by whose cells parts of the set are shown as well")
    newest_of: list[str] = Field(
        default_factory=list, description="columns of a configuration, of whose rows that of the newest software counts"
    )
    blanks: dict[str, str] = Field(
        default_factory=dict,
        description="what a blank cell stands for, by column: a text, or what follows from the chips, as `3 x accelerators`",
    )
    words: dict[str, dict[str, str]] = Field(default_factory=dict, description="what a cell stands for, by column")
    blanks_by: dict[str, dict[str, dict[str, str]]] = Field(
        default_factory=dict, description="as `blanks`, and before them, by another column and the pattern of its cell"
    )
    skip: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="why rows are not simulated, by column and the pattern of its cell, as *LoRA*"
    )
    fastest: dict[str, list[str]] = Field(
        default_factory=dict,
        description="where `micro_batch` is blank: values to try by column, of which the fastest predicted counts",
    )
    hardware_flops: Annotated[str, Choice("megatron")] | None = Field(
        default=None, description="rule by which the source counts FLOPs with recompute"
    )
    model_flops: Annotated[str, Choice("megatron", "palm")] | None = Field(
        default=None, description="rule by which the source counts the FLOPs of MFU"
    )
    models: dict[str, str] = Field(default_factory=dict, description="models of the catalog by the column `model`")
    positions: Literal["learned", "rotary"] = Field(default="rotary", description="learned positions are parameters")
    rank: Literal["chip", "logical_core"] = "chip"
    model: dict[str, Any] = Field(default_factory=dict, description="keys of the table `model` of a scenario")
    model_by: dict[str, dict[str, dict[str, Any]]] = Field(
        default_factory=dict, description="further keys of it, by column and the pattern of its cell"
    )
    training: dict[str, Any] = Field(default_factory=dict, description="keys of the table `training`")
    training_by: dict[str, dict[str, dict[str, Any]]] = Field(
        default_factory=dict, description="further keys of it, by column and the pattern of its cell"
    )
    layout: dict[str, Any] = Field(default_factory=dict, description="keys of the table `layout`")
    schedule: dict[str, Any] = Field(default_factory=dict, description="keys of the table `schedule`")
    ends_count: bool = Field(
        default=False, description="whether embedding and loss count as a layer each where layers alone do not divide"
    )
    peers: dict[str, PeerTable] = Field(default_factory=dict)


def groups() -> dict[str, GroupFile]:
    """Read what is assumed of every set that trnsim knows.

    Examples
    --------
    >>> groups()["megascale"].blanks["micro_batch"]
    '1'
    """
    found = {}
    for name in names("groups", _FOLDER):
        document = read_document(_FOLDER / f"{name}.yaml")
        found[name] = validate(document, GroupFile)
    return found


def of_its_own(row: MeasuredRow) -> GroupFile | None:
    """Return what is assumed of a row of a set without a file: `hardware` is a server of the catalog; else None."""
    if row.hardware not in names_of("servers"):
        return None
    server = load_server(row.hardware)
    network = server.scale_out.kind if server.scale_out else "efa"
    machine = MachineTable(server=row.hardware, fabric=_FABRICS[network], software=server.chip.software_family)
    gpt = row.ffn is not None and row.ffn == 4 * (row.hidden or 0)
    model = {"gated_mlp": not gpt, "norm": "layernorm" if gpt else "rmsnorm", "tied_embeddings": gpt}
    return GroupFile(
        assumed=[
            "an MLP four times as wide as the model is that of a GPT, and any other is gated; no biases, flash attention"
        ],
        hardware={"*": machine},
        model=model,
    )


def fill_blanks(cells: dict[str, str], known: Mapping[str, GroupFile]) -> dict[str, str]:
    """Return the cells of a row with what is known or assumed of its set in place, and the name of the set that it is in."""
    group = known.get(cells.get("group", ""))
    if group is None:
        return cells
    filled = dict(cells)
    blanks = dict(group.blanks)
    for further in matching(cells, group.blanks_by):
        blanks |= further
    for column, cell in blanks.items():
        if not filled.get(column) and not (group.fastest and column in group.fastest):
            filled[column] = _of_the_chips(cell, filled)
    for column, meant in group.words.items():
        filled[column] = meant.get(filled.get(column, ""), filled.get(column, ""))
    filled["skipped"] = filled.get("skipped") or next(matching(filled, group.skip), "")
    if not _belongs(filled, group):
        filled["group"] = f"{cells['group']}/other"
    return filled


def matching(cells: Mapping[str, Any], by_cell: Mapping[str, Mapping[str, Kept]]) -> Iterator[Kept]:
    """Yield what is kept by column under patterns that cells of a row match."""
    for column, kept in by_cell.items():
        yield from (one for pattern, one in kept.items() if fnmatchcase(str(cells.get(column, "")), pattern))


def machine_of(row: MeasuredRow, group: GroupFile) -> MachineTable | None:
    """Return the machine that a row ran on; None where its set does not know it. A blank cell means the only one that it knows."""
    named = (machine for pattern, machine in group.hardware.items() if fnmatchcase(row.hardware, pattern))
    is_only = not row.hardware and len(group.hardware) == 1
    machine = next(iter(group.hardware.values())) if is_only else group.hardware.get(row.hardware) or next(named, None)
    if machine is None or not machine.slices:
        return machine
    chips = (row.accelerators or 0) // (row.nodes or 1)
    return machine.model_copy(update={"server": machine.slices.get(str(chips), machine.server)})


def model_keys(row: MeasuredRow, group: GroupFile) -> dict[str, Any]:
    """Return the keys of the table `model` that hold for a row."""
    return _with_further(group.model, group.model_by, row)


def training_keys(row: MeasuredRow, group: GroupFile) -> dict[str, Any]:
    """Return the keys of the table `training` that hold for a row."""
    return _with_further(group.training, group.training_by, row)


def _with_further(
    keys: Mapping[str, Any], by_cell: Mapping[str, Mapping[str, Mapping[str, Any]]], row: MeasuredRow
) -> dict[str, Any]:
    return {**keys, **dict(pair for further in matching(asdict(row), by_cell) for pair in further.items())}


def _of_the_chips(text: str, cells: Mapping[str, str]) -> str:
    """Return `3 x accelerators` as a number, where the cell of the accelerators is one; any other text as it is.

    Examples
    --------
    >>> _of_the_chips("1.5 x accelerators", {"accelerators": "64"}), _of_the_chips("full", {})
    ('96.0', 'full')
    """
    each, found, _ = text.partition(" x accelerators")
    return str(float(each) * _number(cells.get("accelerators", ""))) if found else text


@cache
def server_of(name: str) -> Server:
    """Return a server of the catalog; it is read once."""
    return load_server(name)


def _belongs(cells: Mapping[str, str], group: GroupFile) -> bool:
    """Say whether a row is of the set itself."""
    for column, allowed in group.only.items():
        if cells.get(column, "") not in allowed:
            return False
    for column, texts in group.without.items():
        if any(text in cells.get(column, "") for text in texts):
            return False
    return all(_number(cells.get(column, "")) >= least for column, least in group.least.items())


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return 0.0
