"""What data-parallel ranks exchange in a step, and when: gradients as they get ready, shared weights as they are needed.

Passes are cut at the borders of buckets where weights have to arrive or gradients leave; the collectives run beside the
passes, one after the other in each group. So what of them is waited for is an outcome.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from trnsim.engine import Activity, Part
from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from trnsim.engine import Call, Cohort, Collective, Story, Transfer, Wait
    from trnsim.parallel import Sharding
    from trnsim.schedules import Pass
    from trnsim.training.passes import StagePasses


INTERFERENCE = "slowed by collectives"
GRADIENTS, COPIES, WEIGHTS = "gradients", "gradients of copies", "weights"
"""What the collectives of a bucket are called, before its number."""


class Launch(NamedTuple):
    """A collective that a rank launches, and how waiting for it is booked."""

    wait: Wait
    transfer: Transfer


class Exchanges(Record):
    """The data-parallel collectives of a rank, by number of the bucket; empty where it has nothing to exchange.

    Parameters
    ----------
    sharding
        What is shared, and what travels beside the passes.
    reduce
        Summing gradients over the ranks that share.
    merge
        Summing what they then hold over the groups of ranks that share; empty if there is one group.
    gather
        Gathering weights; empty where nothing is shared.
    interference_fraction
        Share of its time by which a collective that goes on beside a pass slows the pass.
    """

    sharding: Sharding
    reduce: tuple[Launch, ...] = ()
    merge: tuple[Launch, ...] = ()
    gather: tuple[Launch, ...] = ()
    interference_fraction: float = 0.0

    def gathers(self, kind: str, *, is_first: bool) -> bool:
        """Whether a pass waits for weights; `is_first` says that it is the first through its virtual stage in the step."""
        if not self.gather or not self.sharding.gathers_in_passes:
            return False
        again = self.sharding.zero == 3 and self.sharding.reshard_after_forward
        return again or (kind == "F" and is_first)

    def reduces(self, *, is_last: bool) -> bool:
        """Whether gradients leave during a backward pass; `is_last` says that it completes those of the step.

        Shared gradients leave in every pass, since a rank keeps its share of their sum only.
        """
        if not self.reduce:
            return False
        return self.sharding.zero >= 2 or (is_last and self.sharding.overlap != "none")

    def whole(self, kind: str, passes: StagePasses, *, is_border: bool) -> Activity | None:
        """Return what a pass is where nothing is launched or waited for in it; None where it goes bucket by bucket.

        `is_border` says that it is the first forward or the last backward through its virtual stage in the step.
        """
        if self.gathers(kind, is_first=is_border) or (kind == "B" and self.reduces(is_last=is_border)):
            return None
        return passes.forward if kind == "F" else passes.backward


class Launched(NamedTuple):
    """A collective on its way."""

    call: Call
    wait: Wait
    transfer: Transfer

    def situation(self, rank: Cohort, now_ps: int) -> tuple[Hashable, ...]:
        """Return how it stands, times counted from now."""
        return self.wait, *self.call.situation(rank, now_ps)


class DataParallel(Struct):
    """One step of one rank, as its data-parallel groups see it.

    Parameters
    ----------
    rank
        The cohort that acts.
    exchanges
        What it exchanges.
    tensor, sharing, copies
        Its tensor-parallel group, the ranks that share with it, those of other groups that hold the same; None where
        there are none.
    step
        Number of the step.
    """

    rank: Cohort
    exchanges: Exchanges
    tensor: Collective | None
    sharing: Collective | None
    copies: Collective | None
    step: int
    pending: list[Launched] = field(default_factory=list)
    gathering: dict[int, Launched] = field(default_factory=dict)
    beside: tuple[Launched, ...] = ()

    def situation(self, now_ps: int) -> Hashable:
        """Return what is on its way or not waited for yet, times counted from now."""
        gathering = tuple((number, each.situation(self.rank, now_ps)) for number, each in self.gathering.items())
        lists = (tuple(each.situation(self.rank, now_ps) for each in found) for found in (self.pending, self.beside))
        return gathering, *lists

    def begin(self) -> None:
        """Ask for all the weights that other ranks have updated, where passes wait for them; those needed first, first."""
        sharding = self.exchanges.sharding
        if sharding.gathers_in_passes and sharding.zero < 3:
            for number, launch in _last_first(self.exchanges.gather):
                self.gathering[number] = self._launch(launch, "weights", number)

    def in_parts(self, turn: Pass, passes: StagePasses, *, is_border: bool) -> Story:
        """Run a pass bucket by bucket: wait for the weights of each where they are gathered, launch the reduction of each.

        `is_border` as for `Exchanges.whole`.
        """
        gathers, ahead = self.exchanges.gathers(turn.kind, is_first=is_border), self.exchanges.sharding.gathers_ahead
        reduces = turn.kind == "B" and self.exchanges.reduces(is_last=is_border)
        segments, buckets = passes.segments, passes.buckets
        if turn.kind == "F":
            segments, buckets = passes.forward_segments, passes.buckets[::-1]
        for position, (number, segment) in enumerate(zip(buckets, segments, strict=True)):
            if gathers:
                for wanted in buckets[position : position + ahead + 1]:
                    if wanted not in self.gathering:
                        self.gathering[wanted] = self._launch(self.exchanges.gather[wanted], turn, wanted)
                yield from self._wait(self.gathering[number])
                del self.gathering[number]  # not before: what is waited for is a part of the situation
            yield from self.rank.perform(segment, self.tensor, (turn, number))
            if self.beside:
                yield from self._slow_down((turn, number))
            if reduces:
                yield from self._reduce(number, turn, is_last=is_border)

    def finish(self) -> Story:
        """Wait for all gradients; reduce them now if none left during the backward pass."""
        if not self.exchanges.reduces(is_last=True):
            for number in range(len(self.exchanges.reduce)):
                yield from self._reduce(number, None, is_last=True)
        yield from self._settle()

    def gather(self) -> Story:
        """Gather the weights that other ranks updated, unless that waits for the passes that need them."""
        if not self.exchanges.sharding.gathers_in_passes:
            calls = [self._launch(launch, "weights", number) for number, launch in _last_first(self.exchanges.gather)]
            for launched in calls:
                yield from self._wait(launched)

    def _reduce(self, number: int, turn: Pass | None, *, is_last: bool) -> Story:
        """Launch the reduction of a bucket; shared gradients wait for the one before, so that two at most are whole."""
        sharding = self.exchanges.sharding
        if sharding.zero >= 2:
            yield from self._settle()
        reduction = self._launch(self.exchanges.reduce[number], turn, number)
        self.pending.append(reduction)
        if self.copies is not None and is_last:
            merge = self.exchanges.merge[number]
            key = (self.step, "merge", number)
            call = self.rank.launch(self.copies, merge.wait, key, merge.transfer, after=reduction.call)
            self.pending.append(self._started(call, merge))
        if sharding.overlap == "none":
            yield from self._settle()

    def _settle(self) -> Story:
        for launched in self.pending:
            yield from self._wait(launched)
        self.pending.clear()

    def _wait(self, launched: Launched) -> Story:
        """Wait for a collective; where no pass has gone on beside it yet, it slows none."""
        self.beside = tuple([other for other in self.beside if other is not launched])
        return self.rank.wait(launched.call, launched.wait)

    def _slow_down(self, turn: Hashable) -> Story:
        """Lose what the collectives took from the pass that went on beside them."""
        together_s = sum(launched.transfer.duration_s for launched in self.beside)
        lost_s = together_s * self.exchanges.interference_fraction
        yield from self.rank.perform(Activity(INTERFERENCE, (Part(INTERFERENCE, "exposed_dp", lost_s),)), None, turn)
        self.beside = ()  # not before: what is lost is a part of the situation

    def _launch(self, launch: Launch, turn: Pass | str | None, number: int) -> Launched:
        if self.sharing is None:
            raise ValueError(f"a rank without data-parallel group cannot launch {launch.wait.name}")
        key = (self.step, launch.wait.name, turn, number)
        return self._started(self.rank.launch(self.sharing, launch.wait, key, launch.transfer), launch)

    def _started(self, call: Call, launch: Launch) -> Launched:
        launched = Launched(call, launch.wait, launch.transfer)
        if self.exchanges.interference_fraction:
            self.beside += (launched,)
        return launched


def _last_first(launches: Sequence[Launch]) -> list[tuple[int, Launch]]:
    """Return the launches in the order of the forward pass, which is that of buckets reversed."""
    return list(enumerate(launches))[::-1]
