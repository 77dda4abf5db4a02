"""A model in trnsim's own keys: the catalog's files and the inline models of scenarios."""

from __future__ import annotations

from typing import Annotated, Literal, cast

from pydantic import Field

from trnsim.documents import Choice, Count, Table
from trnsim.workload.model import LatentAttention, Mixture, ShapeError, Transformer

__all__ = ["LatentAttentionTable", "MixtureTable", "ModelTable"]

Size = Annotated[int, Field(ge=0)]


class MixtureTable(Table):
    """The keys of a mixture of experts; see `trnsim.workload.Mixture`."""

    experts: Count = Field(description="routed experts of a layer")
    experts_per_token: Count = Field(description="routed experts that a token visits")
    expert_ffn_size: Count = Field(description="inner width of a routed expert")
    shared_ffn_size: Size = Field(0, description="summed inner width of the experts that every token visits")
    dense_layers: list[Size] = Field(default_factory=list, description="layers that keep an ordinary MLP, from 0")
    router_bias: bool = Field(False, description="whether the router keeps one correction per expert")


class LatentAttentionTable(Table):
    """The keys of latent attention; see `trnsim.workload.LatentAttention`."""

    query_rank: Count | None = Field(None, description="width of the latent query; left out when there is none")
    key_value_rank: Count = Field(description="width of the latent vector of keys and values")
    nope_head_dim: Count = Field(description="width of a query or key head without rotary positions")
    rope_head_dim: Count = Field(description="width of its rotary part")
    value_head_dim: Count = Field(description="width of a value head")


class ModelTable(Table):
    """The keys of a model; see `trnsim.workload.Transformer`."""

    name: str | None = Field(None, description="as shown to people")
    layers: Count = Field(description="number of transformer layers")
    hidden_size: Count = Field(description="width of the residual stream")
    attention_heads: Count = Field(description="number of query heads")
    kv_heads: Count | None = Field(None, description="key and value heads; by default as many as attention_heads")
    head_dim: Count | None = Field(None, description="width of a head; by default hidden_size / attention_heads")
    ffn_size: Count = Field(description="inner width of the MLP")
    gated_mlp: bool = Field(True, description="three MLP matrices (SwiGLU) instead of two")
    vocabulary: Count = Field(description="entries of the embedding table, unpadded")
    tied_embeddings: bool = Field(False, description="whether the output projection is the embedding table")
    parallel_block: bool = Field(
        False,
        description="attention and MLP of a layer side by side behind one norm (GPT-J, PaLM), not one after the other",
    )
    norm: Annotated[str, Choice("rmsnorm", "layernorm")] = Field("rmsnorm", description="layernorm has a bias")
    qkv_bias: bool = Field(False, description="bias of the query, key and value projections")
    attention_output_bias: bool = Field(False, description="bias of the attention's output projection")
    mlp_bias: bool = Field(False, description="biases of the MLP matrices")
    learned_positions: Size = Field(0, description="rows of a learned position table; 0 without one")
    sliding_window: Size = Field(0, description="tokens that a token attends to at most; 0 for all before it")
    qk_norm: bool = Field(False, description="whether queries and keys are normed")
    dropout: bool = Field(False, description="whether attention and MLP outputs pass a dropout in training")
    mixture: MixtureTable | None = Field(None, description="a mixture of experts in place of the MLP")
    mla: LatentAttentionTable | None = Field(None, description="latent attention")
    source: str = Field("", description="where the shape was published")
    read: str = Field("", description="date on which the source was read")
    kind: Literal["official", "third-party", "inferred", "assumed"] | None = Field(None, description="of the source")
    notes: list[str] = Field(default_factory=list, description="what a reader must know")

    def transformer(self, name: str) -> Transformer:
        """Return the model that the keys describe.

        Parameters
        ----------
        name
            The name of a model without a `name`.

        Raises
        ------
        ShapeError
            If two sizes contradict each other; the fields it names are keys of this table.
        """
        return Transformer(
            name=self.name or name,
            layers=self.layers,
            hidden_size=self.hidden_size,
            attention_heads=self.attention_heads,
            kv_heads=self.kv_heads or self.attention_heads,
            head_dim=self.head_dim or self._head_dim(),
            ffn_size=self.ffn_size,
            gated_mlp=self.gated_mlp,
            vocabulary=self.vocabulary,
            tied_embeddings=self.tied_embeddings,
            parallel_block=self.parallel_block,
            norm=cast("Literal['rmsnorm', 'layernorm']", self.norm),
            qkv_bias=self.qkv_bias,
            attention_output_bias=self.attention_output_bias,
            mlp_bias=self.mlp_bias,
            learned_positions=self.learned_positions,
            sliding_window=self.sliding_window,
            qk_norm=self.qk_norm,
            dropout=self.dropout,
            mixture=_mixture(self.mixture),
            mla=None if self.mla is None else LatentAttention(**self.mla.model_dump()),
            source=self._source(),
            notes=tuple(self.notes),
        )

    def _source(self) -> str:
        remarks = [self.kind or "", f"read {self.read}" if self.read else ""]
        return self.source + (f" ({', '.join(filter(None, remarks))})" if any(remarks) else "")

    def _head_dim(self) -> int:
        head_dim, rest = divmod(self.hidden_size, self.attention_heads)
        if rest:
            rule = f"{self.hidden_size} / {self.attention_heads} heads is not whole; give head_dim"
            raise ShapeError((("attention_heads", rule),))
        return head_dim


def _mixture(table: MixtureTable | None) -> Mixture | None:
    if table is None:
        return None
    keys = table.model_dump()
    return Mixture(**(keys | {"dense_layers": tuple(keys["dense_layers"])}))
