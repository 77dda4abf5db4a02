"""An engine in which each rank goes on as soon as its own messages are through: the fidelity ``chunk``.

Nobody waits for a whole group. A rank enters a collective when it gets there, sends as its steps allow, and leaves when
all that it sends has left and all that it is to receive has arrived. Messages of all groups queue on the same links,
first come first served. What a rank does in which order is told by the same stories as for `trnsim.engine.core`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.engine.core import Cohort, Engine
from trnsim.engine.operations import Activity
from trnsim.engine.post import Post

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from trnsim.engine.core import Story
    from trnsim.engine.groups import Call, Collective, Message
    from trnsim.engine.operations import Transfer, Wait
    from trnsim.engine.post import ExchangesOf

__all__ = ["MessageEngine"]


class MessageEngine(Engine):
    """Runs the stories of single ranks, and follows each message over each link.

    Parameters
    ----------
    latencies_ps
        Of each link. >= 0.
    exchanges_of
        From the ranks of a group, in the order of its members, and the task of a transfer to what they send one another;
        of a message, the sender comes first. Rank n is the n-th cohort that was added.

    Examples
    --------
    Two ranks swap messages of 5 ps; the second comes 3 ps later and lets the first wait. It is through when its own has
    left, at 8, and that has arrived at 9.

    >>> from trnsim.engine import Collective, Transfer, Wait
    >>> from trnsim.engine.messages import Exchange, Send
    >>> swap = Exchange([[Send(1, ((0, 5),))], [Send(0, ((1, 5),))]])
    >>> engine = MessageEngine([1, 1], lambda ranks, task: [swap])
    >>> ranks = [engine.cohort("chip", ranks=1, first=f"dp{number}") for number in range(2)]
    >>> group, wait = Collective("dp", dict.fromkeys(ranks, 1)), Wait("swap", "straggler_wait", "exposed_dp")
    >>> def story(rank, late_ps):
    ...     yield engine.environment.timeout(late_ps)
    ...     yield from rank.wait(rank.launch(group, wait, 0, Transfer(6e-12)), wait)
    >>> for rank, late_ps in zip(ranks, (0, 3)):
    ...     engine.start(rank, story(rank, late_ps))
    >>> engine.run()
    >>> [tuple(row[1:]) for rank in ranks for row in rank.log.rows()]
    [(0, 3, 9), (3, 3, 8)]
    """

    holds_groups_together = False

    def __init__(self, latencies_ps: Sequence[int], exchanges_of: ExchangesOf) -> None:
        super().__init__()
        self.post = Post(self.environment, latencies_ps, exchanges_of)

    def cohort(self, name: str, *, ranks: int, first: str) -> Cohort:
        """Add a rank.

        Raises
        ------
        ValueError
            If it is several.
        """
        if ranks != 1:
            raise ValueError(f"single messages are followed between single ranks, not between cohorts of {ranks}")
        found = MessageCohort(self, name, first)
        self.post.add(found)
        self.cohorts.append(found)
        return found

    def run(self) -> None:
        """Process events until none is left; those of messages count as events.

        Raises
        ------
        SimulationStalledError
            If a rank has not finished its story then.
        """
        super().run()
        self.events += self.post.events


class MessageCohort(Cohort):
    """A rank whose messages are followed."""

    def __init__(self, engine: MessageEngine, name: str, first: str) -> None:
        super().__init__(engine, name, ranks=1, first=first)
        self._post = engine.post

    def perform(self, activity: Activity, group: Collective | None = None, key: Hashable = None) -> Story:
        """Spend the time of an activity; each of its collectives takes what it takes."""
        if group is None:
            yield from super().perform(activity)
            return
        for number, piece in enumerate(self._post.pieces(activity)):
            if isinstance(piece, Activity):
                yield from super().perform(piece)
            else:
                start = self.engine.now_ps
                call = self._post.join(group, self, piece.wait.name, (activity.name, key, number), piece.transfer)
                self._awaits = call
                yield call
                self._awaits = None
                self.journal.add(piece.wait, start, max(start, call.ready_ps), self.engine.now_ps)

    def launch(
        self, group: Collective, wait: Wait, key: Hashable, transfer: Transfer, after: Call | None = None
    ) -> Call:
        """Join a collective that runs beside the rank's own work: at once, or as soon as it is through with another."""
        return self._post.join(group, self, wait.name, key, transfer, after=after)

    def _push(self, receiver: Cohort, content: Hashable, transfer: Transfer) -> Message:
        message = receiver._message((self, content))  # noqa: SLF001  # as a cohort does
        message.ready_ps = self.engine.now_ps
        self._post.deliver(self, receiver, transfer, lambda at_ps: message.happen_in(at_ps - self.engine.now_ps))
        return message
