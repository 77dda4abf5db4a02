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
REPLICAS = "training/test_replicas.py"
LINKS = "engine/test_shared_links.py"
STEADY = "training/test_steady.py"
TEAMS = "training/test_teams.py"
PATH = "training/test_critical_path.py"
REPLAY = "training/test_replay.py"
VIEWS = "training/test_views.py"


class Mutation(NamedTuple):
    """A piece of the code, what breaks it, and the test that notices."""

    breaks: str
    file: str
    old: str
    new: str
    test: str


MUTATIONS = (
    Mutation(
        "refinement forgets initial colours",
        "engine/colours.py",
        "_Partition(initial)",
        "_Partition([0] * len(initial))",
        f"{COLOURS}::test_the_partition_is_equitable_and_respects_the_initial_colours",
    ),
    Mutation(
        "refinement forgets groups",
        "engine/colours.py",
        "tuple(groups.colours[group] for group in groups_of[node])",
        "()",
        f"{COUNTER}::test_who_shares_a_tensor_group_with_a_slow_chip_is_apart",
    ),
    Mutation(
        "refinement forgets pipeline neighbours",
        "engine/colours.py",
        "tuple(nodes.colours[other] if other >= 0 else -1 for other in neighbours[node])",
        "()",
        f"{COUNTER}::test_initial_colours_are_not_enough",
    ),
    Mutation(
        "refinement does not go on after its first round",
        "engine/colours.py",
        "        looked_at = set()",
        "        break",
        f"{COLOURS}::test_a_split_travels_along_the_pipeline",
    ),
    Mutation(
        "a set of colours instead of a multiset",
        "engine/colours.py",
        "return tuple(sorted(found.items()))",
        "return tuple(sorted(dict.fromkeys(found, 1).items()))",
        f"{COLOURS}::test_a_multiset_is_finer_than_a_set",
    ),
    Mutation(
        "who follows a node that changes is not looked at",
        "engine/colours.py",
        "        looked_at.update(follower for node in changed for follower in followers[node])\n",
        "",
        f"{COLOURS}::test_a_split_travels_along_the_pipeline",
    ),
    Mutation(
        "groups that meet a change are not looked at",
        "engine/colours.py",
        "        looked_at.update(node for group in unlike for node, _ in meetings[group].members)\n",
        "",
        f"{COLOURS}::test_the_partition_is_equitable_and_respects_the_initial_colours",
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
        "groups that lie alike have the impaired links of the first of them",
        "fabric/struck.py",
        "chips[layout.slot(later).chip] = slot.chip",
        "chips[layout.slot(later).chip] = layout.slot(later).chip",
        "fabric/test_laws.py::test_groups_that_lie_alike_are_priced_as_one",
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
        "return place, tiers, links,",
        "return place, (), links,",
        "simulation/test_laws.py::test_switch_groups_that_end_inside_a_server_tell_replicas_apart",
    ),
    Mutation(
        "prices of a message that leaves its server without the tier at which chips meet",
        "fabric/closed_form.py",
        "return source % per_server, target - source, tier, wrong",
        "return source % per_server, target - source, tier >= 0, wrong",
        f"{REPLICAS}::test_a_message_costs_what_it_would_as_the_first",
    ),
    Mutation(
        "prices of a message without what is wrong on its servers",
        "fabric/closed_form.py",
        "return source % per_server, target - source, tier, wrong",
        "return source % per_server, target - source, tier",
        f"{REPLICAS}::test_a_message_costs_what_it_would_as_the_first",
    ),
    Mutation(
        "what leaves a server costs the same in all replicas that start at one place",
        "training/replicas.py",
        "like if leaves else self._usual[like]",
        "self._usual[like]",
        f"{REPLICAS}::test_all_ranks_pay_what_the_first_of_them_does",
    ),
    Mutation(
        "replicas without impaired ways out of their servers",
        "training/replicas.py",
        "wrong.ways if wrong else ()",
        "()",
        f"{REPLICAS}::test_all_ranks_pay_what_the_first_of_them_does",
    ),
    Mutation(
        "tensor groups do not leave servers",
        "training/crossings.py",
        "if group[0] // chips != group[-1] // chips:",
        "if False:",
        f"{REPLICAS}::test_all_ranks_pay_what_the_first_of_them_does",
    ),
    Mutation(
        "tensor ranks are one node although one of them pays more",
        "training/folding.py",
        "seen[place.tp].append((place.pp, place.dp, id(found)))",
        "seen[place.tp].append((place.pp, place.dp))",
        "simulation/test_laws.py::test_groups_that_share_fold_by_how_they_lie",
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
        "            arrival.happen()\n        else:\n            self._look_at([arrival])\n\n    def",
        "            arrival.happen()\n\n    def",
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
        "a transfer is not looked at though it will be on a link together with another",
        "engine/shared_links.py",
        "        if _first_overlap_ps(*both) < _NEVER_PS:\n            return False\n",
        "",
        f"{LINKS}::test_links_are_shared_only_while_both_are_on_them",
    ),
    Mutation(
        "a transfer is not looked at though those that it may meet share links",
        "engine/shared_links.py",
        "        if not other.is_clear:\n            return False\n",
        "",
        f"{LINKS}::test_whom_nobody_needs_to_look_at_again_does_the_same",
    ),
    Mutation(
        "nobody is late for a reduction",
        "training/teams.py",
        "passed_ps > tail.met_ps(step)",
        "False",
        f"{COUNTER}::test_a_message_and_a_reduction_on_one_kind_of_link_slow_each_other",
    ),
    Mutation(
        "tails stay as they are where late replicas meet them",
        "training/tolls.py",
        "if group[0] in apart or len(paid[group]) > 1 else None",
        "if len(paid[group]) > 1 else None",
        f"{TEAMS}::test_tails_part_where_late_replicas_meet_them",
    ),
    Mutation(
        "tensor ranks of a late replica are one although one of them pays more",
        "training/tolls.py",
        "seen[at.tp].append((at.pp, at.dp, node.prices.key))",
        "seen[at.tp].append((at.pp, at.dp))",
        f"{TEAMS}::test_tensor_ranks_with_equal_reductions_of_unlike_stages_are_told_apart",
    ),
    Mutation(
        "tensor ranks of a late replica are one although one of them is slow",
        "training/tolls.py",
        'seen[place["tp"]].append((place["pp"], place["dp"], speed))',
        "pass",
        f"{TEAMS}::test_teams_do_what_their_ranks_do_alone",
    ),
    Mutation(
        "late replicas go on from when the last reduction begins that they meet",
        "training/teams.py",
        "return min(last.values())",
        "return max(last.values())",
        f"{TEAMS}::test_teams_do_what_their_ranks_do_alone",
    ),
    Mutation(
        "a late replica goes on from before what it left out",
        "training/resumption.py",
        "each.since_ps < cut_ps or not each.passes",
        "not each.passes",
        f"{TEAMS}::test_teams_do_what_their_ranks_do_alone",
    ),
    Mutation(
        "a message that is there when a stage of a late replica goes on is sent to it once more",
        "training/resumption.py",
        "if got > made:",
        "if False:",
        f"{TEAMS}::test_teams_do_what_their_ranks_do_alone",
    ),
    Mutation(
        "a message of several teams of a late replica goes on once for each of them",
        "training/resumption.py",
        "dict.fromkeys(way for player in players.values() for way in player.sends if way is not None)",
        "[way for player in players.values() for way in player.sends if way is not None]",
        f"{TEAMS}::test_a_message_of_several_teams_goes_on_once",
    ),
    Mutation(
        "a stage of a late replica goes on while a message is on its links",
        "training/resumption.py",
        "if way is not None and way.is_shared:",
        "if False:",
        f"{TEAMS}::test_a_stage_does_not_go_on_while_a_message_is_on_its_links",
    ),
    Mutation(
        "the last gradient of a late replica comes to all ranks at once",
        "training/late.py",
        "if self.senders[0].work < LAST:",
        "if True:",
        f"{TEAMS}::test_teams_do_what_their_ranks_do_alone",
    ),
    Mutation(
        "ranks of a late replica begin the last pass together",
        "training/late.py",
        "self.heads_ps[LAST] = self.track.joined_ps - self._agenda.now",
        "pass",
        f"{TEAMS}::test_who_has_the_last_gradient_works_before_others_have_it",
    ),
    Mutation(
        "kinds of links of a late team are those of its first rank",
        "training/late.py",
        "for rank in team for kind in rank.reduced_on",
        "for rank in team[:1] for kind in rank.reduced_on",
        f"{TEAMS}::test_reductions_of_all_ranks_of_a_team_may_meet_its_passes",
    ),
    Mutation(
        "teams although the next step reaches a stage that still updates",
        "training/teams.py",
        "self.holds &= not (is_early and self.found.meets_next(sort, stage))",
        "pass",
        f"{COUNTER}::test_a_stage_that_still_reduces_when_the_next_step_reaches_it_is_folded_by_ranks",
    ),
    Mutation(
        "teams although messages outlast a reduction",
        "training/teams.py",
        "self.holds &= passed_ps <= tail.reduced_ps(step)",
        "pass",
        f"{COUNTER}::test_a_message_that_outlasts_the_reduction_is_folded_by_ranks",
    ),
    Mutation(
        "one body for all paces",
        "training/bodies.py",
        "key = strands, *((*place, self._number(entrant.plan)) for place, entrant in entrants.items())",
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
        "alone_ps = tail.alone_ps(self.own[number])",
        "alone_ps = tail.alone_ps(self.plan)",
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
        "            yield message\n            del posted[wait]",
        "            del posted[wait]\n            yield message",
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
    Mutation(
        "a replay in which passes meet no messages",
        "training/replay.py",
        "not passes.union(*others).isdisjoint(way.course.kinds)",
        "not frozenset[str]().union(*others).isdisjoint(way.course.kinds)",
        f"{REPLAY}::test_drawn_bodies",
    ),
    Mutation(
        "a replay in which messages from both sides do not meet",
        "training/replay.py",
        "not passes.union(*others).isdisjoint(way.course.kinds)",
        "not passes.isdisjoint(way.course.kinds)",
        f"{REPLAY}::test_messages_from_both_sides_share_the_links_of_who_gets_them",
    ),
    Mutation(
        "a replay in which passes take no links from messages",
        "training/replay.py",
        "player.stage.kinds = player.stage.kinds.union(*(way.course.kinds for way in ways))",
        "pass",
        f"{REPLAY}::test_drawn_bodies",
    ),
    Mutation(
        "a replay in which nobody begins a step late",
        "training/players.py",
        "max(self._ready_ps, now_ps, _joined_ps(player.entrant, player.track))",
        "max(self._ready_ps, now_ps)",
        f"{REPLAY}::test_drawn_bodies",
    ),
    Mutation(
        "a replay in which a pass of several teams begins when the last of them has, whatever it does alone before",
        "training/players.py",
        "self._ready_ps = max(self._ready_ps, ready_ps)",
        "self._ready_ps = ready_ps",
        f"{REPLAY}::test_drawn_bodies",
    ),
    Mutation(
        "a replay in which gradients leave at the end of the last pass",
        "training/story.py",
        "return (*found[:-1], LAST) if found[-1] and self.exchanges.reduces(is_last=True) else found",
        "return found",
        f"{REPLAY}::test_drawn_bodies",
    ),
    Mutation(
        "teams forget what activations meet",
        "training/tolls.py",
        "(activations, (-2, -1, 0))",
        "(activations, (-1, 0))",
        f"{REPLAY}::test_ranks_whose_messages_meet_others_are_in_teams_of_their_own",
    ),
    Mutation(
        "teams forget what gradients meet",
        "training/tolls.py",
        "(gradients, (0, 1, 2))",
        "(gradients, (0, 1))",
        f"{REPLAY}::test_drawn_bodies",
    ),
    Mutation(
        "teams forget what they get",
        "training/tolls.py",
        "(activations, (-2, -1, 0))",
        "(activations, (-2, 0))",
        f"{REPLAY}::test_drawn_bodies",
    ),
    Mutation(
        "teams forget what they send",
        "training/tolls.py",
        "(gradients, (0, 1, 2))",
        "(gradients, (1, 2))",
        f"{REPLAY}::test_drawn_bodies",
    ),
    Mutation(
        "packed times are not added up again",
        "training/times.py",
        'array("q", accumulate(array("q", zlib.decompress(packed.packed))))',
        'array("q", zlib.decompress(packed.packed))',
        f"{REPLAY}::test_drawn_bodies",
    ),
    Mutation(
        "messages to several teams come to the first",
        "training/replay.py",
        "                for receiver in receivers:\n",
        "                for receiver in receivers[:1]:\n",
        f"{REPLAY}::test_drawn_bodies",
    ),
    Mutation(
        "a fast rank begins a segment at the pace of a slow one",
        "training/passes.py",
        "alone = (0 if has_met else len(own)) if first is None else first",
        "alone = 0 if has_met else len(own) if first is None else first",
        "reference/test_oracle_agrees.py::test_a_rank_works_as_fast_as_it_can_to_the_first_collective_of_each_segment",
    ),
    Mutation(
        "the collective beside a matmul is on its links for as long as each rank works",
        "training/passes.py",
        "yield replace(faster, transfer=theirs.transfer)",
        "yield faster",
        "training/test_tensor_overlap.py::test_a_group_has_its_links_alike_however_fast_each_rank_is",
    ),
    Mutation(
        "stages share passes of which collectives cost the same in another order",
        "training/cohorts.py",
        "frozenset((use, price.task, price.spent) for use, price in tensor.items())",
        "tuple((price.task, price.spent) for price in tensor.values())",
        "reference/test_oracle_agrees.py::test_stages_share_a_pass_only_if_each_collective_of_it_costs_the_same",
    ),
    Mutation(
        "a replay counts messages that are looked at in another order",
        "training/replay.py",
        "return _sent(kind, sender) is not None and sender.microbatches[kind] == receiver.microbatches[kind]",
        "return _sent(kind, sender) is not None",
        f"{REPLAY}::test_messages_that_are_not_looked_at_in_their_order_are_not_counted",
    ),
    Mutation(
        "a replay that stalls ends in silence",
        "training/bodies.py",
        "            if replay.is_over:\n                return replay",
        "            return replay",
        f"{REPLAY}::test_who_waits_for_what_never_comes_is_named_as_by_events",
    ),
    Mutation(
        "a steady state of a replay forgets since when teams are at work",
        "training/players.py",
        "is_sending, now_ps - self.since_ps, *self.backlog, *streams",
        "is_sending, *self.backlog, *streams",
        f"{REPLAY}::test_drawn_bodies",
    ),
    Mutation(
        "a steady state of a replay forgets how far transfers are",
        "training/players.py",
        "is_sending, now_ps - self.since_ps, *self.backlog, *streams",
        "is_sending, now_ps - self.since_ps, *self.backlog",
        f"{REPLAY}::test_drawn_bodies",
    ),
    Mutation(
        "times of a replay that come again come when they came first",
        "training/times.py",
        "[time_ps + number * period_ps for number in range(1, times + 1) for time_ps in period]",
        "[time_ps for number in range(1, times + 1) for time_ps in period]",
        f"{REPLAY}::test_drawn_bodies",
    ),
    Mutation(
        "a fingerprint forgets that neighbours tell passes apart",
        "training/tracks.py",
        "near = (self, self.previous, self.following)",
        "near = (self,)",
        f"{VIEWS}::test_drawn_views",
    ),
    Mutation(
        "a fingerprint forgets that ranks of a late team are told apart",
        "training/views.py",
        "(played.team, self._number) if late",
        "played.team if late",
        f"{VIEWS}::test_drawn_views",
    ),
    Mutation(
        "a fingerprint forgets when ranks began",
        "training/views.py",
        "played.zero_ps, played.starts_ps[number])",
        "played.zero_ps)",
        f"{VIEWS}::test_drawn_views",
    ),
    Mutation(
        "the critical path goes on with the first of a group instead of the last to come",
        "training/critical_path.py",
        "if joined_ps == call.ready_ps), None)",
        "), None)",
        f"{PATH}::test_drawn_paths",
    ),
    Mutation(
        "the critical path forgets that collectives of a group follow each other",
        "training/critical_path.py",
        "            call = self._call_before(came, call, is_joined=last is not None)\n",
        "            call = None\n",
        f"{PATH}::test_collectives_that_queue_follow_each_other",
    ),
    Mutation(
        "the critical path takes a message from when its receiver waited for it",
        "training/critical_path.py",
        "self._begun_ps(sender, sent, row.end_ps), row.end_ps)",
        "row.ready_ps, row.end_ps)",
        f"{PATH}::test_drawn_paths",
    ),
    Mutation(
        "what goes round a failed link meets nobody there",
        "fabric/struck.py",
        "(transfers + others[wire])",
        "transfers",
        "fabric/test_laws.py::test_what_goes_round_a_failed_link_meets_what_others_send_there",
    ),
    Mutation(
        "a NIC that two chips use carries what one of them sends",
        "fabric/struck.py",
        "(transfers + others[chip, out])",
        "transfers",
        "fabric/test_laws.py::test_a_failed_nic_costs_what_two_chips_with_one_pay",
    ),
    Mutation(
        "of all chips without a NIC of their own one uses that of a neighbour",
        "fabric/struck.py",
        "busiest[NIC] * len(self._users(struck.number)[link[0]] - mine)",
        "busiest[NIC]",
        "fabric/test_laws.py::test_a_nic_is_shared_by_all_that_have_no_other",
    ),
    Mutation(
        "a slow chip makes no work on the critical path longer",
        "simulation/pace.py",
        "leg.operation.duration_ps - meant_ps",
        "0",
        "simulation/test_perturbed_laws.py::test_what_costs_is_named",
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
