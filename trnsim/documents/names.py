"""Near matches of a mistyped word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.documents.text import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["canonical", "nearest", "refuse_unknown"]


def canonical(word: str) -> str:
    """Write a word without regard to case, dashes, underscores, dots and spaces.

    Examples
    --------
    >>> canonical("All-Reduce") == canonical("all_reduce")
    True
    """
    return "".join(character for character in word.casefold() if character.isalnum() or character == "@")


def nearest(word: str, candidates: Iterable[str], n: int = 3) -> tuple[str, ...]:
    """Return up to `n` candidates that look like `word`, the best first.

    Case and dashes do not count; a candidate that contains the word, or is contained in it, is near.

    Examples
    --------
    >>> nearest("trn2-48xl", ["trn1.32xlarge", "trn2.48xlarge", "trn2-ultraserver"], n=1)
    ('trn2.48xlarge',)
    """
    from difflib import SequenceMatcher

    wanted = canonical(word)

    def likeness(candidate: str) -> float:
        found = canonical(candidate)
        contained = min(len(wanted), len(found)) >= 3 and (wanted in found or found in wanted)
        return max(0.65 if contained else 0.0, SequenceMatcher(None, wanted, found).ratio())

    ranked = sorted((-likeness(candidate), position, candidate) for position, candidate in enumerate(candidates))
    return tuple(candidate for score, _, candidate in ranked[:n] if -score >= 0.6)


def refuse_unknown(kind: str, name: str, candidates: Iterable[str]) -> str:
    """Write the message for a name that nobody knows.

    Parameters
    ----------
    kind
        What the name was to be, in the singular: ``"chip"``.
    name
        The name as given.
    candidates
        Every known name.

    Examples
    --------
    >>> refuse_unknown("schedule", "1f2b", ["gpipe", "1f1b"])
    'unknown schedule "1f2b"; did you mean 1f1b? known: 1f1b, gpipe'
    """
    known = sorted(candidates)
    near = nearest(name, known)
    hint = f" did you mean {' or '.join(near)}?" if near else ""
    shown = shorten(name).strip('"')
    return f'unknown {kind} "{shown}";{hint} known: {", ".join(known) or "none"}'
