"""The shape of a decoder-only transformer, and what can be counted from it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LatentAttention", "Mixture", "ShapeError", "Transformer", "flops_per_token"]


class ShapeError(ValueError):
    """A shape contradicts itself.

    Attributes
    ----------
    broken : tuple of (str, str)
        One pair for each broken rule: the field of `Transformer` at fault, and the rule with its arithmetic.
    """

    def __init__(self, broken: tuple[tuple[str, str], ...]) -> None:
        self.broken = broken
        super().__init__("; ".join(f"{field}: {rule}" for field, rule in broken))


class Mixture(Record):
    """A mixture of experts in place of the MLP.

    Parameters
    ----------
    experts
        Routed experts of a layer. >= 1.
    experts_per_token
        Routed experts that one token visits. Between 1 and `experts`.
    expert_ffn_size
        Inner width of one routed expert.
    shared_ffn_size
        Inner width of the experts that every token visits, summed; 0 without any.
    dense_layers
        Indices of the layers that keep an ordinary MLP of the model's `ffn_size`.
    router_bias
        Whether the router keeps one correction per expert beside its matrix (DeepSeek-V3).
    """

    experts: int
    experts_per_token: int
    expert_ffn_size: int
    shared_ffn_size: int = 0
    dense_layers: tuple[int, ...] = ()
    router_bias: bool = False


class LatentAttention(Record):
    """Multi-head latent attention (DeepSeek-V2): keys and values pass through a narrow latent vector.

    Parameters
    ----------
    query_rank
        Width of the latent query; ``None`` when queries are projected directly.
    key_value_rank
        Width of the latent vector that keys and values share.
    nope_head_dim, rope_head_dim
        Width of a query or key head without and with rotary positions; the rotary part of the key is one for all heads.
    value_head_dim
        Width of a value head.

    References
    ----------
    DeepSeek-AI, "DeepSeek-V2", 2024, arXiv:2405.04434, section 2.1.
    """

    query_rank: int | None
    key_value_rank: int
    nope_head_dim: int
    rope_head_dim: int
    value_head_dim: int


class Transformer(Record):
    r"""The shape of a decoder-only transformer.

    Parameters
    ----------
    name
        As shown to people.
    layers, hidden_size, vocabulary
        Sizes. >= 1. The vocabulary is that of the model, before any padding.
    attention_heads, kv_heads
        Query heads, and key and value heads. `attention_heads` is a multiple of `kv_heads`.
    head_dim
        Width of a head; `attention_heads` x `head_dim` need not be `hidden_size`.
    ffn_size
        Inner width of the MLP.
    gated_mlp
        True for three matrices (SwiGLU and its kin), false for two.
    tied_embeddings
        Whether the output projection is the embedding table.
    parallel_block
        Whether attention and MLP of a layer read the same norm and their results are added together (GPT-J, PaLM).
    norm
        ``"layernorm"`` has a bias, ``"rmsnorm"`` has none.
    qkv_bias, attention_output_bias, mlp_bias
        Biases of the query/key/value projections, of the attention's output projection and of all MLP matrices.
    learned_positions
        Rows of a learned position table; 0 where positions are computed.
    sliding_window
        Tokens to which a token attends at most, itself included, in every layer; 0 where it attends to all before it.
    qk_norm
        Whether queries and keys are normed, one weight of `head_dim` each, shared by the heads.
    dropout
        Whether the output of attention and MLP passes a dropout in training, whose mask is then kept.
    mixture, mla
        Mixture of experts and latent attention; ``None`` where there is none.
    source
        Where the shape was published.
    notes
        What a reader must know: values that were derived or inferred, parts that are not counted.

    Raises
    ------
    ShapeError
        If a size is not positive or two sizes contradict each other.

    Examples
    --------
    >>> model = Transformer("tiny", layers=2, hidden_size=64, attention_heads=4, kv_heads=2, head_dim=16, ffn_size=128,
    ...                     gated_mlp=True, vocabulary=1000, tied_embeddings=False)
    >>> model.layer_parameters(0)  # q 4096 + k, v 4096 + output 4096 + MLP 24576 + norms 128
    36992
    >>> model.parameters  # two layers, two tables of 64000, the final norm
    202048
    """

    name: str
    layers: int
    hidden_size: int
    attention_heads: int
    kv_heads: int
    head_dim: int
    ffn_size: int
    gated_mlp: bool
    vocabulary: int
    tied_embeddings: bool
    parallel_block: bool = False
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    qkv_bias: bool = False
    attention_output_bias: bool = False
    mlp_bias: bool = False
    learned_positions: int = 0
    sliding_window: int = 0
    qk_norm: bool = False
    dropout: bool = False
    mixture: Mixture | None = None
    mla: LatentAttention | None = None
    source: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        broken = tuple(_broken_rules(self))
        if broken:
            raise ShapeError(broken)

    @property
    def parameters(self) -> int:
        """Every trainable number, all experts in, a tied table once."""
        tables = self.hidden_size * self.vocabulary * (1 if self.tied_embeddings else 2)
        positions = self.hidden_size * self.learned_positions
        return tables + positions + self.norm_parameters + sum(map(self.layer_parameters, range(self.layers)))

    @property
    def active_parameters(self) -> int:
        """All parameters less the routed experts that a token does not visit; embeddings, router and norms in."""
        return self.parameters - self._idle_parameters

    @property
    def matmul_parameters(self) -> int:
        """Active parameters that a token is multiplied with: matrices and output projection, without embedding look-up.

        Norms, biases and position tables are out, the router is in.
        """
        matrices = sum(self._attention_matrices + self._mlp_matrices(layer) for layer in range(self.layers))
        return matrices - self._idle_parameters + self.hidden_size * self.vocabulary

    @property
    def norm_parameters(self) -> int:
        """Parameters of one norm over the hidden size."""
        return self.hidden_size * (2 if self.norm == "layernorm" else 1)

    @property
    def attention_width(self) -> int:
        """Width of all heads together; with latent attention the mean of its query and value heads."""
        if self.mla is None:
            return self.attention_heads * self.head_dim
        return self.attention_heads * (self.head_dim + self.mla.value_head_dim) // 2

    def scores(self, sequence_length: int) -> int:
        r"""Count the pairs of tokens of a sequence, per head, that attention works on; the masked half counts.

        .. math:: s^2 \quad \text{or, with a window} \; w < s, \quad w (2 s - w)

        which is twice the pairs that a causal mask with such a window leaves, less the diagonal.

        Parameters
        ----------
        sequence_length
            :math:`s`. >= 1.

        Examples
        --------
        >>> from msgspec.structs import replace
        >>> from trnsim.workload import load_model
        >>> model = load_model("llama3-8b")
        >>> [replace(model, sliding_window=w).scores(4096) for w in (0, 1024, 4096)]
        [16777216, 7340032, 16777216]
        """
        window = min(self.sliding_window or sequence_length, sequence_length)
        return window * (2 * sequence_length - window)

    def layer_parameters(self, layer: int) -> int:
        """Count the parameters of one layer.

        Parameters
        ----------
        layer
            Index of the layer, from 0. Layers differ only in a mixture with dense layers.
        """
        return (
            self._attention_matrices
            + self._attention_vectors
            + self._mlp_matrices(layer)
            + self._mlp_vectors(layer)
            + (1 if self.parallel_block else 2) * self.norm_parameters
        )

    def is_mixture_layer(self, layer: int) -> bool:
        """Whether the MLP of a layer is a mixture of experts."""
        return self.mixture is not None and layer not in self.mixture.dense_layers

    @property
    def _attention_matrices(self) -> int:
        if self.mla is None:
            query_and_output = 2 * self.attention_heads * self.head_dim
            return self.hidden_size * (query_and_output + 2 * self.kv_heads * self.head_dim)
        return _latent_matrices(self.mla, self.hidden_size, self.attention_heads)

    @property
    def _attention_vectors(self) -> int:
        if self.mla is not None:
            return (self.mla.query_rank or 0) + self.mla.key_value_rank  # the norms of the two latent vectors
        qkv = (self.attention_heads + 2 * self.kv_heads) * self.head_dim if self.qkv_bias else 0
        output = self.hidden_size if self.attention_output_bias else 0
        return qkv + output + (2 * self.head_dim if self.qk_norm else 0)

    def _mlp_matrices(self, layer: int) -> int:
        matrices = 3 if self.gated_mlp else 2
        if self.mixture is None or not self.is_mixture_layer(layer):
            return matrices * self.hidden_size * self.ffn_size
        width = self.mixture.experts * self.mixture.expert_ffn_size + self.mixture.shared_ffn_size
        return self.hidden_size * (matrices * width + self.mixture.experts)

    def _mlp_vectors(self, layer: int) -> int:
        if self.mixture is not None and self.is_mixture_layer(layer):
            return self.mixture.experts if self.mixture.router_bias else 0
        return (2 if self.gated_mlp else 1) * self.ffn_size + self.hidden_size if self.mlp_bias else 0

    @property
    def _idle_parameters(self) -> int:
        if self.mixture is None:
            return 0
        mixture_layers = sum(map(self.is_mixture_layer, range(self.layers)))
        idle_width = (self.mixture.experts - self.mixture.experts_per_token) * self.mixture.expert_ffn_size
        return mixture_layers * (3 if self.gated_mlp else 2) * self.hidden_size * idle_width


def flops_per_token(model: Transformer, sequence_length: int, *, causal: bool = False) -> int:
    r"""FLOPs of one token, forward and backward, by the rule that MFU uses.

    .. math:: 6 N + 12 L a d s

    with :math:`N` the active matmul parameters, :math:`L` layers, :math:`a` heads of width :math:`d` and :math:`s` the
    sequence length. Recomputed work does not count.

    Parameters
    ----------
    model
        The model; its vocabulary is taken unpadded.
    sequence_length
        Tokens of a sequence. >= 1.
    causal
        Halve the attention term: a token attends to the tokens before it only.

    References
    ----------
    Chowdhery et al., "PaLM", 2022, arXiv:2204.02311, appendix B.

    Examples
    --------
    >>> from trnsim.workload import load_model
    >>> model = load_model("llama3.1-405b")
    >>> f"{flops_per_token(model, 8192):.4g}, causal {flops_per_token(model, 8192, causal=True):.4g}"
    '2.625e+12, causal 2.524e+12'
    """
    attention = 12 * model.layers * model.attention_width * sequence_length
    return 6 * model.matmul_parameters + (attention // 2 if causal else attention)


def _latent_matrices(mla: LatentAttention, hidden_size: int, heads: int) -> int:
    query_width = heads * (mla.nope_head_dim + mla.rope_head_dim)
    query = hidden_size * query_width if mla.query_rank is None else mla.query_rank * (hidden_size + query_width)
    down = hidden_size * (mla.key_value_rank + mla.rope_head_dim)
    up = mla.key_value_rank * heads * (mla.nope_head_dim + mla.value_head_dim)
    return query + down + up + heads * mla.value_head_dim * hidden_size


def _broken_rules(model: Transformer) -> Iterator[tuple[str, str]]:
    sizes = ("layers", "hidden_size", "attention_heads", "kv_heads", "head_dim", "ffn_size", "vocabulary")
    small = [size for size in sizes if getattr(model, size) < 1]
    for size in small:
        yield size, f"{getattr(model, size)} is not a size; it is at least 1"
    if model.sliding_window < 0:
        yield "sliding_window", f"{model.sliding_window} tokens are less than none; 0 says that there is no window"
    if model.learned_positions < 0:
        yield "learned_positions", f"{model.learned_positions} rows are less than none; 0 says that there is no table"
    if not small and model.mla is None and model.attention_heads % model.kv_heads:
        heads, kv_heads = model.attention_heads, model.kv_heads
        rest = f"{heads} mod {kv_heads} = {heads % kv_heads}"
        yield "kv_heads", f"{heads} query heads cannot share {kv_heads} key and value heads evenly: {rest}"
    if model.mixture is not None:
        yield from _broken_mixture_rules(model.mixture, model.layers)


def _broken_mixture_rules(mixture: Mixture, layers: int) -> Iterator[tuple[str, str]]:
    for size in ("experts", "experts_per_token", "expert_ffn_size"):
        if getattr(mixture, size) < 1:
            yield f"mixture.{size}", f"{getattr(mixture, size)} is not a size; it is at least 1"
    if mixture.experts_per_token > mixture.experts:
        yield (
            "mixture.experts_per_token",
            f"a token cannot visit {mixture.experts_per_token} of {mixture.experts} experts",
        )
    if any(not 0 <= layer < layers for layer in mixture.dense_layers):
        yield "mixture.dense_layers", f"layers are numbered 0 to {layers - 1}"
