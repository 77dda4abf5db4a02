"""One entry of ``perturbations:``: which chips or links are not as the datasheet has them, and how much is left."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, InstanceOf, WithJsonSchema

from trnsim.documents import WHOLE, Table, canonical, refuse_unknown
from trnsim.topology.draws import Lognormal, Uniform

__all__ = ["PerturbationTable", "Speed"]

Speed = float | InstanceOf[Uniform] | InstanceOf[Lognormal]

LEAST_SPEED: Final = 1e-6
"""What is left of less than that has failed, and would make runs longer than clocks count."""

_DISTRIBUTIONS: dict[str, tuple[str, ...]] = {"uniform": ("low", "high"), "lognormal": ("median_excess", "sigma")}


def _speed(value: Any) -> Any:
    if isinstance(value, dict):
        return _distribution(value)
    if not _is_number(value):
        raise ValueError("a number, or a table such as {distribution: uniform, low: 0.8, high: 0.95}, is due")
    if value <= 0:
        raise ValueError("a share above 0 of the healthy speed is due; a link without any is written failed: true")
    if value < LEAST_SPEED:
        raise ValueError(f"the share of the healthy speed that is left is at least {LEAST_SPEED:g}")
    if not math.isfinite(value):
        raise ValueError("a finite number is due")
    if value > 1:
        raise ValueError(
            "the share of the healthy speed that is left is at most 1; "
            f"what takes {value:g} times as long has speed {1 / value:.4g}"
        )
    return float(value)


def _distribution(value: dict[str, Any]) -> Uniform | Lognormal:
    if "distribution" not in value:
        raise ValueError(f"a table has the key distribution: {' or '.join(_DISTRIBUTIONS)}")
    written = value["distribution"]
    name = canonical(written) if isinstance(written, str) else ""
    if name not in _DISTRIBUTIONS:
        raise ValueError(refuse_unknown("distribution", str(written), _DISTRIBUTIONS))
    keys = _DISTRIBUTIONS[name]
    numbers = [value.get(key) for key in keys]
    for key in value:
        if key not in ("distribution", *keys):
            raise ValueError(refuse_unknown("key", str(key), ("distribution", *keys)))
    if missing := [key for key in keys if key not in value]:
        raise ValueError(f"a {name} distribution lacks {' and '.join(missing)}")
    if not all(map(_is_number, numbers)):
        raise ValueError(f"{' and '.join(keys)} of a {name} distribution are numbers")
    first, second = float(numbers[0]), float(numbers[1])  # type: ignore[arg-type]  # they are numbers
    if name == "uniform":
        if not LEAST_SPEED <= first <= second <= 1:
            raise ValueError(f"speeds from {first:g} to {second:g}: {LEAST_SPEED:g} <= low <= high <= 1 is due")
        return Uniform(first, second)
    if not (0 < first <= 1000 and 0 <= second <= 10):
        raise ValueError("0 < median_excess <= 1000 and 0 <= sigma <= 10 is due")
    return Lognormal(first, second)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class PerturbationTable(Table):
    """Chips or links that are not as the datasheet has them: at named places, or drawn by `run.seed`."""

    name: Annotated[str, Field(min_length=1)] = Field(
        description="tells it from the others, and names its random streams"
    )
    of: str = Field(
        description="chips, or the kind of the links: efa, tor-leaf, neuronlink-xy, ... as the summary names them"
    )
    speed: Annotated[
        Speed | None, BeforeValidator(_speed), WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "object"}]})
    ] = Field(
        default=None,
        description="share of the healthy speed that is left, from 1e-6 to 1, of FLOPs and HBM bytes or of bandwidth; "
        "or a table: {distribution: uniform, low, high} or {distribution: lognormal, median_excess, sigma}",
    )
    failed: bool = Field(
        default=False, description="true for links that carry nothing; bytes go another way, if there is one"
    )
    at: list[str] | None = Field(
        default=None, description='places: "server 3/chip 17", "server 3/rack 1", "server 3/chip 0-chip 1", "tor 5"'
    )
    count: Annotated[int, Field(ge=1, le=100_000_000), WHOLE] | None = Field(
        default=None, description="how many places are drawn"
    )
    fraction: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, description="share of all such places that is drawn, instead of a count"
    )
    each: str | None = Field(
        default=None,
        description="what is drawn: chip, instance, sled, rack or server, with all its chips or links of the kind, each struck once; by "
        "default single chips or links",
    )
