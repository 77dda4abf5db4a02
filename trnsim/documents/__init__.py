"""Files that people write: read with their lines, checked whole, found by name.

YAML 1.2 and JSON become plain values that remember where they stood (:class:`Document`); a pydantic model says what is
due, and everything that is wrong comes in one report (:func:`validate`); a name finds a file that comes with trnsim
(:func:`locate`), and a mistyped one finds its neighbours (:func:`nearest`). :func:`read_toml` reads what other tools
write, and :func:`commented_yaml` writes a file of ours.
"""

from trnsim.documents.document import Document, parse_document, read_document, read_text, read_toml, with_overrides
from trnsim.documents.finding import data_folder, existing, locate, names
from trnsim.documents.names import canonical, nearest, refuse_unknown
from trnsim.documents.quantities import WHOLE, Bandwidth, Bytes, Choice, Count, Duration, FlopRate, Fraction, Table
from trnsim.documents.text import join_key, shorten, split_key
from trnsim.documents.validation import keys_of, meant_key, problems_of, validate
from trnsim.documents.writing import changed_yaml, commented_yaml

__all__ = [
    "WHOLE",
    "Bandwidth",
    "Bytes",
    "Choice",
    "Count",
    "Document",
    "Duration",
    "FlopRate",
    "Fraction",
    "Table",
    "canonical",
    "changed_yaml",
    "commented_yaml",
    "data_folder",
    "existing",
    "join_key",
    "keys_of",
    "locate",
    "meant_key",
    "names",
    "nearest",
    "parse_document",
    "problems_of",
    "read_document",
    "read_text",
    "read_toml",
    "refuse_unknown",
    "shorten",
    "split_key",
    "validate",
    "with_overrides",
]
