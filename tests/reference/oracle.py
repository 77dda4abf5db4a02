"""A second simulator of a training step, slow and plain, that shares no code with the first.

It knows ranks, groups of ranks and picoseconds. It folds nothing, prices nothing, keeps no queue of events: at every
instant it asks each rank in turn whether it can go on, until none can, and then lets time pass until the next piece of
work is done. These are its rules.

Ranks
    A rank does its turns in their order, each for one microbatch and one of its virtual stages. In a forward turn it waits
    for the activation that the virtual stage before has sent (the first of the model does not), works, and sends its
    result on (the last does not). A backward turn is the same in the other direction, with gradients. After its last turn
    it sees its messages arrive, finishes its reductions, reduces the gradients of a tied embedding where it has them,
    runs its optimizer, gathers what it must of the weights, and begins the next step.

Messages
    A message arrives whether or not anybody waits for it. Whoever sends is blocked until it has arrived; or, where
    sending goes on beside the work, only when the next message of the same sort is to be sent, or the step ends.

Collectives
    A collective of a group begins when the last member has come, or, if the group is busy with another, when all that
    were complete before it are over; all members are released together. In a pass a rank waits for its tensor group
    at every collective, and, if there was one, at its end: they leave the pass together.

Gradients
    The gradients of a rank are in buckets. A rank joins the reduction of a bucket and goes on; it waits for all of them,
    in the order in which it joined, when it has no more turns. Without overlap it waits for each as soon as it has joined.
    It joins when the last backward turn through a virtual stage comes to the end of a bucket of it; from ZeRO-2 on, when
    any backward turn does, after waiting for all that it joined before; with neither overlap nor ZeRO-2, when
    it has no more turns, by number. If ranks share in several groups, the reduction that is the last of a bucket is followed
    by one over the ranks that hold the same: each of these joins it when its own group is through.

Weights
    From ZeRO-1 on weights are gathered, bucket by bucket. Up to ZeRO-2 all are asked for after the optimizer, last bucket
    first, and waited for in that order. With prefetch they are asked for instead when the step begins, and each is
    waited for when the first forward turn through its virtual stage comes to it. Under ZeRO-3 every turn
    asks for each bucket when it comes to it, or, with prefetch, some buckets ahead, and waits for it; if weights are
    kept, only the first forward turn through a virtual stage does. Forward turns meet the buckets last first.

Links
    A transfer is time that it has to itself, first, and then for each kind of link a time on links of that kind. Of
    each kind a rank has one link out and one in. A message is on the link out of the sender and the link in of the
    receiver, a collective on both of every member, and each on all of its links at once. If links are shared, their
    users grow together until a link is full, those on it stop there, and the others grow on. A full link does 10**9
    units of work in a picosecond; a share of it is rounded down to a whole unit.

Time
    Things happen at whole picoseconds: a stretch of work is over at the first one at which it is done. What has been
    done by then beyond its end counts for what follows it in the same pass, message or collective; when ranks meet,
    for as much as the one that came last has ahead.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    Patience = Iterator[None]
    """What a rank does: every yield says that it cannot go on yet."""

UNITS_PER_PS = 10**9
Link = tuple[int, str, str]


class Stretch(NamedTuple):
    """Time alone, and the part of it on links of each kind; `meets` if it is a collective of the tensor group."""

    duration_ps: int
    busy_ps: tuple[tuple[str, int], ...] = ()
    meets: bool = False


@dataclass(frozen=True)
class Passes:
    """What a turn through a virtual stage is: as a whole, and cut by its buckets, which the backward turn completes."""

    forward: Sequence[Stretch]
    backward: Sequence[Stretch]
    cut_forward: Sequence[Sequence[Stretch]]
    cut_backward: Sequence[Sequence[Stretch]]
    buckets: Sequence[int]


@dataclass(frozen=True)
class Job:
    """What one rank does in a step; None or nothing for what it does not do.

    Turns are a letter, a microbatch and a virtual stage; `reduce`, `merge` and `gather` are by number of the bucket.
    """

    turns: Sequence[tuple[str, int, int]]
    passes: Mapping[int, Passes]
    optimizer: Sequence[Stretch]
    send_activation: Stretch | None
    send_gradient: Stretch | None
    sends_block: bool
    tied: Stretch | None
    zero: int
    overlap: str
    prefetch: int
    keeps_weights: bool
    reduce: Sequence[Stretch] = ()
    merge: Sequence[Stretch] = ()
    gather: Sequence[Stretch] = ()

    def gathers(self, kind: str, *, is_first: bool) -> bool:
        """Whether a turn gathers its weights."""
        if self.zero == 3:
            return bool(self.gather) and (not self.keeps_weights or (kind == "F" and is_first))
        return bool(self.gather) and self.overlap == "prefetch" and kind == "F" and is_first

    def reduces(self, *, is_last: bool) -> bool:
        """Whether a backward turn reduces its gradients."""
        return bool(self.reduce) and (self.zero >= 2 or (is_last and self.overlap != "none"))


@dataclass(frozen=True)
class Machine:
    """The jobs of all ranks by number, pipelines from first to last stage, groups, and whether links are shared."""

    jobs: Sequence[Job]
    pipelines: Sequence[Sequence[int]]
    groups: Mapping[str, Sequence[Sequence[int]]]
    steps: int
    links_are_shared: bool


class Entry(NamedTuple):
    """An operation and three times: start, ready, end; of a collective beside the work: joined, start, end."""

    name: str
    times_ps: tuple[int, int, int]


@dataclass
class Diary:
    """What a rank did, what it launched, and when its steps ended."""

    done: list[Entry] = field(default_factory=list)
    launched: list[Entry] = field(default_factory=list)
    step_ends_ps: list[int] = field(default_factory=list)


def simulate(machine: Machine) -> list[Diary]:
    """Return what each rank did and when."""
    world = World(machine.links_are_shared)
    ranks = [_Rank(world, number, machine) for number in range(len(machine.jobs))]
    let_live(world, {rank.number: rank.live(machine.steps) for rank in ranks})
    return [rank.diary for rank in ranks]


def let_live(world: World, lives: dict[int, Patience]) -> None:
    """Ask everybody again and again whether they can go on, and let time pass when nobody can, until all are through."""
    while lives:
        world.something_changed = False
        for number, life in list(lives.items()):
            if next(life, "over") == "over":
                del lives[number]
        for group in world.groups:
            if group.has_turns:
                group.take_turns(world)
        if lives and not world.something_changed:
            world.let_time_pass()


class Flow:
    """Work under way: stretches with how many units each is, and how much of the first is done."""

    def __init__(self, stretch: Stretch, links: Callable[[str], Iterable[Link]], done: int) -> None:
        alone_ps = stretch.duration_ps
        self.stretches: list[tuple[int, frozenset[Link]]] = []
        for kind, work_ps in stretch.busy_ps:
            busy_ps = min(work_ps, alone_ps)  # times are rounded up, and so their sum may be too long
            alone_ps -= busy_ps
            self.stretches.append((busy_ps * UNITS_PER_PS, frozenset(links(kind))))
        self.stretches.insert(0, (alone_ps * UNITS_PER_PS, frozenset()))
        self.done = 0
        self.work(done)
        self.end_ps = -1

    @property
    def is_over(self) -> bool:
        return not self.stretches

    @property
    def links(self) -> frozenset[Link]:
        return self.stretches[0][1]

    @property
    def left(self) -> int:
        return self.stretches[0][0] - self.done

    def work(self, units: int) -> None:
        self.done += units
        while self.stretches and self.left <= 0:
            self.done -= self.stretches.pop(0)[0]


class World:
    """The time, and all that is under way."""

    def __init__(self, links_are_shared: bool) -> None:
        self.now_ps = 0
        self.something_changed = False
        self.groups: list[_Group] = []
        self.mail: dict[Hashable, tuple[int, Flow]] = {}
        self._links_are_shared = links_are_shared
        self._flows: list[Flow] = []

    def begin(self, stretch: Stretch, senders: Sequence[int], receivers: Sequence[int], done: int = 0) -> Flow:
        """Begin work, some of which may be done already, on the links of some ranks."""

        def links(kind: str) -> Iterator[Link]:
            if self._links_are_shared:
                yield from ((rank, "out", kind) for rank in senders)
                yield from ((rank, "in", kind) for rank in receivers)

        flow = Flow(stretch, links, done)
        flow.end_ps = self.now_ps  # unless it takes some time
        self._flows.append(flow)
        self.something_changed = True
        return flow

    def let_time_pass(self) -> None:
        """Go on to the next instant at which a stretch of work is done."""
        self._flows = [flow for flow in self._flows if not flow.is_over]
        if not self._flows:
            raise RuntimeError(f"at {self.now_ps} ps ranks wait for what never comes")
        rates = _fair_rates([flow.links for flow in self._flows])
        pause_ps = min(-(-flow.left // rate) for flow, rate in zip(self._flows, rates, strict=True))
        for flow, rate in zip(self._flows, rates, strict=True):
            flow.work(rate * pause_ps)
        self.now_ps += pause_ps
        for flow in self._flows:
            if flow.is_over:
                flow.end_ps = self.now_ps


def _fair_rates(flows: Sequence[frozenset[Link]]) -> list[int]:
    """Return units per picosecond; who is on no link has as many as a link."""
    rates = [0 if links else UNITS_PER_PS for links in flows]
    left = {link: UNITS_PER_PS for links in flows for link in links}
    while 0 in rates:
        growing = Counter(link for links, rate in zip(flows, rates, strict=True) if not rate for link in links)
        shares = {link: left[link] // users for link, users in growing.items()}
        smallest = min(shares.values())
        full = {link for link, share in shares.items() if share == smallest}
        for number, links in enumerate(flows):
            if not rates[number] and links & full:
                rates[number] = smallest
                for link in links:
                    left[link] -= smallest
    return rates


class _Call:
    """A collective: who has come and when, and with how much done already of what it is."""

    def __init__(self, stretch: Stretch) -> None:
        self.stretch = stretch
        self.joined_ps: dict[int, int] = {}
        self.done = 0
        self.ready_ps = self.start_ps = self.end_ps = -1
        self.flow: Flow | None = None

    @property
    def is_over(self) -> bool:
        return self.end_ps >= 0


class _Group:
    """Ranks that have collectives together, one at a time."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self.ranks = ranks
        self._incomplete: dict[Hashable, _Call] = {}
        self._complete: list[_Call] = []
        self._later: list[tuple[_Call, int, Hashable, Stretch]] = []

    def join(self, world: World, rank: int, key: Hashable, stretch: Stretch, done: int = 0) -> _Call:
        """Let a member come to the collective `key`."""
        call = self._incomplete.setdefault(key, _Call(stretch))
        if call.stretch != stretch:
            raise ValueError(f"the members of {self.ranks} do not agree on what {key} is")
        came_late = world.now_ps not in call.joined_ps.values()
        call.done = done if came_late else min(call.done, done)
        call.joined_ps[rank] = world.now_ps
        if len(call.joined_ps) == len(self.ranks):
            call.ready_ps = world.now_ps
            self._complete.append(self._incomplete.pop(key))
        world.something_changed = True
        return call

    def join_after(self, earlier: _Call, rank: int, key: Hashable, stretch: Stretch) -> _Call:
        """Let a member come to the collective `key` when another one is over."""
        self._later.append((earlier, rank, key, stretch))
        return self._incomplete.setdefault(key, _Call(stretch))

    @property
    def has_turns(self) -> bool:
        return bool(self._complete or self._later)

    def take_turns(self, world: World) -> None:
        """End the collective that is over, begin the next."""
        for each in self._later[:]:
            earlier, rank, key, stretch = each
            if earlier.is_over:
                self._later.remove(each)
                self.join(world, rank, key, stretch)
        while self._complete:
            call = self._complete[0]
            if call.flow is None:
                call.start_ps = world.now_ps
                call.flow = world.begin(call.stretch, self.ranks, self.ranks, call.done)
            if not call.flow.is_over:
                return
            call.end_ps, call.done = world.now_ps, call.flow.done
            del self._complete[0]
            world.something_changed = True


