"""Break what folding rests on, one piece at a time, and see a named test fail: `python tests/mutations.py [WORD ...]`.

Each mutation is a text of the code and what is put in its place, in a copy of the repository. Words choose mutations by
what they break. Exits with 1 if a test does not notice; docs/proofs.md lists them all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[1]
COUNTER = "simulation/test_counter_examples.py"
COLOURS = "engine/test_colours.py"
LINKS = "engine/test_shared_links.py"
STEADY = "training/test_steady.py"


class Mutation(NamedTuple):
    """A piece of the code, what breaks it, and the test that notices."""

    breaks: str
    file: str
    old: str
    new: str
    test: str


MUTATIONS = (
    Mutation(
        "refinement forgets a node's own colour",
        "engine/colours.py",
        "                colours[node],\n                tuple(signatures",
        "                tuple(signatures",
        f"{COLOURS}::test_the_partition_is_equitable_and_respects_the_initial_colours",
    ),
    Mutation(
        "refinement forgets groups",
        "engine/colours.py",
        "tuple(signatures[group] for group in groups[node])",
        "()",
        f"{COUNTER}::test_who_shares_a_tensor_group_with_a_slow_chip_is_apart",
    ),
    Mutation(
        "refinement forgets pipeline neighbours",
        "engine/colours.py",
        "tuple(colours[other] if other >= 0 else -1 for other in neighbours[node])",
        "()",
        f"{COUNTER}::test_initial_colours_are_not_enough",
    ),
    Mutation(
        "refinement does not go on after its first round",
        "engine/colours.py",
        "if count == classes:",
        "if count >= classes:",
        f"{COLOURS}::test_a_split_travels_along_the_pipeline",
    ),
    Mutation(
        "a set of colours instead of a multiset",
        "engine/colours.py",
        "return meeting.axis, tuple(sorted(found.items()))",
        "return meeting.axis, tuple(sorted(dict.fromkeys(found, 1).items()))",
        f"{COLOURS}::test_a_multiset_is_finer_than_a_set",
    ),
    Mutation(
        "colours of ranks without the speed of the chip",
        "training/folding.py",
        "self.prices.key, self.speed, self.pace",
        "self.prices.key, self.pace",
        f"{COUNTER}::test_who_shares_a_tensor_group_with_a_slow_chip_is_apart",
    ),
    Mutation(
        "colours of ranks without prices",
        "training/folding.py",
        "self.prices.key, self.speed, self.pace",
        "self.speed, self.pace",
        f"{COUNTER}::test_a_degraded_link_inside_a_server_tells_its_replica_apart",
    ),
    Mutation(
        "prices without the kinds of links",
        "fabric/price.py",
        "return (self.time_s, *self.busy_s.items())",
        "return (self.time_s, *self.busy_s.values())",
        f"{COUNTER}::test_kinds_of_links_are_part_of_a_colour",
    ),
    Mutation(
        "replicas without their impaired links (capacity)",
        "training/replicas.py",
        "wrong.links if wrong else ()",
        "()",
        f"{COUNTER}::test_a_degraded_link_inside_a_server_tells_its_replica_apart",
    ),
    Mutation(
        "replicas without their slow chips",
        "training/replicas.py",
        "wrong.speeds if wrong else ()",
        "()",
        f"{COUNTER}::test_a_slow_chip_tells_its_replica_apart",
    ),
    Mutation(
        "replicas without the tiers at which their chips meet",
        "training/replicas.py",
        "return (place, *tiers), ",
        "return (place,), ",
        "simulation/test_laws.py::test_switch_groups_that_end_inside_a_server_tell_replicas_apart",
    ),
    Mutation(
        "a stale alarm rings: what slowed down is not looked at again",
        "engine/shared_links.py",
        "if arrival.alarm is not alarm:\n            return",
        "if arrival.is_through:\n            return",
        f"{LINKS}::test_links_are_shared_only_while_both_are_on_them",
    ),
    Mutation(
        "a transfer that is slowed down keeps its deadline",
        "engine/shared_links.py",
        "if arrival.at_ps != at_ps:",
        "if arrival.at_ps < 0:",
        f"{LINKS}::test_links_are_shared_only_while_both_are_on_them",
    ),
    Mutation(
        "a transfer that was alone at first ends when it was to end alone",
        "engine/shared_links.py",
        "if not arrival.has_met:\n            for",
        "if True:\n            for",
        f"{LINKS}::test_two_transfers_on_one_link_take_twice_as_long",
    ),
    Mutation(
        "a transfer is not looked at when a stint is over at the moment at which it was to end alone",
        "engine/shared_links.py",
        "            if arrival.alarm is None:\n                self._look_at([arrival])\n",
        "",
        f"{LINKS}::test_a_stint_may_be_over_when_all_was_to_be",
    ),
    Mutation(
        "who is left when a transfer ends is not sped up",
        "engine/shared_links.py",
        "if met and not _have_been_alone(met):",
        "if False:",
        f"{LINKS}::test_collectives_of_two_groups_share_the_links_of_their_members",
    ),
    Mutation(
        "no deadline is set again when a stint in company is over",
        "engine/shared_links.py",
        "        else:\n            self._look_at([arrival])\n\n    def",
        "\n    def",
        f"{LINKS}::test_links_are_shared_only_while_both_are_on_them",
    ),
    Mutation(
        "nobody watches for a meeting to come",
        "engine/shared_links.py",
        "if len(arrivals) > 1 and (meeting_ps := _next_meeting_ps(arrivals)) is not None:",
        "if (meeting_ps := None) is not None:",
        f"{LINKS}::test_a_message_slows_the_collectives_of_who_gets_it",
    ),
    Mutation(
        "teams although reductions and messages share links",
        "training/contraction.py",
        "return not passes & updates",
        "return True",
        f"{COUNTER}::test_messages_and_reductions_on_one_kind_of_link_are_folded_by_ranks",
    ),
    Mutation(
        "teams although messages outlast a reduction",
        "training/teams.py",
        "self.holds &= all(passed[tail] <= tail.reduced_ps(step) for tail in self._tails.values())",
        "pass",
        f"{COUNTER}::test_a_message_that_outlasts_the_reduction_is_folded_by_ranks",
    ),
    Mutation(
        "one body for all paces",
        "training/bodies.py",
        "key = tuple((*place, neighbours[place], *self._key(entrant.plan)) for place, entrant in entrants.items())",
        "key = ()",
        f"{COUNTER}::test_paces_and_prices_tell_bodies_apart",
    ),
    Mutation(
        "one body however its ranks come to their collectives",
        "training/bodies.py",
        "if body.fits(entrants):",
        "if body:",
        f"{COUNTER}::test_who_comes_late_to_a_collective_needs_a_body_of_its_own",
    ),
    Mutation(
        "mates of a slow chip update as it does",
        "training/views.py",
        "optimizer_ps = self._tail.optimizer_ps(roster.own[number])",
        "optimizer_ps = self._tail.optimizer_ps(roster.plan)",
        f"{COUNTER}::test_mates_of_a_slow_chip_part_for_the_update",
    ),
    Mutation(
        "a step begins for all ranks of a team when it begins for the first kind",
        "training/views.py",
        "begun_ps = played.starts_ps[self._number]",
        "begun_ps = played.starts_ps[0]",
        f"{COUNTER}::test_a_later_step_begins_apart",
    ),
    Mutation(
        "rates that are fair in floating point",
        "engine/sharing.py",
        "now = left[link] // growing[link] if growing[link] else None",
        "now = left[link] / growing[link] if growing[link] else None",
        "engine/test_sharing.py::test_sevenths_leave_no_crumbs",
    ),
    Mutation(
        "a steady state forgets messages that wait",
        "training/story.py",
        "return messages, self.rank.situation(now_ps), self.data.situation(now_ps)",
        "return self.rank.situation(now_ps), self.data.situation(now_ps)",
        f"{STEADY}::test_scenarios",
    ),
    Mutation(
        "a steady state forgets messages that were posted",
        "engine/core.py",
        "        return posted, streams",
        "        return streams",
        f"{STEADY}::test_scenarios",
    ),
    Mutation(
        "a steady state forgets a message that is waited for until the next may be posted",
        "engine/core.py",
        "            yield message\n            del self._posted[wait]",
        "            del self._posted[wait]\n            yield message",
        f"{STEADY}::test_a_message_that_is_waited_for_until_it_may_be_posted_belongs_to_the_state",
    ),
    Mutation(
        "a steady state forgets collectives beside the passes",
        "training/story.py",
        "return messages, self.rank.situation(now_ps), self.data.situation(now_ps)",
        "return messages, self.rank.situation(now_ps)",
        f"{STEADY}::test_scenarios",
    ),
    Mutation(
        "a steady state forgets since when a rank is at work",
        "training/story.py",
        ", self.rank.at_work_ps(now_ps)",
        "",
        f"{STEADY}::test_scenarios",
    ),
    Mutation(
        "a steady state forgets how far transfers are",
        "engine/arrivals.py",
        "tuple(map(id, self.links)), done, self.rate",
        "tuple(map(id, self.links)), self.rate",
        f"{LINKS}::test_a_situation_tells_how_far_transfers_are",
    ),
    Mutation(
        "a state is looked at while more happens at the same time",
        "engine/core.py",
        "if now_ps > self.now_ps:",
        "if True:",
        "engine/test_core.py::test_what_waits_until_a_time_is_settled_sees_all_that_happens_then",
    ),
    Mutation(
        "the last microbatch belongs to a steady state",
        "schedules/periods.py",
        "if number in special or number + length in special:",
        "if False:",
        f"{STEADY}::test_a_schedule_in_which_messages_do_not_pile_up_comes_to_a_steady_state",
    ),
    Mutation(
        "ranks that were left out microbatches ask for them by their numbers",
        "training/story.py",
        "        self.skipped += self.plan.turns[later].microbatch - self.plan.turns[self.turn].microbatch\n",
        "",
        f"{STEADY}::test_scenarios",
    ),
)


def survives(mutation: Mutation, copy: Path) -> bool:
    """Break a copy of the repository; say whether the test passes all the same."""
    path = copy / "trnsim" / mutation.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        sys.exit(f"{mutation.file} does not hold once: {mutation.old}")
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"tests/{mutation.test}"]
    environment = os.environ | {"PYTHONPATH": str(copy)}
    run = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    path.write_text(text, encoding="utf-8")
    if run.returncode > 1:
        sys.exit(f"{mutation.test} cannot be run: {run.stdout[-500:]}")
    return run.returncode == 0


def main(words: list[str]) -> None:
    """Try mutations and say which tests notice."""
    chosen = [each for each in MUTATIONS if all(word in each.breaks for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(REPOSITORY, copy, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        found = [(each, survives(each, copy)) for each in chosen]
    for mutation, is_unnoticed in found:
        print(f"{'NOT NOTICED' if is_unnoticed else 'noticed':<12} {mutation.breaks}: {mutation.test}")  # noqa: T201
    sys.exit(1 if any(is_unnoticed for _, is_unnoticed in found) else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
