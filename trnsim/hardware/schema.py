"""What a catalog file may say.

A value is a table with its source, ``{value: 2.9 TB/s, kind: official, source: trainium2-page}``; ``source`` is a key
of the file's ``sources`` table, ``note`` holds the arithmetic, ``low`` and ``high`` a range.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args

from pydantic import AfterValidator, Field
from pydantic_core.core_schema import (
    CoreConfig,
    literal_schema,
    model_field,
    model_fields_schema,
    model_schema,
    no_info_after_validator_function,
    no_info_before_validator_function,
    nullable_schema,
    str_schema,
    with_default_schema,
)

from trnsim.documents import WHOLE, Bandwidth, Bytes, Choice, Count, Duration, FlopRate, Fraction, Table
from trnsim.hardware.software import FITTABLE, REGIMES
from trnsim.hardware.sourced import Kind

__all__ = [
    "ChipFile",
    "FamilyFile",
    "InstanceUseTable",
    "LinkTable",
    "NeuronCoresTable",
    "NoScaleUpTable",
    "ScaleOutTable",
    "ServerFile",
    "SourcedFile",
    "SourcedValue",
    "StarTable",
    "SwitchedTable",
    "TorusTable",
]

T = TypeVar("T")

Counts = Annotated[list[Count], Field(min_length=1)]
Chips = Annotated[int, Field(ge=1, le=16_384), WHOLE]
Latency = Annotated[Duration, Field(le=1)]
Share = Annotated[float, Field(ge=0, le=1)]
WholeNumber = Annotated[int, Field(ge=0)]

_KIND = no_info_before_validator_function(Choice(*get_args(Kind)).read, literal_schema([*get_args(Kind)]))
_AS_TABLES = CoreConfig(extra_fields_behavior="forbid", strict=True, allow_inf_nan=False)


def _iso_date(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ValueError("a date is due, like 2026-11-30") from None


class SourceTable(Table):
    """One source."""

    text: str = Field(min_length=1, description="title, place and date of the source")
    read: Annotated[str, AfterValidator(_iso_date)] = Field(description="day on which it was read, like 2026-11-30")


class SourcedValue(Table, Generic[T]):
    """A value with its source."""

    value: T
    kind: Kind = Field(description="official, third-party, inferred or assumed")
    source: str = Field(description="key of the sources table of this file")
    note: str = ""
    low: T | None = None
    high: T | None = None

    def __class_getitem__(cls, of: Any) -> Any:
        """Annotate the one model with a type of value; pydantic would make a model of every type, slowly."""
        return Annotated[cls, _Of(of)]


class _Of:
    """What the value of a sourced value is, and its ends: the type of a field."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Check the value with everything else that a sourced value says."""
        value = handler.generate_schema(self.of)
        end = with_default_schema(nullable_schema(value), default=None)
        fields = {
            "value": value,
            "kind": _KIND,
            "source": str_schema(),
            "note": with_default_schema(str_schema(), default=""),
            "low": end,
            "high": end,
        }
        checked = model_fields_schema({name: model_field(schema) for name, schema in fields.items()})
        model = model_schema(SourcedValue, checked, config=_AS_TABLES)
        return no_info_before_validator_function(
            _has_its_source, no_info_after_validator_function(_lies_in_its_range, model)
        )


def _has_its_source(data: Any) -> Any:
    if isinstance(data, (dict, SourcedValue)):
        return data
    raise ValueError(f"every value needs its source; write {{value: {data}, kind: official, source: KEY}}")


def _lies_in_its_range(sourced: SourcedValue[Any]) -> SourcedValue[Any]:
    value = sourced.value
    low, high = (value if bound is None else bound for bound in (sourced.low, sourced.high))
    if (sourced.low is not None or sourced.high is not None) and not low <= value <= high:
        raise ValueError(f"low <= value <= high is due, not {low} <= {value} <= {high}")
    return sourced


class VariantTable(Table):
    """Another reading of some values, for a published contradiction."""

    because: str = Field(min_length=1, description="why the variant exists")
    values: dict[str, Any] = Field(description="the keys that change, as they stand in the file")


class SourcedFile(Table):
    """Base of the files whose values have sources."""

    sources: dict[str, SourceTable] = Field(description="a table of sources: KEY: {text: title and date, read: date}")
    variants: dict[str, VariantTable] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)


class PeakTable(Table):
    """Dense peaks by dtype."""

    bf16: SourcedValue[FlopRate]
    fp8: SourcedValue[FlopRate] | None = None
    mxfp8: SourcedValue[FlopRate] | None = None
    fp32: SourcedValue[FlopRate] | None = None


