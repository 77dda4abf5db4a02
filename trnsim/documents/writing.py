"""Plain values to YAML with comments."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Any

from trnsim.documents.text import join_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["commented_yaml"]


def commented_yaml(data: Mapping[str, Any], comments: Mapping[str, str], head: Sequence[str] = ()) -> str:
    """Write a document for people: tables as blocks, lists on one line, a comment behind a value.

    Parameters
    ----------
    data
        Tables of tables, lists, text, numbers, true and false.
    comments
        By key path; printable text of one line each.
    head
        Lines of the comment at the top.

    Examples
    --------
    >>> print(commented_yaml({"layout": {"tp": 8, "stages": [3, 4]}}, {"layout.tp": "as measured"}, ["An example"]), end="")
    # An example
    layout:
      tp: 8 # as measured
      stages: [3, 4]
    """
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.width = 1_000_000  # a wrapped line would break a comment
    stream = StringIO()
    yaml.dump(_commented(data, comments, ""), stream)
    return "".join(f"# {line}".rstrip() + "\n" for line in head) + stream.getvalue()


def _commented(table: Mapping[str, Any], comments: Mapping[str, str], path: str) -> Any:
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    commented = CommentedMap()
    for key, value in table.items():
        here = join_key(path, key)
        if isinstance(value, list):
            commented[key] = CommentedSeq(value)
            commented[key].fa.set_flow_style()
        else:
            commented[key] = _commented(value, comments, here) if isinstance(value, dict) else value
        if here in comments:
            commented.yaml_add_eol_comment(comments[here], key, column=0)
    return commented
