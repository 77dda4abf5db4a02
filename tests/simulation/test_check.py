"""What a check says of a scenario that passes it, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from small import load_small

from trnsim.errors import InputError
from trnsim.simulation.check import check
from trnsim.simulation.memory import stage_memories, worst
from trnsim.units import format_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim.scenario import Scenario


def needed(scenario: Scenario) -> int:
    return worst(stage_memories(scenario)).terms.total


@pytest.mark.parametrize(("lnc", "ranks", "limit"), [(2, 4, "34.2 GiB"), (1, 8, "17.1 GiB")])
def test_memory_is_labelled_per_rank_and_per_chip(tmp_path: Path, lnc: int, ranks: int, limit: str) -> None:
    # rule 18: a chip of Trn3 has 144 GiB x 0.95 = 136.8 GiB to use, 34.2 for each of 4 ranks, 17.1 for each of 8
    scenario = load_small(tmp_path, layout__rank="logical_core", cluster__lnc=lnc, layout__dp=8)
    rank, chip = format_bytes(needed(scenario)), format_bytes(ranks * needed(scenario))
    text = check(scenario).memory
    assert text.startswith(f"{rank} of {limit} a rank (stage ")
    assert text.endswith(f"; {chip} of 137 GiB a chip of {ranks} such ranks")


def test_a_rank_that_is_a_chip(tmp_path: Path) -> None:
    # rule 18: the same number, and both labels
    scenario = load_small(tmp_path)
    text = check(scenario).memory
    assert text.startswith(f"{format_bytes(needed(scenario))} of 137 GiB a rank (stage ")
    assert text.endswith("), which is a chip")


def test_what_does_not_fit_is_a_matter_of_capacity(tmp_path: Path) -> None:
    # rule 18: 8 layers of 4 x 65,536^2 + 2 x 65,536 x 262,144 are 412 G parameters, 103 G a rank at 6 bytes and more
    scenario = load_small(tmp_path, model__hidden_size=65536, model__head_dim=4096, model__ffn_size=262144)
    with pytest.raises(InputError, match="a rank of stage 0 needs") as error:
        check(scenario)
    assert error.value.exit_code == 3
