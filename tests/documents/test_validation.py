from typing import Annotated, Literal

import pytest
from pydantic import Field

from trnsim.documents import (
    Bandwidth,
    Bytes,
    Choice,
    Count,
    Document,
    Duration,
    FlopRate,
    Fraction,
    Table,
    meant_key,
    problems_of,
    validate,
)
from trnsim.errors import InputError

Dtype = Annotated[str, Choice("bf16", "fp8", later=("fp4",))]


class Layout(Table):
    tp: Count = Field(default=1, description="tensor-parallel degree")
    pp: Count = 1
    dtype: Dtype = "bf16"
    flag: bool = True
    stages: list[Count] | None = None


class Chip(Table):
    bandwidth: Bandwidth = Field(description="bytes per second")
    memory: Bytes = 0
    latency: Duration = 0.0
    peak: FlopRate = 1e12
    share: Fraction = 0.5


class Ring(Table):
    kind: Literal["ring"]
    size: Count


class Star(Table):
    kind: Literal["star"]
    centre: str = Field(pattern="^[a-z]+$")


class File(Table):
    name: str
    shape: Annotated[Ring | Star, Field(discriminator="kind")] | None = None
    sizes: list[Count] = Field(default=[1], min_length=1)
    layout: Layout = Layout()
    chips: dict[str, Chip] = Field(default_factory=dict)


def problems(data: dict[str, object], synonyms: dict[str, str] | None = None) -> dict[str, str]:
    document = Document("a.yaml", None, {"name": "x", **data})
    return {problem.key: problem.message for problem in problems_of(document, File, synonyms)}


def test_a_valid_document_comes_back_typed_in_si() -> None:
    # text with a unit becomes the SI number; 4e1 is a whole number; names are read without case and dashes
    data = {
        "name": "x",
        "layout": {"tp": 4e1, "dtype": "BF-16", "stages": [1, 2.0]},
        "chips": {"a": {"bandwidth": "200 Gbit/s", "memory": "1 GiB", "latency": "15 us", "peak": "667 TFLOP/s"}},
    }
    file = validate(Document("a.yaml", None, data), File)
    assert (file.layout.tp, file.layout.dtype, file.layout.stages) == (40, "bf16", [1, 2])
    chip = file.chips["a"]
    assert (chip.bandwidth, chip.memory, chip.latency, chip.peak) == (25e9, 2**30, 15e-6, 667e12)


def test_every_problem_is_in_one_report() -> None:
    # k mistakes, k problems, one error
    document = Document("a.yaml", None, {"layout": {"tp": 0, "pipe": 4, "flag": "no"}, "chips": {"a": {}}})
    with pytest.raises(InputError) as error:
        validate(document, File)
    assert {problem.key for problem in error.value.problems} == {
        "name",
        "layout.tp",
        "layout.pipe",
        "layout.flag",
        "chips.a.bandwidth",
    }


@pytest.mark.parametrize(
    ("layout", "key", "message"),
    [
        ({"pipeline": 2}, "layout.pipeline", "unknown key; did you mean layout.pp?"),
        ({"Pipeline": 2}, "layout.Pipeline", "unknown key; did you mean layout.pp?"),
        (
            {"stage": 2},
            "layout.stage",
            "unknown key; did you mean layout.stages? the keys of layout are tp, pp, dtype, flag, stages",
        ),
        ({"zzz": 2}, "layout.zzz", "unknown key; the keys of layout are tp, pp, dtype, flag, stages"),
        ({"name": 2}, "layout.name", "unknown key; did you mean name?"),
        ({"tp": 0}, "layout.tp", "a number of at least 1 is due"),
        ({"tp": 1.5}, "layout.tp", "a whole number is due"),
        ({"tp": "8"}, "layout.tp", "a whole number is due"),
        ({"tp": True}, "layout.tp", "a whole number is due"),
        ({"tp": float("nan")}, "layout.tp", "a whole number is due"),
        ({"flag": "no"}, "layout.flag", "true or false is due"),
        ({"dtype": "bf17"}, "layout.dtype", "unknown; did you mean bf16? choose from bf16, fp8"),
        ({"dtype": 16}, "layout.dtype", "unknown; choose from bf16, fp8"),
        ({"dtype": "FP4"}, "layout.dtype", "not modelled yet; choose from bf16, fp8"),
        ({"stages": 4}, "layout.stages", "a list is due"),
        ({"stages": [1, "x"]}, "layout.stages[1]", "a whole number is due"),
    ],
)
def test_messages(layout: dict[str, object], key: str, message: str) -> None:
    # one problem, at the key itself, with what is due
    assert problems({"layout": layout}, {"pipeline": "pp"}) == {key: message}


