"""Which metadata of a GGUF file is understood; what is not, and would matter, is refused by name.

Keys are those of ggml's ``docs/gguf.md`` and of the ``gguf`` library. Those of other namespaces say
where a file comes from and how it was made.
"""

from augur_weights.gguf_family import GGUFFamily
from augur_weights.gguf_file import GGUFFile

# What is read of the model's own. Another may change what it computes: a sliding window, pooling, a
# multimodal rotation.
_MODEL_READ = {
    "attention.head_count", "attention.head_count_kv", "attention.key_length",
    "attention.value_length", "attention.layer_norm_rms_epsilon", "block_count", "context_length",
    "embedding_length", "feed_forward_length", "rope.dimension_count", "rope.freq_base",
    "vocab_size",
}  # fmt: skip

# What is read of the tokenizer's; named templates stand behind "chat_template.".
_TOKENIZER_READ = {
    "chat_template", "ggml.model", "ggml.pre", "ggml.tokens", "ggml.token_type", "ggml.merges",
    "ggml.bos_token_id", "ggml.eos_token_id", "ggml.eot_token_id", "ggml.eom_token_id",
    "ggml.padding_token_id",
}  # fmt: skip

# They name tokens that are used by their text or not at all, or repeat what others say; scores are
# of another kind of tokenizer.
_TOKENIZER_NEUTRAL = {
    "chat_templates", "huggingface.json", "ggml.scores", "ggml.unknown_token_id",
    "ggml.seperator_token_id", "ggml.mask_token_id", "ggml.cls_token_id", "ggml.prefix_token_id",
    "ggml.suffix_token_id", "ggml.middle_token_id", "ggml.fim_pre_token_id",
    "ggml.fim_suf_token_id", "ggml.fim_mid_token_id", "ggml.fim_pad_token_id",
    "ggml.fim_rep_token_id", "ggml.fim_sep_token_id",
}  # fmt: skip

# What would change a text before it is encoded. Qwen adds and takes away nothing.
_TOKENIZER_FLAGS = {
    "ggml.add_bos_token", "ggml.add_eos_token", "ggml.add_sep_token", "ggml.add_space_prefix",
    "ggml.remove_extra_whitespaces",
}  # fmt: skip

# Settings of sampling that are not supported, with the value under which each does nothing; those
# that only say how another one works have None.
_SAMPLING = {"mirostat": 0, "penalty_repeat": 1.0, "xtc_probability": 0.0} | dict.fromkeys(
    ("mirostat_eta", "mirostat_tau", "penalty_last_n", "xtc_threshold")
)
SAMPLING_READ = {"temp": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p"}
"""What is read of ``general.sampling``, with its name in generation_config.json."""


def check_keys(gguf: GGUFFile, family: GGUFFamily) -> None:
    """Raise a GGUFError for a file that is no whole model, or a key that matters, by its name."""
    if (kind := gguf.get("general.type", str, "model")) != "model":
        raise gguf.error(f"general.type is '{kind}', expected 'model'")
    if (num_files := gguf.get("split.count", int, 1)) > 1:
        raise gguf.error(
            f"one of {num_files} files that a model was split into, which is not "
            "supported; join them first: llama-gguf-split --merge FIRST_FILE OUTPUT"
        )
    for key, value in gguf.metadata.items():
        if not _is_understood(key, value, family):
            raise gguf.error(f"metadata key '{key}' = {value!r:.60} is not supported")


def _is_understood(key: str, value: object, family: GGUFFamily) -> bool:
    namespace, _, name = key.partition(".")
    if namespace == family.architecture:
        return name in _MODEL_READ or family.neutral_keys.get(name) == value
    if namespace == "tokenizer":
        known = name in _TOKENIZER_READ | _TOKENIZER_NEUTRAL or name.startswith("chat_template.")
        return known or (name in _TOKENIZER_FLAGS and value is False)
    if key.startswith("general.sampling."):
        name = name.removeprefix("sampling.")
        neutral = name in _SAMPLING and _SAMPLING[name] in (None, value)
        return neutral or name in SAMPLING_READ
    if key == "general.quantization_version":
        return value == 2  # of the blocks' layout
    return namespace not in ("adapter", "clip")