class _Rank:
    """One rank and what it does."""

    def __init__(self, world: World, number: int, machine: Machine) -> None:
        self.world = world
        self.number = number
        self.job = machine.jobs[number]
        self.diary = Diary()
        self.last_virtual_stage = max(place for job in machine.jobs for place in job.passes)
        pipeline = next(ranks for ranks in machine.pipelines if number in ranks)
        place = pipeline.index(number)
        self.before, self.after = pipeline[place - 1], pipeline[(place + 1) % len(pipeline)]
        self.groups = {axis: _group(world, groups, number) for axis, groups in machine.groups.items()}
        self.posted: dict[str, tuple[int, Flow]] = {}
        self.pending: list[tuple[str, _Call]] = []
        self.asked: dict[int, tuple[str, _Call]] = {}

    def live(self, steps: int) -> Patience:
        turns = self.job.turns
        for _ in range(steps):
            if self.job.zero < 3 and self.job.overlap == "prefetch":
                self.asked = {bucket: self._gather(bucket) for bucket in reversed(range(len(self.job.gather)))}
            for number, (kind, microbatch, place) in enumerate(turns):
                if kind == "F":
                    is_first = (kind, place) not in [(each[0], each[2]) for each in turns[:number]]
                    yield from self._forward(microbatch, place, is_first)
                else:
                    is_last = (kind, place) not in [(each[0], each[2]) for each in turns[number + 1 :]]
                    yield from self._backward(microbatch, place, is_last)
            yield from self._update()
            self.diary.step_ends_ps.append(self.world.now_ps)

    def _forward(self, microbatch: int, place: int, is_first: bool) -> Patience:
        passes = self.job.passes[place]
        if place > 0:
            yield from self._receive(self.before, "activation", (microbatch, place))
        if self.job.gathers("F", is_first=is_first):
            yield from self._in_parts("forward", passes.cut_forward, passes.buckets[::-1], gathers=True)
        else:
            yield from self._perform("forward", passes.forward)
        if place < self.last_virtual_stage:
            yield from self._send(self.after, "activation", (microbatch, place + 1), self.job.send_activation)

    def _backward(self, microbatch: int, place: int, is_last: bool) -> Patience:
        passes = self.job.passes[place]
        if place < self.last_virtual_stage:
            yield from self._receive(self.after, "gradient", (microbatch, place))
        gathers, reduces = self.job.gathers("B", is_first=False), self.job.reduces(is_last=is_last)
        if gathers or reduces:
            yield from self._in_parts(
                "backward", passes.cut_backward, passes.buckets, gathers=gathers, reduces=reduces, is_last=is_last
            )
        else:
            yield from self._perform("backward", passes.backward)
        if place > 0:
            yield from self._send(self.before, "gradient", (microbatch, place - 1), self.job.send_gradient)

    def _in_parts(
        self,
        name: str,
        parts: Sequence[Sequence[Stretch]],
        buckets: Sequence[int],
        *,
        gathers: bool,
        reduces: bool = False,
        is_last: bool = False,
    ) -> Patience:
        ahead = self.job.prefetch if self.job.overlap == "prefetch" else 0
        count = 0 if self.job.zero == 3 else len(buckets)  # up to ZeRO-2 all were asked for when the step began
        for position, bucket in enumerate(buckets):
            while gathers and count <= min(position + ahead, len(buckets) - 1):
                self.asked[buckets[count]] = self._gather(buckets[count])
                count += 1
            if gathers:
                yield from self._await(*self.asked.pop(bucket))
            yield from self._perform(name, parts[position])
            if reduces:
                yield from self._reduce(bucket, is_last)

    def _gather(self, bucket: int) -> tuple[str, _Call]:
        return f"weights {bucket}", self._join("dp", ("weights", bucket), self.job.gather[bucket])

    def _reduce(self, bucket: int, is_last: bool) -> Patience:
        if self.job.zero >= 2:
            yield from self._await_pending()
        call = self._join("dp", ("gradients", bucket), self.job.reduce[bucket])
        self.pending.append((f"gradients {bucket}", call))
        if is_last and self.job.merge:
            merged = self.groups["dp copies"].join_after(call, self.number, bucket, self.job.merge[bucket])
            self.pending.append((f"gradients of copies {bucket}", merged))
        if self.job.overlap == "none":
            yield from self._await_pending()

    def _await_pending(self) -> Patience:
        for name, call in self.pending:
            yield from self._await(name, call)
        self.pending.clear()

    def _update(self) -> Patience:
        for what in ("activation", "gradient"):
            yield from self._see_arrive(what)
        if not self.job.reduces(is_last=True):
            for bucket in range(len(self.job.reduce)):
                yield from self._reduce(bucket, is_last=True)
        yield from self._await_pending()
        if self.job.tied is not None:
            yield from self._await("tied embedding gradients", self._join("tied", "tied", self.job.tied))
        yield from self._perform("optimizer", self.job.optimizer)
        if self.job.zero < 3 and self.job.overlap != "prefetch":
            asked = [self._gather(bucket) for bucket in reversed(range(len(self.job.gather)))]
            for name, call in asked:
                yield from self._await(name, call)

    def _perform(self, name: str, stretches: Sequence[Stretch]) -> Patience:
        start_ps, ready_ps, done = self.world.now_ps, -1, 0
        for number, stretch in enumerate(stretches):
            if stretch.meets:
                call = self._join("tp", (name, number), stretch, done)
                while not call.is_over:
                    yield
                ready_ps = call.ready_ps if ready_ps < 0 else ready_ps
                done = call.done
            else:
                flow = self.world.begin(stretch, (), (), done)
                while not flow.is_over:
                    yield
                done = flow.done
        if ready_ps >= 0:
            leaving = self._join("tp", (name, "end"), Stretch(0))
            while not leaving.is_over:
                yield
        self._note(name, start_ps, self.world.now_ps if ready_ps < 0 else ready_ps)

    def _send(self, receiver: int, what: str, content: tuple[int, int], stretch: Stretch | None) -> Patience:
        if stretch is None:
            raise ValueError(f"rank {self.number} does not know what it is to send {what}")
        if not self.job.sends_block:
            yield from self._see_arrive(what)
        start_ps = self.world.now_ps
        flow = self.world.begin(stretch, [self.number], [receiver])
        self.world.mail[self.number, receiver, what, content] = start_ps, flow
        if self.job.sends_block:
            while not flow.is_over:
                yield
            self._note(f"send {what}", start_ps, start_ps)
        else:
            self.posted[what] = start_ps, flow

    def _see_arrive(self, what: str) -> Patience:
        if what in self.posted:
            sent_ps, flow = self.posted.pop(what)
            start_ps = self.world.now_ps
            while not flow.is_over:
                yield
            if self.world.now_ps > start_ps:
                self._note(f"send {what}", start_ps, start_ps)
            self.diary.launched.append(Entry(f"send {what}", (sent_ps, sent_ps, flow.end_ps)))

    def _receive(self, sender: int, what: str, content: tuple[int, int]) -> Patience:
        start_ps, key, mail = self.world.now_ps, (sender, self.number, what, content), self.world.mail
        while key not in mail or not mail[key][1].is_over:
            yield
        sent_ps, _ = mail.pop(key)
        self._note(f"receive {what}", start_ps, max(start_ps, sent_ps))

    def _join(self, axis: str, key: Hashable, stretch: Stretch, done: int = 0) -> _Call:
        return self.groups[axis].join(self.world, self.number, key, stretch, done)

    def _await(self, name: str, call: _Call) -> Patience:
        start_ps = self.world.now_ps
        while not call.is_over:
            yield
        self._note(name, start_ps, max(start_ps, call.ready_ps))
        self.diary.launched.append(Entry(name, (call.joined_ps[self.number], call.start_ps, call.end_ps)))

    def _note(self, name: str, start_ps: int, ready_ps: int) -> None:
        self.diary.done.append(Entry(name, (start_ps, ready_ps, self.world.now_ps)))
        self.world.something_changed = True


def _group(world: World, groups: Sequence[Sequence[int]], number: int) -> _Group:
    """Return the group of a rank, the same for all its members; a rank in none is a group of its own."""
    ranks = next((ranks for ranks in groups if number in ranks), [number])
    found = next((group for group in world.groups if group.ranks is ranks), None)
    if found is None:
        found = _Group(ranks)
        world.groups.append(found)
    return found
