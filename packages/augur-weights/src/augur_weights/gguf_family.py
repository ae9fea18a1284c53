"""What is one family's own in a GGUF file: its names, its keys and its tokenizer.

Another family is another record in ``FAMILIES``; everything else reads a file by the record of its
architecture.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from augur_weights.gguf_file import GGUFFile


@dataclass(frozen=True)
class GGUFFamily:
    """How a family's models are written as GGUF, and published as checkpoints.

    Attributes:
        architecture: ``general.architecture``; the model's own keys begin with it.
        config: what ``config.json`` says of each of its models.
        neutral_keys: keys of its own, without the architecture, that are not read but change
            nothing while they have this value; see ``gguf_keys`` for those that are read.
        outer_tensors: checkpoint name, GGUF name and sizes, by name, of the embedding, the final
            norm and the head, in a checkpoint's order.
        layer_tensors: as ``outer_tensors``, of each layer; names are those behind the layer's.
        pre_tokenizer: ``tokenizer.ggml.pre``.
        split_pattern: where text is cut before the byte pairs are merged.
        tokenizer_class: transformers' class.
        end_of_text: the token that ends every text, whatever ends a turn.
        not_special: tokens that are published as added tokens but not special, so that decoding
            keeps them. The converter to GGUF takes every token that looks like <|...|> for a
            control token.
    """

    architecture: str
    config: Mapping[str, object]
    neutral_keys: Mapping[str, object]
    outer_tensors: tuple[tuple[str, str, tuple[str, ...]], ...]
    layer_tensors: tuple[tuple[str, str, tuple[str, ...]], ...]
    pre_tokenizer: str
    split_pattern: str
    tokenizer_class: str
    end_of_text: str
    not_special: frozenset[str]


EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"

_QWEN2_NOT_SPECIAL = (
    "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>",
    "<|file_sep|>",
)  # fmt: skip

QWEN2 = GGUFFamily(
    architecture="qwen2",
    # attention_dropout and initializer_range matter to training only; they are Qwen's.
    config={
        "architectures": ["Qwen2ForCausalLM"],
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "model_type": "qwen2",
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
    },
    neutral_keys={"rope.scaling.type": "none"},
    outer_tensors=(
        (EMBEDDING, "token_embd.weight", ("vocab", "hidden")),
        ("model.norm.weight", "output_norm.weight", ("hidden",)),
        (HEAD, "output.weight", ("vocab", "hidden")),
    ),
    # Query and key rows keep their order: llama.cpp rotates Qwen2 as Qwen does, in two halves.
    layer_tensors=(
        ("input_layernorm.weight", "attn_norm.weight", ("hidden",)),
        ("self_attn.q_proj.weight", "attn_q.weight", ("queries", "hidden")),
        ("self_attn.q_proj.bias", "attn_q.bias", ("queries",)),
        ("self_attn.k_proj.weight", "attn_k.weight", ("keys", "hidden")),
        ("self_attn.k_proj.bias", "attn_k.bias", ("keys",)),
        ("self_attn.v_proj.weight", "attn_v.weight", ("keys", "hidden")),
        ("self_attn.v_proj.bias", "attn_v.bias", ("keys",)),
        ("self_attn.o_proj.weight", "attn_output.weight", ("hidden", "queries")),
        ("post_attention_layernorm.weight", "ffn_norm.weight", ("hidden",)),
        ("mlp.gate_proj.weight", "ffn_gate.weight", ("inner", "hidden")),
        ("mlp.up_proj.weight", "ffn_up.weight", ("inner", "hidden")),
        ("mlp.down_proj.weight", "ffn_down.weight", ("hidden", "inner")),
    ),
    pre_tokenizer="qwen2",
    # Contractions, words, single digits, punctuation, line ends, spaces.
    split_pattern=(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    tokenizer_class="Qwen2Tokenizer",
    end_of_text="<|endoftext|>",
    not_special=frozenset(_QWEN2_NOT_SPECIAL),
)

FAMILIES = (QWEN2,)


def family_of(gguf: GGUFFile) -> GGUFFamily:
    """The family that a file's model is of; a GGUFError if it is none that is supported."""
    architecture = gguf.require("general.architecture", str)
    for family in FAMILIES:
        if family.architecture == architecture:
            return family
    supported = ", ".join(family.architecture for family in FAMILIES)
    raise gguf.error(f"architecture '{architecture}' is not supported; supported: {supported}")
