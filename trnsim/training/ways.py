"""What teams send each other in a replay: one message stands for those of all teams whose messages come at the same times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.engine import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trnsim.engine import Agenda, Course
    from trnsim.training.players import Player

__all__ = ["Way"]


class Way:
    """Messages of one kind from teams of a stage to those of the next, which all come at the same times.

    There is one at a time, as senders wait until it has come.

    Attributes
    ----------
    kind, senders, receivers
        As given.
    course
        What each is to the links.
    is_shared
        Whether it may meet what else the receivers have on their links. A team that sends is in no pass, so nothing is
        shared at the other end.
    """

    def __init__(
        self, kind: int, senders: Sequence[Player], receivers: Sequence[Player], course: Course, agenda: Agenda
    ) -> None:
        self.course = course
        self.is_shared = False
        self.senders, self.receivers, self.kind, self._agenda = senders, receivers, kind, agenda
        self._route = Route(lambda kind: [link for receiver in receivers for link in receiver.links(kind)])
        self._missing = len(senders)

    def set_out(self) -> None:
        """Let a team send a message; the last of a stage sends those of all."""
        self._missing -= 1
        if not self._missing:
            self._missing = len(self.senders)
            self.carry()

    def carry(self) -> None:
        """Send a message."""
        self._carry(self.come)

    def bring(self) -> None:
        """Send a message whose senders go on by themselves."""
        self._carry(self._take)

    def foresee(self, come_ps: int) -> None:
        """Note when the last message comes."""

    def _carry(self, over: Callable[[], None]) -> None:
        if self.is_shared:
            self._agenda.carry(self.course, self._route, over)
        else:
            self._agenda.add(self._agenda.now + self.course.duration_ps, over)

    def come(self) -> None:
        """Let a message arrive."""
        for sender in self.senders:
            sender.left.append(self._agenda.now)
        self._take()
        for sender in self.senders:
            sender.begin()

    def _take(self) -> None:
        for receiver in self.receivers:
            receiver.take(self.kind)
