"""Rules of interleaved schedules: what shapes they have, how layers come to virtual stages, who waits for a message."""

from collections.abc import Callable

import pytest

from trnsim.errors import Problem
from trnsim.scenario import Scenario

Problems = Callable[..., list[Problem]]
Base = Callable[..., Scenario]

INTERLEAVED = ("schedule.kind=interleaved-1f1b", "schedule.virtual_stages=2")
"""On the base scenario: pp 9 x 2 virtual stages = 18, and 126 / 18 = 7 layers; 2,304 sequences / dp 32 = 72 = 8 x 9 microbatches."""


def only(found: list[Problem]) -> Problem:
    (problem,) = found
    return problem


def test_layers_come_to_virtual_stages(base: Base) -> None:
    # rule 5: 126 = 18 x 7, under either rules; virtual stage k is on stage k mod 9
    for rules in ("nxd", "megatron"):
        scenario = base(*INTERLEAVED, f"layout.rules={rules}")
        assert scenario.layout.stages == (7,) * 18
        assert tuple(scenario.pipeline) == (9, 72, 2)
        derived = scenario.derived["stages"]
        assert derived == "18 x 7 layers on 18 virtual stages, number k on stage k mod 9: 2 on each"
        assert scenario.warnings == ()


@pytest.mark.parametrize("rules", ["nxd", "megatron"])
def test_layers_are_a_multiple_of_pp_and_virtual_stages(problems: Problems, base: Base, rules: str) -> None:
    # rule 5: 126 mod (9 x 4) = 18; a stage has 14 layers, whose divisors near 4 are 2 and 7
    wrong = (*INTERLEAVED, f"layout.rules={rules}", "schedule.virtual_stages=4")
    problem = only(problems(*wrong))
    assert problem.subject == "schedule.virtual_stages = 4"
    assert problem.message == (
        "126 layers are no multiple of pp 9 x 4 virtual stages = 36; the nearest virtual_stages that divide are 2 and 7; "
        "layout.stages states a split"
    )
    for valid in (2, 7):
        assert base(*wrong, f"schedule.virtual_stages={valid}").schedule.virtual_stages == valid


def test_a_pp_that_does_not_divide_the_layers_has_no_virtual_stages(problems: Problems) -> None:
    # rule 5: NxD's longer last stages are for one virtual stage each: 126 mod 16 = 14
    problem = only(problems(*INTERLEAVED, "layout.pp=16"))
    assert problem.subject == "schedule.virtual_stages = 2"
    assert "pp 16 does not divide them: the divisors near it are 14 and 18" in problem.message


def test_a_stated_split_lists_virtual_stages_in_the_order_of_the_model(problems: Problems, base: Base) -> None:
    # rule 4: pp x virtual_stages entries; the first and the last, with the embedding and the head, may have no layers
    split = [0, *[8] * 14, 7, 7, 0]
    assert base(*INTERLEAVED, f"layout.stages={split}").layout.stages == tuple(split)
    problem = only(problems(*INTERLEAVED, f"layout.stages={[14] * 9}"))
    assert problem.message == "9 stages are listed, and pp 9 x 2 virtual stages = 18"
    problem = only(problems(*INTERLEAVED, f"layout.stages={[7, 0, *[7] * 15, 14]}"))
    assert problem.message == "stage 1 has no layers; only the first and the last of several may have none"
    assert base(f"layout.stages={[0, *[18] * 7, 0]}").layout.stages[0] == 0


def test_microbatches_are_whole_rounds(problems: Problems, base: Base) -> None:
    # rule 5: 70 microbatches on 9 stages; 63 x dp 32 = 2,016 and 72 x 32 = 2,304; breadth-first takes any number
    problem = only(problems(*INTERLEAVED, "training.global_batch=2240"))
    assert problem.subject == "training.global_batch = 2240"
    assert problem.message == (
        "interleaved-1f1b takes microbatches in rounds of 9, one for each stage; 70 mod 9 = 7 microbatches; "
        "the nearest batches are 2,016 and 2,304"
    )
    assert base(*INTERLEAVED, "training.global_batch=2016").microbatches == 63
    assert base(*INTERLEAVED, "training.global_batch=2240", "schedule.kind=breadth-first").microbatches == 70
    problem = only(problems(*INTERLEAVED, "training.global_batch=64"))
    assert problem.message.endswith("2 mod 9 = 2 microbatches; the nearest batch is 288")


def test_a_batch_that_does_not_divide_is_one_problem(problems: Problems) -> None:
    # rule 3 comes first: nobody counts rounds of 71.9 microbatches
    assert [problem.key for problem in problems(*INTERLEAVED, "training.global_batch=2300")] == [
        "training.global_batch"
    ]


def test_virtual_stages_need_a_schedule_that_interleaves(problems: Problems) -> None:
    # rule 5: nothing is guessed
    problem = only(problems("schedule.virtual_stages=2"))
    assert problem.subject == "schedule.virtual_stages = 2"
    assert problem.message == (
        "1f1b has 1 virtual stage on each stage; breadth-first and interleaved-1f1b have several"
    )
    problem = only(problems("schedule.kind=breadth-first"))
    assert problem.subject == "schedule.virtual_stages = 1"
    assert problem.message == "breadth-first has several virtual stages on each stage: at least 2"


def test_interleaving_needs_a_pipeline(problems: Problems, base: Base) -> None:
    # rule 5: pp > 1; pp = 2 is legal (126 = 2 x 3 x 21). Rule 30: without interleaving, virtual stages at pp 1 do nothing.
    one = ("layout.pp=1", "training.global_batch=2304")
    problem = only(problems(*INTERLEAVED, *one))
    assert (problem.subject, problem.message) == (
        "layout.pp = 1",
        "interleaved-1f1b needs a pipeline: at least 2 stages",
    )
    two = base("schedule.kind=interleaved-1f1b", "layout.pp=2", "schedule.virtual_stages=3")
    assert two.layout.stages == (21,) * 6
    (warning,) = base(*one, "schedule.virtual_stages=2").warnings
    assert warning == "schedule.virtual_stages has no effect: there is one pipeline stage"


def test_sends_are_what_is_usual_for_the_schedule(base: Base) -> None:
    # Megatron-LM: blocking for 1F1B, beside the work with virtual stages; either can be asked for
    assert (base().schedule.sends, base().defaults["schedule.sends"]) == ("blocking", "blocking")
    assert (base(*INTERLEAVED).schedule.sends, base(*INTERLEAVED).defaults["schedule.sends"]) == 2 * ("overlapped",)
    assert base(*INTERLEAVED, "schedule.sends=Blocking").schedule.sends == "blocking"
    assert base("schedule.sends=overlapped").schedule.sends == "overlapped"


def test_fewer_microbatches_than_stages_wait_at_each_virtual_stage(base: Base) -> None:
    # breadth-first, 2 microbatches, 9 stages of 2 virtual stages: 2 x 2 + (9 - 1) + (9 - 2) = 4 + 15 = 19 slots
    (warning,) = base(*INTERLEAVED, "schedule.kind=breadth-first", "training.global_batch=64").warnings
    assert warning == (
        "2 microbatches are fewer than 9 stages: of the 4 + 15 = 19 slots of a step each stage works in 4"
    )
