"""The names of the package, each imported when it is first used."""

from __future__ import annotations

import pytest

import trnsim


def test_names_lead_to_their_homes() -> None:
    from trnsim.results import Result
    from trnsim.scenario import load
    from trnsim.simulation import simulate
    from trnsim.simulation.collective import collective

    assert (trnsim.Result, trnsim.load, trnsim.simulate) == (Result, load, simulate)
    assert trnsim.collective is collective
    assert set(trnsim.__all__) <= set(dir(trnsim))


def test_version_is_that_of_the_installation() -> None:
    from importlib.metadata import version

    assert trnsim.__version__ == version("trnsim")


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'trnsim' has no attribute 'simulator'"):
        trnsim.simulator  # noqa: B018
