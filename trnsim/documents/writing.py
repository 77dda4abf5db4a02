"""Plain values to YAML with comments."""

from __future__ import annotations

from functools import reduce
from io import StringIO
from typing import TYPE_CHECKING, Any

from trnsim.documents.text import join_key, split_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["changed_yaml", "commented_yaml"]


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


def changed_yaml(text: str, changes: Mapping[str, Any], head: Sequence[str]) -> str:
    r"""Return a YAML document with other values, all else as it stands: comments, order and style.

    Parameters
    ----------
    text
        The document.
    changes
        By key path; tables and lists are written on one line, those on the way to a new key are made, and None takes a key away.
    head
        Lines of the comment at the top, in place of those that are there.

    Examples
    --------
    >>> print(changed_yaml("a: 1 # one\nb: {c: 2}\n", {"b": {"c": 3, "d": "x"}}, ["Changed"]), end="")
    # Changed
    a: 1 # one
    b: {c: 3, d: x}
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    yaml = YAML()
    yaml.width = 1_000_000
    data = yaml.load(text)
    for path, value in changes.items():
        *tables, key = split_key(path)
        table = reduce(lambda table, step: table.setdefault(step, CommentedMap()), tables, data)
        if value is None:
            table.pop(key, None)
        elif isinstance(value, dict | list):
            table[key] = CommentedMap(value) if isinstance(value, dict) else CommentedSeq(value)
            table[key].fa.set_flow_style()
        else:
            table[key] = value
    data.yaml_set_start_comment("\n".join(head))
    stream = StringIO()
    yaml.dump(data, stream)
    return stream.getvalue()


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