class LncTable(Table):
    """Logical NeuronCore configurations."""

    allowed: SourcedValue[Counts]
    default: SourcedValue[Count]


class CoreLinkTable(Table):
    """Between two logical cores of a chip."""

    bandwidth: SourcedValue[Bandwidth]
    latency: SourcedValue[Latency]


class NeuronCoresTable(Table):
    """The cores of a Trainium chip."""

    count: SourcedValue[Chips]
    lnc: LncTable
    link: CoreLinkTable


class ChipFile(SourcedFile):
    """A file of ``catalog/chips``."""

    maker: str = Field(min_length=1, description="who prints its datasheet: AWS, NVIDIA, Google")
    software_family: str
    neuron_cores: NeuronCoresTable | None = None
    peak: PeakTable
    tensor_engine_peak: PeakTable | None = None
    memory: SourcedValue[Annotated[Bytes, Field(gt=0)]]
    memory_bandwidth: SourcedValue[Bandwidth]
    usable_memory_fraction: SourcedValue[Fraction]
    facts: dict[str, SourcedValue[str | int]] = Field(default_factory=dict)


class LinkTable(Table):
    """A class of links."""

    bandwidth: SourcedValue[Bandwidth]
    latency: SourcedValue[Latency]
    achieved_fraction: SourcedValue[Fraction]


class TorusTable(Table):
    """Chips on a torus."""

    kind: Literal["torus"]
    dims: SourcedValue[Counts]
    links: list[str] = Field(description="the link class of each axis")


class SwitchedTable(Table):
    """Chips under two levels of switches."""

    kind: Literal["switched"]
    sled_size: SourcedValue[Count]
    rack_size: SourcedValue[Count]
    sled: str
    rack: str
    cross: str


class StarTable(Table):
    """Chips on one switch."""

    kind: Literal["star"]
    switch: str = Field(description="the link class between a chip and the switch")


class NoScaleUpTable(Table):
    """One chip."""

    kind: Literal["none"]


class ScaleOutTable(LinkTable):
    """The way of each chip out of its server."""

    kind: str = Field(pattern="^[a-z][a-z0-9-]*$", description="class of the link: efa, infiniband, roce, dcn")


class InstanceUseTable(Table):
    """How much of a host a job may use."""

    unit: Literal["chip", "neuron_core"]
    allowed: SourcedValue[Counts]
    reported: SourcedValue[Counts] | None = None


class ServerFile(SourcedFile):
    """A file of ``catalog/servers``."""

    chip: str
    chips: SourcedValue[Chips]
    chips_per_host: SourcedValue[Count]
    instance_use: InstanceUseTable | None = None
    ring_chip_order: SourcedValue[list[WholeNumber]] | None = None
    links: dict[str, LinkTable] = Field(default_factory=dict)
    scale_up: Annotated[TorusTable | SwitchedTable | StarTable | NoScaleUpTable, Field(discriminator="kind")]
    scale_out: ScaleOutTable | None = None
    host_bandwidth: SourcedValue[Bandwidth] | None = Field(
        default=None, description="between the memory of the host and each chip, in one direction"
    )
    facts: dict[str, SourcedValue[str | int]] = Field(default_factory=dict)


class FamilyFile(SourcedFile):
    """A file of ``catalog/families``."""

    chips: list[str] = Field(min_length=1, description="the chips that it describes")
    gemm_efficiency: SourcedValue[Fraction]
    attention_time_ratio: SourcedValue[Annotated[float, Field(gt=0, le=10)]]
    attention_backward_ratio: SourcedValue[Annotated[float, Field(gt=0, le=10)]] | None = None
    memory_efficiency: SourcedValue[Fraction]
    byte_term: SourcedValue[Literal["add", "hidden", "max"]]
    host_layer: SourcedValue[Latency]
    host_pass: SourcedValue[Latency]
    collective_skew: SourcedValue[Latency]
    scale_skew_fraction: SourcedValue[Share]
    scale_skew_over: SourcedValue[Literal["hosts", "servers"]] | None = Field(
        default=None, description="what the skew grows with: hosts, or servers whose chips keep in step by themselves"
    )
    interference_fraction: SourcedValue[Share] | None = None
    data_parallel_overlap: SourcedValue[Literal["none", "buckets"]]
    recompute_fitted: SourcedValue[Literal["none", "selective", "full"]]
    measured_rows: SourcedValue[WholeNumber]
    errors: dict[Annotated[str, Choice(*REGIMES)], SourcedValue[Fraction]] = Field(
        default_factory=dict, description="mean absolute error of step time by regime"
    )
    fitted: list[Annotated[str, Choice(*FITTABLE)]] = Field(
        default_factory=list, max_length=5, description="keys that were fitted to measured steps"
    )
