"""One collective family: what the collectives of a machine and its runtime cost beside its links, fitted to measured ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from trnsim.documents import Duration, Fraction
from trnsim.documents import Table as FileTable
from trnsim.hardware.catalog_files import names, open_entry
from trnsim.hardware.schema import SourcedFile, SourcedValue
from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from trnsim.hardware.catalog_files import Entry
    from trnsim.hardware.sourced import Sourced

Share = Annotated[float, Field(gt=0)]
"""A factor on a bandwidth; above 1 where a fitted program has more on its links than the runtime puts there."""

__all__ = ["AlgorithmCost", "CollectiveFamily", "collective_family_of", "load_collective_family"]


class AlgorithmCost(Record):
    """What one algorithm costs; a value that is None was not needed.

    Parameters
    ----------
    launch_s
        Time once per collective. >= 0; None stands for 0.
    doubling_s
        Time once per collective for each doubling of the group, times log2 of its ranks. >= 0; None stands for 0.
    step_s
        Time of each step. >= 0; None stands for 0. The latency of the links is contained in these three times.
    bandwidth_share
        Factor on the achieved bandwidth of the links between chips. > 0; None stands for 1.
    """

    launch_s: Sourced[float] | None
    doubling_s: Sourced[float] | None
    step_s: Sourced[float] | None
    bandwidth_share: Sourced[float] | None


class CollectiveFamily(Record):
    """The fitted constants of the collectives of a machine with its runtime.

    Parameters
    ----------
    name
        Name in the catalog: ``neuron-trn1``.
    networks
        Servers of the catalog or topologies on which it was fitted, one server or the whole topology.
    fitted_on
        What was measured, in words.
    measured_rows
        Measured collectives behind the fit.
    error_fraction
        Median error without sign of rows outside the fit.
    bandwidth_share
        Factor on the bandwidth of all links between chips, whatever the algorithm; None stands for 1.
    core_link_share
        Factor on the bandwidth within a chip for groups inside one chip; None stands for 1.
    algorithms
        What each algorithm costs; there are no numbers for any other.
    basis
        Sources of the fields above that are plain: none, they are words.
    variants
        Variants that its file declares, and why each exists.
    notes
        What a reader of the numbers should know.
    """

    name: str
    networks: tuple[str, ...]
    fitted_on: str
    measured_rows: Sourced[int]
    error_fraction: Sourced[float]
    bandwidth_share: Sourced[float] | None
    core_link_share: Sourced[float] | None
    algorithms: Mapping[str, AlgorithmCost]
    basis: Mapping[str, Sourced[Any]]
    variants: Mapping[str, str]
    notes: tuple[str, ...] = ()


class AlgorithmTable(FileTable):
    """What one algorithm costs."""

    launch: SourcedValue[Duration] | None = None
    doubling: SourcedValue[Duration] | None = None
    step: SourcedValue[Duration] | None = None
    bandwidth_share: SourcedValue[Share] | None = None


class CollectiveFamilyFile(SourcedFile):
    """A file of ``catalog/collective-families``."""

    networks: list[str] = Field(min_length=1, description="servers of the catalog, or topologies")
    fitted_on: str = Field(min_length=1, description="what was measured, in words")
    measured_rows: SourcedValue[int]
    error_fraction: SourcedValue[Fraction]
    bandwidth_share: SourcedValue[Share] | None = None
    core_link_share: SourcedValue[Share] | None = None
    algorithms: dict[str, AlgorithmTable] = Field(min_length=1)


def load_collective_family(name_or_path: str, relative_to: Path | None = None) -> CollectiveFamily:
    """Read a collective family.

    Parameters
    ----------
    name_or_path
        ``neuron-trn1``, or the path of a file. An existing path beats a name.
    relative_to
        Folder to which a path is relative; by default the working directory.

    Raises
    ------
    InputError
        With every problem of the file, or with near matches of an unknown name.

    Examples
    --------
    >>> sorted(load_collective_family("neuron-trn1").algorithms)
    ['direct', 'ring']
    """
    entry = open_entry("collective-families", name_or_path, CollectiveFamilyFile, relative_to)
    file = entry.file
    return CollectiveFamily(
        name=entry.name,
        networks=tuple(file.networks),
        fitted_on=file.fitted_on,
        measured_rows=entry.sourced(file.measured_rows),
        error_fraction=entry.sourced(file.error_fraction),
        bandwidth_share=_sourced(entry, file.bandwidth_share),
        core_link_share=_sourced(entry, file.core_link_share),
        algorithms={name: _cost(entry, table) for name, table in file.algorithms.items()},
        basis={},
        variants=entry.variants,
        notes=tuple(file.notes),
    )


def collective_family_of(network: str) -> CollectiveFamily | None:
    """Return the family that was fitted on a server or topology of this name, if there is one.

    Examples
    --------
    >>> collective_family_of("trn1.32xlarge").name, collective_family_of("trn2.48xlarge")
    ('neuron-trn1', None)
    """
    families = map(load_collective_family, names("collective-families"))
    return next((family for family in families if network in family.networks), None)


def _cost(entry: Entry[CollectiveFamilyFile], table: AlgorithmTable) -> AlgorithmCost:
    values = (table.launch, table.doubling, table.step, table.bandwidth_share)
    return AlgorithmCost(*(_sourced(entry, value) for value in values))


def _sourced(entry: Entry[CollectiveFamilyFile], written: SourcedValue[float] | None) -> Sourced[float] | None:
    return None if written is None else entry.sourced(written)
