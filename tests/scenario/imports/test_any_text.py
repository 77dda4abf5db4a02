"""Whatever a file holds: a scenario, or a report of what is wrong with it; and what is written can be read."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from importing import Importer

import trnsim
from trnsim.errors import InputError
from trnsim.scenario.imports import Options, format_names, import_scenario, megatron_keys, nxdt, torchtitan

TABLES = {"nxdt": nxdt.VOCABULARY, "megatron-args": megatron_keys.VOCABULARY, "torchtitan": torchtitan.VOCABULARY}
SCALARS = st.one_of(
    st.integers(-2, 300),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.just("8"),
    st.just(10**40),
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3))
OPTIONS = st.builds(
    Options,
    model=st.sampled_from([None, "llama3-8b", "nothing", "\0"]),
    vocabulary=st.sampled_from([None, 50257]),
    server=st.sampled_from([None, "trn1.32xlarge", "trn2-ultraserver", "trn2.3xlarge", ""]),
    servers=st.sampled_from([None, 1, 4]),
    fabric=st.sampled_from([None, "ultracluster"]),
)


def outcome(format_name: str, data: bytes, options: Options) -> str | None:
    """Return the scenario, or ``None`` with a report of problems; anything else escapes."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "theirs"
        path.write_bytes(data)
        refused, text = None, ""
        try:
            text = import_scenario(format_name, path, options).text
        except InputError as error:
            refused = error
        if refused is not None:
            assert refused.exit_code == 2
            assert str(refused)
            return None
        ours = Path(folder) / "ours.yaml"
        ours.write_text(text, encoding="utf-8")
        with contextlib.suppress(InputError):  # the rules of scenarios may refuse it, in a report as well
            trnsim.load(ours)
        assert "schema: 1" in text
        return text


@pytest.mark.parametrize("format_name", format_names())
@given(data=st.one_of(st.binary(max_size=60), st.text(max_size=80).map(str.encode)), options=OPTIONS)
@settings(max_examples=60, deadline=None)
def test_any_bytes(format_name: str, data: bytes, options: Options) -> None:
    outcome(format_name, data, options)


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        *tables, last = key.split(".")
        table = tree
        for step in tables:
            inner = table.setdefault(step, {})
            table = inner if isinstance(inner, dict) else {}
        table[last] = value
    return tree


def toml_text(flat: dict[str, Any]) -> str:
    def shown(value: Any) -> str:
        if isinstance(value, list):
            return f"[{', '.join(shown(item) for item in value if item is not None)}]"
        return json.dumps(value)

    return "\n".join(f"{key} = {shown(value)}" for key, value in flat.items() if value is not None)


def command_text(flat: dict[str, Any]) -> str:
    return " ".join(f"--{key.replace('_', '-')} {value}" for key, value in flat.items())


WRITERS = {"nxdt": lambda flat: json.dumps(nested(flat)), "torchtitan": toml_text, "megatron-args": command_text}


@pytest.mark.parametrize("format_name", format_names())
@given(data=st.data())
@settings(max_examples=120, deadline=None)
def test_known_keys_with_any_values(format_name: str, data: st.DataObject) -> None:
    keys = data.draw(st.dictionaries(st.sampled_from(sorted(TABLES[format_name].keys)), VALUES, max_size=12))
    outcome(format_name, WRITERS[format_name](keys).encode("utf-8", "backslashreplace"), data.draw(OPTIONS))


# a whole experiment and whole commands, so that most draws end in a scenario
SIZES: dict[str, dict[str, list[Any]]] = {
    "nxdt": {
        "trainer.devices": [8, 32],
        "trainer.num_nodes": [1, 2, 4],
        "distributed_strategy.tensor_model_parallel_size": [1, 8],
        "distributed_strategy.pipeline_model_parallel_size": [1, 4],
        "distributed_strategy.zero1": [True, False],
        "distributed_strategy.sequence_parallel": [True, False],
        "data.micro_batch_size": [1, 2],
        "data.global_batch_size": [256],
        "model.encoder_seq_length": [4096],
        "model.activations_checkpoint_granularity": ["full", None],
        "precision.type": ["mixed_precision", "bf16SR"],
    },
    "megatron-args": {
        "world_size": [64, 128],
        "tensor_model_parallel_size": [1, 8],
        "pipeline_model_parallel_size": [1, 4],
        "seq_length": [4096],
        "micro_batch_size": [1, 2],
        "global_batch_size": [256],
        "bf16": [True],
    },
    "torchtitan": {
        "training.seq_len": [4096],
        "training.local_batch_size": [1, 2],
        "parallelism.tensor_parallel_degree": [1, 8],
        "parallelism.pipeline_parallel_degree": [1, 4],
        "parallelism.data_parallel_replicate_degree": [8],
        "parallelism.data_parallel_shard_degree": [1],
    },
}


@pytest.mark.parametrize("format_name", format_names())
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_whole_files_become_what_they_say(format_name: str, data: st.DataObject) -> None:
    # law: degrees, sequence and micro-batch of a loaded import are those of the file, and ranks = tp x pp x dp
    flat = {key: data.draw(st.sampled_from(values)) for key, values in SIZES[format_name].items()}
    with TemporaryDirectory() as folder:
        importer = Importer(Path(folder))
        options = {"model": "llama3-8b", "server": "trn2-ultraserver" if format_name != "nxdt" else "trn1.32xlarge"}
        if format_name == "nxdt" and not _hosts_fit(flat):
            with pytest.raises(InputError, match=r"logical cores|whole number"):
                importer(format_name, WRITERS[format_name](flat), **options)
            return
        path = importer.written(format_name, WRITERS[format_name](flat), **options)
        scenario = trnsim.load(path)
    tables = TABLES[format_name].keys
    resolved = {"layout": scenario.layout, "training": scenario.training}
    for key, value in flat.items():
        table, _, field = tables[key].to.partition(".")
        if table in resolved and not (field == "sequence_parallel" and scenario.layout.tp == 1):
            if field == "micro_batch" and format_name == "torchtitan" and scenario.layout.pp > 1:
                continue
            assert getattr(resolved[table], field) == value
    assert scenario.ranks == scenario.layout.tp * scenario.layout.pp * scenario.layout.dp


def _hosts_fit(flat: dict[str, Any]) -> bool:
    """Say whether several hosts use all their 32 cores, and one replica divides the ranks."""
    devices, hosts = int(flat["trainer.devices"]), int(flat["trainer.num_nodes"])
    strategy = "distributed_strategy."
    replica: int = flat[f"{strategy}tensor_model_parallel_size"] * flat[f"{strategy}pipeline_model_parallel_size"]
    return (hosts == 1 or devices == 32) and not devices * hosts % replica
