"""A sign of life during long work: on standard error, and only on a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["counting", "working"]

T = TypeVar("T")


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show a spinner with a text while the body runs."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(what)):
        yield


def counting(what: str) -> Callable[[Iterable[T], int], Iterable[T]]:
    """Return what wraps an iterable of known length and shows a bar while it is gone through."""

    def watch(found: Iterable[T], total: int) -> Iterable[T]:
        if not sys.stderr.isatty():
            return found
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import track

        return track(found, escape(what), total, console=Console(stderr=True), transient=True)

    return watch
