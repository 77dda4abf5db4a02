"""Fabric files into specifications."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from trnsim.documents import WHOLE, Duration, Table, locate
from trnsim.errors import InputError
from trnsim.hardware import SourcedFile, SourcedValue, read_entry
from trnsim.topology.forms import refuse_other_form
from trnsim.topology.spec import FabricSpec, Tier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trnsim.errors import Problem
    from trnsim.hardware import Entry

__all__ = ["load_fabric"]


class TierTable(Table):
    """One tier of switches."""

    name: str = Field(pattern="^[a-z][a-z0-9-]*$", description="one word, like tor or leaf")
    radix: SourcedValue[Annotated[int, Field(ge=2, le=1_000_000), WHOLE]]
    oversubscription: SourcedValue[Annotated[float, Field(ge=1)]]
    latency: SourcedValue[Duration]


class FabricFile(SourcedFile):
    """A file of ``topologies/`` that lists tiers."""

    description: str
    planes: SourcedValue[Annotated[int, Field(ge=1, le=64), WHOLE]]
    tiers: list[TierTable] = Field(min_length=1, description="a list of tiers, from the chips upward")


def load_fabric(name_or_path: str, relative_to: Path | None = None) -> FabricSpec:
    """Read a fabric.

    Parameters
    ----------
    name_or_path
        Name in ``topologies/`` or a file; an existing path beats a name.
    relative_to
        Folder to which a path is relative. By default the working directory.

    Raises
    ------
    InputError
        If there is no such fabric, it is a topology of another form, or with every problem of its file.

    Examples
    --------
    >>> fabric = load_fabric("ultracluster")
    >>> [fabric.capacity(tiers) for tiers in (1, 2, 3, 4)]
    [128, 8192, 524288, 33554432]
    """
    path = locate("topologies", name_or_path, relative_to)
    try:
        entry = read_entry(path, FabricFile)
    except InputError:
        refuse_other_form(path, "fabric")
        raise
    file = entry.file
    spec = FabricSpec(
        name=entry.name,
        description=file.description,
        planes=entry.sourced(file.planes),
        tiers=tuple(
            Tier(
                name=tier.name,
                radix=entry.sourced(tier.radix),
                oversubscription=entry.sourced(tier.oversubscription),
                latency_s=entry.sourced(tier.latency),
            )
            for tier in file.tiers
        ),
        notes=tuple(file.notes),
    )
    entry.refuse([*_problems(entry, spec)])
    return spec


def _problems(entry: Entry[FabricFile], spec: FabricSpec) -> Iterator[Problem]:
    """Yield what the file breaks as a whole."""
    if entry.variants:
        yield entry.document.problem("variants", "a fabric has no variants; write a second file", value=None)
    names = [tier.name for tier in spec.tiers]
    for index, name in enumerate(names):
        if name in ("server", *names[:index]):
            yield entry.document.problem(f"tiers[{index}].name", "the name is taken; choose another", value=name)
    last = len(names) - 1
    if (ratio := spec.tiers[last].oversubscription.value) != 1:
        message = "no tier is above the last one, so 1 is due"
        yield entry.document.problem(f"tiers[{last}].oversubscription", message, value=f"{ratio:g}")
    blocked = next((index for index in range(last) if spec.tiers[index].up_ports == 0), last)
    if blocked < last:
        radix, ratio = spec.tiers[blocked].radix.value, spec.tiers[blocked].oversubscription.value
        message = f"{radix} ports / (1 + {ratio:g}) leaves none up; at most {radix - 1} does"
        yield entry.document.problem(f"tiers[{blocked}].oversubscription", message, value=f"{ratio:g}")
    for index in range(1, blocked + 1):
        if (held := spec.capacity(index + 1)) <= (without := spec.capacity(index)):
            message = f"{index + 1} tiers hold {held:,} chips and {index} hold {without:,}; raise the radix"
            yield entry.document.problem(f"tiers[{index}].radix", message, value=spec.tiers[index].radix.value)