def test_a_key_at_the_top_that_belongs_into_a_table() -> None:
    # the same key of another table is the near match
    assert problems({"tp": 8, "tensor": 8}, {"tensor": "tp"}) == {
        "tp": "unknown key; did you mean layout.tp?",
        "tensor": "unknown key; did you mean layout.tp?",
    }


def test_physical_values_need_their_unit() -> None:
    # rule 20; the message shows the right spelling
    found = problems({"chips": {"a": {"bandwidth": 200, "share": 1.5}}})
    assert '"200 Gbit/s"' in found["chips.a.bandwidth"]
    assert found["chips.a.share"] == "a number of at most 1.0 is due"


def test_a_missing_key_says_what_it_is() -> None:
    # its description, and the line of the table that lacks it
    document = Document("a.yaml", None, {"name": "x", "chips": {"a": {}}}, {"name": 1, "chips": 2, "chips.a": 3})
    (problem,) = problems_of(document, File)
    assert (problem.key, problem.line, problem.message) == ("chips.a.bandwidth", 3, "missing; bytes per second")


def test_a_value_in_place_of_a_table() -> None:
    # a table of keys is due
    assert problems({"layout": 8}) == {"layout": "a table of keys is due"}


@pytest.mark.parametrize(
    ("data", "key", "message"),
    [
        ({"shape": {"kind": "mesh"}}, "shape", "'kind' is one of 'ring', 'star'"),
        ({"shape": {}}, "shape", "missing key 'kind'"),
        ({"shape": {"kind": "star", "centre": "a", "size": 4}}, "shape.size", "a shape of this kind has no such key"),
        ({"shape": {"kind": "star", "centre": "A"}}, "shape.centre", "text of the form ^[a-z]+$ is due"),
        ({"sizes": []}, "sizes", "an empty list; at least 1 is due in it"),
        ({"sizes": [1e13]}, "sizes[0]", "a number of at most 1,000,000,000,000 is due"),
        ({"layout.tp": 8}, '"layout.tp"', "unknown key; did you mean layout? the keys here are"),
        ({"": 8}, '""', "unknown key; the keys here are"),
    ],
)
def test_messages_about_kinds_lists_and_odd_keys(data: dict[str, object], key: str, message: str) -> None:
    # none in the words of a library, each at a path that says which key is meant
    ((found, text),) = problems(data).items()
    assert found == key
    assert text.startswith(message)


def test_a_value_is_shown_as_it_was_written() -> None:
    # not as it was converted on the way: 1e13 is not 10000000000000
    (problem,) = problems_of(Document("a.yaml", None, {"name": "x", "layout": {"tp": 1e30, "flag": True}}), File)
    assert (problem.subject, problem.message) == ("layout.tp = 1e+30", "a number of at most 1,000,000,000,000 is due")
    (problem,) = problems_of(Document("a.yaml", None, {"name": None}), File)
    assert problem.subject == "name = null"


def test_schema_lists_the_choices_and_examples() -> None:
    # editors read enum, examples, minimum and description
    schema = File.model_json_schema()["$defs"]
    assert schema["Layout"]["properties"]["dtype"]["enum"] == ["bf16", "fp8"]
    assert schema["Layout"]["properties"]["tp"]["minimum"] == 1
    assert schema["Chip"]["properties"]["bandwidth"]["examples"] == ["1.28 TB/s", "200 Gbit/s"]
    assert schema["Chip"]["additionalProperties"] is False


@pytest.mark.parametrize(
    ("table", "key", "meant"),
    [
        ("layout", "pipeline", "layout.pp"),
        ("layout", "stage", "layout.stages"),
        ("", "dtype", "layout.dtype"),
        ("layout", "name", "name"),
        ("layout", "zzz", None),
    ],
)
def test_meant_key(table: str, key: str, meant: str | None) -> None:
    # a synonym or the same word anywhere, or else a near word of the same table
    assert meant_key(File, table, key, {"pipeline": "pp"}) == meant
