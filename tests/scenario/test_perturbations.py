"""What may stand in `perturbations:`, and what is refused with which words."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnsim.errors import Problem
    from trnsim.scenario import Scenario


def entries(*tables: dict[str, Any]) -> str:
    return f"perturbations={json.dumps(list(tables)).replace('Infinity', '.inf').replace('NaN', '.nan')}"


CHIPS = {"name": "slow", "of": "chips"}


@pytest.mark.parametrize(
    ("table", "key", "words"),
    [
        ({**CHIPS, "speed": 0, "count": 1}, "speed", "above 0"),
        ({**CHIPS, "speed": -0.5, "count": 1}, "speed", "above 0"),
        ({**CHIPS, "speed": 1.25, "count": 1}, "speed", "has speed 0.8"),
        ({**CHIPS, "speed": 0.5, "fraction": 1.5}, "fraction", "at most 1"),
        ({**CHIPS, "speed": 0.5, "fraction": 1e-9}, "fraction", "rounds to none"),
        ({**CHIPS, "speed": 0.5, "count": 5000}, "count", "there are 2,304 to draw from"),
        ({**CHIPS, "speed": 0.5, "at": ["server 16"]}, "at[0]", "they are server 0 to server 15"),
        ({**CHIPS, "speed": 0.5, "at": ["sever 3/chip 1"]}, "at[0]", "did you mean one like server 0/chip 0"),
        ({**CHIPS, "speed": 0.5, "at": ["server 3/chip 144"]}, "at[0]", "chip 0 to chip 143"),
        ({**CHIPS, "speed": 0.5, "at": ["server ٣/chip 1"]}, "at[0]", "no such place"),
        ({**CHIPS, "speed": 0.5, "at": ["server " + "9" * 5000]}, "at[0]", "no such place"),
        ({**CHIPS, "speed": 1e-7, "count": 1}, "speed", "at least 1e-06"),
        ({**CHIPS, "failed": True, "count": 1}, "failed", "stops the job"),
        ({**CHIPS, "speed": 0.5, "count": 1, "each": "pod"}, "each", "choose from chip, instance, sled, rack, server"),
        ({"name": "a", "of": "chip", "speed": 0.5, "count": 1}, "of", "did you mean chips"),
        (
            {"name": "a", "of": "rack-switch", "speed": 0.5, "at": ["server 0/chip 1-rack 1"]},
            "at[0]",
            "server 0/chip 1-rack 0",
        ),
        ({"name": "a", "of": "tor-leaf", "speed": 0.5, "at": ["tor 99"]}, "at[0]", "tor 0 to tor 35"),
        (
            {**CHIPS, "speed": {"distribution": "unifrm", "low": 0.5, "high": 0.9}, "count": 1},
            "speed",
            "did you mean uniform",
        ),
        ({**CHIPS, "speed": {"distribution": "uniform", "low": 0.9, "high": 0.5}, "count": 1}, "speed", "low <= high"),
        (
            {**CHIPS, "speed": {"distribution": "uniform", "lo": 0.5, "high": 0.9}, "count": 1},
            "speed",
            'unknown key "lo"; did you mean low?',
        ),
        ({**CHIPS, "speed": {"distribution": "uniform", "low": 0.5}, "count": 1}, "speed", "lacks high"),
        (
            {**CHIPS, "speed": {"distribution": ["uniform"], "low": 0.5, "high": 0.9}, "count": 1},
            "speed",
            "known: lognormal",
        ),
        (
            {**CHIPS, "speed": {"distribution": "uniform", "low": 0.5, "high": "x"}, "count": 1},
            "speed",
            "low and high of a uniform distribution are numbers",
        ),
        ({**CHIPS, "speed": math.inf, "count": 1}, "speed", "a finite number is due"),
        ({**CHIPS, "speed": math.nan, "count": 1}, "speed", "a finite number is due"),
    ],
)
def test_bad_entries_name_the_nearest_valid_choice(
    problems: Callable[..., list[Problem]], table: dict[str, Any], key: str, words: str
) -> None:
    (problem,) = problems(entries(table))
    assert problem.key == f"perturbations[0].{key}"
    assert words in problem.message


@pytest.mark.parametrize(
    "table", [{**CHIPS, "speed": 0.5}, {**CHIPS, "speed": 0.5, "count": 1, "fraction": 0.1}, {**CHIPS, "count": 1}]
)
def test_an_entry_says_once_how_much_and_where(problems: Callable[..., list[Problem]], table: dict[str, Any]) -> None:
    (problem,) = problems(entries(table))
    assert problem.key == "perturbations[0]"
    assert "is due" in problem.message


def test_one_server_has_no_links_to_others(problems: Callable[..., list[Problem]]) -> None:
    kinds = ("efa", "tor-leaf", "tor")
    wrong = entries(*({"name": kind, "of": kind, "speed": 0.5, "count": 1} for kind in kinds))
    efa, trunk, nothing = problems(wrong, "cluster.servers=1", "layout.pp=1")
    assert efa.message.startswith("there is one server, and efa joins servers; known: chips, sled-switch")
    assert trunk.message.startswith("there is one server, and tor-leaf joins servers")
    assert nothing.message.startswith('unknown kind of chips or links "tor"')


def test_names_tell_perturbations_apart(problems: Callable[..., list[Problem]]) -> None:
    twice = {**CHIPS, "speed": 0.5, "count": 1}
    assert [problem.key for problem in problems(entries(twice, twice))] == [
        "perturbations[0].name",
        "perturbations[1].name",
    ]


def test_who_is_cut_off_is_named(problems: Callable[..., list[Problem]]) -> None:
    nics = {"name": "nics", "of": "efa", "failed": True, "at": ["server 3"]}
    (problem,) = problems(entries(nics))
    assert "cuts the cluster in two: server 3 has no link to the fabric left" in problem.message
    kinds = ("sled-switch", "rack-switch", "cross-rack")
    links = [{"name": kind, "of": kind, "failed": True, "at": ["server 0/chip 7"]} for kind in kinds]
    (problem,) = problems(entries(*links))
    assert "together they cut the cluster in two: server 0/chip 7 cannot reach" in problem.message


def test_what_is_drawn_depends_on_seed_and_name_and_on_nothing_else(base: Callable[..., Scenario]) -> None:
    from trnsim.simulation.machine import build_machine

    def drawn(*tables: dict[str, Any], seed: int = 0) -> set[int]:
        machine = build_machine(base(entries(*tables), f"run.seed={seed}"))
        return set(machine.impairments.chips)

    one, other = ({"name": name, "of": "chips", "speed": 0.5, "count": 20} for name in ("one", "other"))
    assert len(drawn(one)) == 20
    assert drawn(one, other) == drawn(other, one) == drawn(one) | drawn(other)
    assert drawn(one) != drawn(one, seed=1)


def test_drawn_speeds_lie_in_their_range(base: Callable[..., Scenario]) -> None:
    from trnsim.simulation.machine import build_machine

    speed = {"distribution": "uniform", "low": 0.7, "high": 0.9}
    found = build_machine(base(entries({**CHIPS, "speed": speed, "fraction": 0.5}))).impairments.chips
    assert len(found) == 1152
    assert 0.7 <= min(found.values()) < 0.71
    assert 0.89 < max(found.values()) <= 0.9


def test_a_perturbation_strikes_each_link_once(base: Callable[..., Scenario]) -> None:
    # A cable lies in the places of both its chips; with every chip struck each cable has the speed that is written, and what
    # is struck is counted once, however its place is spelt.
    from trnsim.simulation.machine import build_machine

    def struck(*tables: dict[str, Any]) -> tuple[list[int], set[float]]:
        machine = build_machine(base(entries(*tables)))
        hits = [machine.hits[table["name"]].struck for table in tables]
        return hits, {share for of in machine.impairments.cables.values() for share in of.values()}

    cables = {"name": "old", "of": "sled-switch", "speed": 0.5}
    assert struck({**cables, "fraction": 1}) == struck({**cables, "fraction": 1, "each": "chip"}) == ([2304], {0.5})
    spellings = ["server 0/chip 1", "server 0/sled 0", "server 0/chip 1-sled 0", "server 0/sled 0-chip 1"]
    assert struck({**cables, "at": spellings}) == ([4], {0.5})
    assert struck({**cables, "at": ["server 0"]}, {**cables, "name": "older", "at": ["server 0"]}) == (
        [144, 144],
        {0.25},
    )
