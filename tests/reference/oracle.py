"""A second simulator of a training step, slow and plain, that shares no code with the first.

It knows ranks, groups of ranks and picoseconds. It folds nothing, prices nothing, keeps no queue of events: at every
instant it asks each rank in turn whether it can go on, until none can, and then lets time pass until the next piece of
work is done. These are its rules.

Ranks
    A rank does its turns in their order. In a forward turn it waits for the activation from the stage before (the first
    stage does not), works, and sends its result on (the last stage does not). A backward turn is the same in the other
    direction, with gradients. After its last turn it finishes its reductions, reduces the gradients of a tied embedding
    where it has them, runs its optimizer, gathers the weights where they are sharded, and begins the next step.

Messages
    Whoever sends is blocked until the message has arrived. It arrives whether or not anybody waits for it.

Collectives
    A collective of a group begins when the last member has come, or, if the group is busy with another, when all that
    were complete before it are over; all members are released together. In a pass a rank waits for its tensor group
    at every collective, and for nothing else.

Gradients
    With overlap the last backward turn of a step is cut where a bucket of gradients is complete. There the rank
    joins the reduction of that bucket and goes on; it waits for all of them, first to last, when it has no more turns.
    Without overlap it joins and waits for one after the other at that point.

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
class Job:
    """What one rank does in a step; None or nothing for what it does not do."""

    turns: Sequence[tuple[str, int]]
    forward: Sequence[Stretch]
    backward: Sequence[Stretch]
    segments: Sequence[Sequence[Stretch]]
    optimizer: Sequence[Stretch]
    overlap: bool
    send_activation: Stretch | None = None
    send_gradient: Stretch | None = None
    reduce: Sequence[tuple[str, Stretch]] = ()
    tied: Stretch | None = None
    gather: Stretch | None = None


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

    def take_turns(self, world: World) -> None:
        """End the collective that is over, begin the next."""
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
        pipeline = next(ranks for ranks in machine.pipelines if number in ranks)
        place = pipeline.index(number)
        self.before = pipeline[place - 1] if place else None
        self.after = pipeline[place + 1] if place + 1 < len(pipeline) else None
        self.groups = {axis: _group(world, groups, number) for axis, groups in machine.groups.items()}

    def live(self, steps: int) -> Patience:
        turns = self.job.turns
        last_backward = max(number for number, (kind, _) in enumerate(turns) if kind == "B")
        for _ in range(steps):
            reductions: list[_Call] = []
            for number, (kind, microbatch) in enumerate(turns):
                if kind == "F":
                    yield from self._forward(microbatch)
                else:
                    yield from self._backward(microbatch, number == last_backward, reductions)
            yield from self._update(reductions)
            self.diary.step_ends_ps.append(self.world.now_ps)

    def _forward(self, microbatch: int) -> Patience:
        if self.before is not None:
            yield from self._receive(self.before, "activation", microbatch)
        yield from self._perform("forward", self.job.forward)
        if self.after is not None and self.job.send_activation is not None:
            yield from self._send(self.after, "activation", microbatch, self.job.send_activation)

    def _backward(self, microbatch: int, is_last: bool, reductions: list[_Call]) -> Patience:
        if self.after is not None:
            yield from self._receive(self.after, "gradient", microbatch)
        if is_last and self.job.reduce and self.job.overlap:
            for number, segment in enumerate(self.job.segments):
                yield from self._perform("backward", segment)
                reductions.append(self._reduce(number))
        else:
            yield from self._perform("backward", self.job.backward)
        if self.before is not None and self.job.send_gradient is not None:
            yield from self._send(self.before, "gradient", microbatch, self.job.send_gradient)

    def _update(self, reductions: list[_Call]) -> Patience:
        for number, (name, _) in enumerate(self.job.reduce):
            yield from self._await(name, reductions[number] if reductions else self._reduce(number))
        if self.job.tied is not None:
            yield from self._await("tied embedding gradients", self._join("tied", "tied", self.job.tied))
        yield from self._perform("optimizer", self.job.optimizer)
        if self.job.gather is not None:
            yield from self._await("weights", self._join("dp", "weights", self.job.gather))

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
        self._note(name, start_ps, self.world.now_ps if ready_ps < 0 else ready_ps)

    def _send(self, receiver: int, what: str, microbatch: int, stretch: Stretch) -> Patience:
        start_ps = self.world.now_ps
        flow = self.world.begin(stretch, [self.number], [receiver])
        self.world.mail[self.number, receiver, what, microbatch] = start_ps, flow
        while not flow.is_over:
            yield
        self._note(f"send {what}", start_ps, start_ps)

    def _receive(self, sender: int, what: str, microbatch: int) -> Patience:
        start_ps, key, mail = self.world.now_ps, (sender, self.number, what, microbatch), self.world.mail
        while key not in mail or not mail[key][1].is_over:
            yield
        sent_ps, _ = mail.pop(key)
        self._note(f"receive {what}", start_ps, max(start_ps, sent_ps))

    def _reduce(self, number: int) -> _Call:
        return self._join("dp", number, self.job.reduce[number][1])

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
