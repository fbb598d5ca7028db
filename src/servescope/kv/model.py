"""What one model keeps of a sequence: groups of layers that cache alike, as `models.json` states them."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["heads", "latent", "index", "state"]
Attention = Literal["mha", "gqa", "mla", "sliding", "hybrid"]


class LayerGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Layers that keep the same thing; numbers are per layer.

    kind               heads: keys and values of each KV head · latent: the compressed vector of multi-head
                       latent attention · index: the keys by which sparse attention picks tokens · state: a
                       fixed state of the sequence (linear attention, Mamba)
    layers             how many such layers
    kv_heads, head_dim KV heads and elements of a key (heads)
    value_dim          elements of a value, None = head_dim (heads)
    latent_dim         elements of the latent, `kv_lora_rank` (latent)
    rope_dim           elements of its rotary key, `qk_rope_head_dim` (latent)
    index_dim          elements of an index key (index)
    window_tokens      only the last so many tokens are kept, None = all
    tokens_per_entry   tokens that share one entry; only whole entries are kept
    dtype              precision that does not follow the cache's, None = it does
    state_heads        heads over which ranks of tensor parallelism split the state (state)
    recurrent_*        elements and precision of the recurrent state (state)
    conv_*             elements and precision of the inputs that a convolution still needs (state)
    """

    kind: Kind
    layers: int
    kv_heads: int = 0
    head_dim: int = 0
    value_dim: int | None = None
    latent_dim: int = 0
    rope_dim: int = 0
    index_dim: int = 0
    window_tokens: int | None = None
    tokens_per_entry: int = 1
    dtype: str | None = None
    state_heads: int = 0
    recurrent_elements: int = 0
    recurrent_dtype: str = "fp32"
    conv_elements: int = 0
    conv_dtype: str = "bf16"

    @property
    def heads(self) -> int:
        """Heads that ranks can split; 0 for what every rank holds a copy of."""
        return self.state_heads if self.kind == "state" else self.kv_heads

    @property
    def entry_elements(self) -> int:
        """Elements of one entry of one layer on one rank, all heads; 0 for a state."""
        if self.kind == "heads":
            value_dim = self.head_dim if self.value_dim is None else self.value_dim
            return self.kv_heads * (self.head_dim + value_dim)
        return self.latent_dim + self.rope_dim + self.index_dim


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the catalogue.

    name          how the command line calls it
    aliases       names under which it is served, Hugging Face repositories first
    family        maker's series
    attention     mha, gqa, mla; sliding where some layers keep a window; hybrid where some keep a state
    layers        all layers, those that keep nothing included
    max_position  longest sequence its configuration allows, tokens; None where the source does not say
    dtype         default precision of the cache
    groups        what it keeps
    source        key into the catalogue's sources
    config        Hugging Face repository whose configuration the source cites
    note          what a reader must know, "" for nothing
    verified      False where a number was not seen in the model's configuration or a copy of it
    """

    name: str
    aliases: tuple[str, ...]
    family: str
    attention: Attention
    layers: int
    dtype: str
    groups: tuple[LayerGroup, ...]
    source: str
    config: str
    max_position: int | None = None
    note: str = ""
    verified: bool = True


class Catalogue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`models.json`: sources by key, and models."""

    sources: dict[str, str]
    models: tuple[Model, ...]
