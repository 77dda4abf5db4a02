"""Recipes of AWS, in files of these tests with the recipes' values, become the scenarios that were written by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import trnsim
from trnsim.scenario import sha256

if TYPE_CHECKING:
    from importing import Importer

# values of aws-neuron/neuronx-distributed-training, examples/conf/hf_llama3.1_405B_trn1_config.yaml, 9169aa0
LLAMA_405B = """\
model_source: hf
trainer: {devices: 32, num_nodes: 64, max_steps: 100}
exp_manager: {name: run}
distributed_strategy:
  tensor_model_parallel_size: 32
  pipeline_model_parallel_size: 32
  virtual_pipeline_model_parallel_size: 1
  zero1: True
  sequence_parallel: True
  kv_replicator: 4
data: {micro_batch_size: 1, global_batch_size: 256}
model:
  model_config: /home/somebody/config.json
  encoder_seq_length: 8192
  num_layers: 126
  hidden_size: 16384
  activations_checkpoint_granularity: full
  activations_checkpoint_recompute: null
  optim: {sched: {max_steps: "${trainer.max_steps}"}}
precision: {type: mixed_precision, fp32_grad_acc: False}
"""

# values of examples/conf/hf_llama3_70B_trn2_config.yaml there
LLAMA_70B = """\
trainer: {devices: 64, lnc: 2, num_nodes: 8}
distributed_strategy:
  {tensor_model_parallel_size: 32, pipeline_model_parallel_size: 4, zero1: True, sequence_parallel: True}
data: {micro_batch_size: 1, global_batch_size: 1024}
model:
  encoder_seq_length: 8192
  num_layers: 80
  hidden_size: 8192
  pipeline_cuts: ["model.layers.18", "model.layers.39", "model.layers.60"]
  activations_checkpoint_granularity: selective
  activations_checkpoint_recompute: [LlamaRMSNorm, ActivationMultiplyMLP]
precision: {type: mixed_precision}
"""

# the layout of AWS's benchmark that scenarios/llama2-7b-trn1.yaml names
LLAMA_7B = """\
trainer: {devices: 32, num_nodes: 16}
distributed_strategy:
  {tensor_model_parallel_size: 8, pipeline_model_parallel_size: 1, zero1: True, sequence_parallel: True}
data: {micro_batch_size: 1, global_batch_size: 1024}
model: {encoder_seq_length: 4096, activations_checkpoint_granularity: full}
precision: {type: mixed_precision}
"""


@pytest.mark.parametrize(
    ("text", "server", "model", "by_hand"),
    [
        (LLAMA_405B, "trn1.32xlarge", "llama3.1-405b", "llama3.1-405b-trn1"),
        (LLAMA_70B, "trn2.48xlarge", "llama3-70b", "llama3-70b-trn2"),
        (LLAMA_7B, "trn1.32xlarge", "llama2-7b", "llama2-7b-trn1"),
    ],
)
def test_import_equals_the_scenario_by_hand(
    imported: Importer, text: str, server: str, model: str, by_hand: str
) -> None:
    # one hash is over every resolved value, those of catalog and model included; only what a run is called differs
    wanted = trnsim.load(by_hand)
    found = trnsim.load(imported.written("nxdt", text, server=server, model=model), [f"name={wanted.name}"])
    assert sha256(found) == sha256(wanted)
    assert found.layout == wanted.layout
    assert found.training == wanted.training


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tensor_model_parallel_size: 32", "tensor_model_parallel_size: 16"),
        ("zero1: True", "zero1: False"),
        ("global_batch_size: 256", "global_batch_size: 128"),
        ("granularity: full", "granularity: null"),
        ("encoder_seq_length: 8192", "encoder_seq_length: 4096"),
        ("type: mixed_precision,", "type: bf16SR,"),
        ("sequence_parallel: True", "sequence_parallel: False"),
    ],
)
def test_another_value_is_another_scenario(imported: Importer, before: str, after: str) -> None:
    assert before in LLAMA_405B
    paths = (
        imported.written("nxdt", text, server="trn1.32xlarge", model="llama3.1-405b")
        for text in (LLAMA_405B, LLAMA_405B.replace(before, after))
    )
    one, other = (sha256(trnsim.load(path)) for path in paths)
    assert one != other


def test_two_instances_of_a_recipe_fit_in_an_ultraserver(imported: Importer) -> None:
    # 8 instances x 64 = 512 logical cores; an UltraServer of 64 chips has 256 at LNC 2, so two of them
    document = imported.document("nxdt", LLAMA_70B, server="trn2-ultraserver", model="llama3-70b")
    assert document.data["cluster"] == {"lnc": 2, "server": "trn2-ultraserver", "servers": 2, "fabric": "ultracluster"}


def test_megatron_arguments_of_gpt3_have_the_shape_of_the_catalog(imported: Importer) -> None:
    # Megatron's defaults are those of GPT-3: biases, LayerNorm, learned positions, tied tables, dropout 0.1
    text = "--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --max-position-embeddings 2048 \\\n"
    text += "--vocab-size 50257 --seq-length 2048 --micro-batch-size 1 --global-batch-size 1536 --bf16 \\\n"
    text += "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 --sequence-parallel"
    path = imported.written("megatron-args", text, server="trn2-ultraserver", servers=16)
    by_name = imported.folder / "by-name.yaml"
    by_name.write_text(
        path.read_text().partition("model:")[0] + "model: gpt3-175b\n" + _from_training(path.read_text())
    )
    found, wanted = trnsim.load(path), trnsim.load(by_name)
    assert _shape(found.model) == _shape(wanted.model)
    assert found.layout == wanted.layout
    assert found.layout.vocabulary == 51_200  # padded to a multiple of 128 x 8


@pytest.mark.parametrize(("flavor", "model"), [("8B", "llama3-8b"), ("70B", "llama3-70b"), ("405B", "llama3.1-405b")])
def test_flavors_of_torchtitan_are_in_the_catalog(imported: Importer, flavor: str, model: str) -> None:
    text = f'[model]\nflavor = "{flavor}"\n[training]\nseq_len = 8192\nlocal_batch_size = 1\n[parallelism]\n'
    text += "data_parallel_shard_degree = 1\ndata_parallel_replicate_degree = 8\ntensor_parallel_degree = 8\n"
    scenario = trnsim.load(imported.written("torchtitan", text, server="trn2-ultraserver"))
    assert scenario.model.parameters == trnsim.load("trn2-cluster", [f"model={model}"]).model.parameters


def _from_training(text: str) -> str:
    return text[text.index("training:") :]


def _shape(model: object) -> dict[str, object]:
    words = {"name", "source", "notes"}
    return {name: getattr(model, name) for name in model.__struct_fields__ if name not in words}  # type: ignore[attr-defined]
