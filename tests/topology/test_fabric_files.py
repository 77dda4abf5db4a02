"""Files of topologies/: every value has a source, and every mistake is named where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trnsim.errors import InputError
from trnsim.hardware import every_value
from trnsim.topology import load_fabric
from trnsim.topology.forms import topology_names

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "description: d\nsources: {s: {text: made up for a test, read: 2026-11-30}}\n"
PLANES = "planes: {value: 2, kind: assumed, source: s}\n"


def tier(name: str, radix: int = 8, ratio: float = 1) -> str:
    parts = {"radix": radix, "oversubscription": ratio, "latency": "1 us"}
    values = "".join(f"    {key}: {{value: {value}, kind: assumed, source: s}}\n" for key, value in parts.items())
    return f"  - name: {name}\n{values}"


def problems_of(path: Path, text: str) -> list[tuple[int | None, str, str]]:
    path.write_text(text)
    with pytest.raises(InputError) as refusal:
        load_fabric(str(path))
    assert refusal.value.exit_code == 2
    return [(problem.line, problem.subject, problem.message) for problem in refusal.value.problems]


@pytest.mark.parametrize("name", topology_names("fabric"))
def test_every_value_of_every_fabric_has_its_source(name: str) -> None:
    # planes, and radix, oversubscription and latency of each tier
    spec = load_fabric(name)
    values = list(every_value(spec))
    assert len(values) == 1 + 3 * len(spec.tiers)
    assert all(value.source and value.read and value.kind for _, value in values)


def test_what_is_not_published_is_marked() -> None:
    kinds = {name: value.kind for name, value in every_value(load_fabric("ultracluster"))}
    assert kinds["tiers.tor.radix"] == "third-party"
    assert {kind for name, kind in kinds.items() if name.endswith("oversubscription")} == {"assumed"}
    assert kinds["tiers.leaf.latency_s"] == kinds["tiers.building.radix"] == "assumed"


def test_the_facts_of_a_fabric() -> None:
    facts = load_fabric("ultracluster-2to1").facts()
    assert facts["tor: ports down + up"] == "84 + 42 of 128"
    assert facts["chips in 1 tier"] == 128
    assert facts["chips in 2 tiers"] == 84 * 128


def test_a_file_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + PLANES + "notes: [a note]\ntiers:\n" + tier("tor", 8, 3) + tier("leaf", 8))
    spec = load_fabric("mine.yaml", relative_to=tmp_path)
    assert (spec.name, spec.notes) == ("mine", ("a note",))
    assert [spec.capacity(tiers) for tiers in (1, 2)] == [8, 6 * 8]
    assert [level.latency_s.value for level in spec.tiers] == [1e-6, 1e-6]


def test_an_unknown_name_gets_its_neighbours() -> None:
    with pytest.raises(InputError, match="ultracluster"):
        load_fabric("ultraclustr")


def test_all_mistakes_come_in_one_report(tmp_path: Path) -> None:
    text = HEAD + "planes: 2\ntiers:\n" + tier("tor", 1, 0.5).replace("1 us", "1")
    found = problems_of(tmp_path / "bad.yaml", text)
    assert [(line, subject.split(" ")[0]) for line, subject, _ in found] == [
        (3, "planes"),
        (6, "tiers[0].radix.value"),
        (7, "tiers[0].oversubscription.value"),
        (8, "tiers[0].latency.value"),
    ]
    assert "needs its unit" in found[3][2]


def test_a_ratio_that_leaves_no_port_up_and_a_name_used_twice(tmp_path: Path) -> None:
    text = HEAD + PLANES + "tiers:\n" + tier("tor", 8, 9) + tier("tor") + tier("server", 8, 2)
    assert problems_of(tmp_path / "bad.yaml", text) == [
        (9, "tiers[1].name = tor", "the name is taken; choose another"),
        (13, "tiers[2].name = server", "the name is taken; choose another"),
        (15, "tiers[2].oversubscription = 2", "no tier is above the last one, so 1 is due"),
        (7, "tiers[0].oversubscription = 9", "8 ports / (1 + 9) leaves none up; at most 7 does"),
    ]


def test_a_tier_that_adds_nothing(tmp_path: Path) -> None:
    # 4 ports down times a radix of 2 hold as many as the 8 ports of the first tier alone
    text = HEAD + PLANES + "tiers:\n" + tier("tor", 8) + tier("leaf", 2)
    assert problems_of(tmp_path / "bad.yaml", text) == [
        (10, "tiers[1].radix = 2", "2 tiers hold 8 chips and 1 hold 8; raise the radix")
    ]


def test_variants_are_not_for_fabrics(tmp_path: Path) -> None:
    variants = "variants: {slow: {because: b, values: {}}}\n"
    assert problems_of(tmp_path / "bad.yaml", HEAD + PLANES + variants + "tiers:\n" + tier("tor")) == [
        (4, "variants", "a fabric has no variants; write a second file")
    ]
