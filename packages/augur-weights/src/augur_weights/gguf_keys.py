"""Which metadata of a GGUF file is understood; what is not, and would matter, is refused by name.

Keys are those of ggml's ``docs/gguf.md`` and of the ``gguf`` library. Those of other namespaces say
where a file comes from and how it was made.
"""

from augur_weights.errors import GGUFError
from augur_weights.gguf_family import GGUFFamily
from augur_weights.gguf_file import GGUFFile

# Read elsewhere, but for the flags below; named templates stand behind "chat_template.".
_TOKENIZER_READ = {
    "chat_template",
    "ggml.bos_token_id",
    "ggml.eom_token_id",
    "ggml.eos_token_id",
    "ggml.eot_token_id",
    "ggml.merges",
    "ggml.model",
    "ggml.padding_token_id",
    "ggml.pre",
    "ggml.token_type",
    "ggml.tokens",
}

# They name tokens that are used by their text or not at all, or repeat what others say; scores are
# of another kind of tokenizer.
_TOKENIZER_NEUTRAL = {
    "chat_templates",
    "ggml.cls_token_id",
    "ggml.mask_token_id",
    "ggml.scores",
    "ggml.seperator_token_id",
    "ggml.unknown_token_id",
    "huggingface.json",
    *(f"ggml.fim_{part}_token_id" for part in ("pre", "suf", "mid", "pad", "rep", "sep")),
    *(f"ggml.{part}_token_id" for part in ("prefix", "suffix", "middle")),
}

# What would change a text before it is encoded. Qwen adds and takes away nothing.
_TOKENIZER_FLAGS = {
    "ggml.add_bos_token",
    "ggml.add_eos_token",
    "ggml.add_sep_token",
    "ggml.add_space_prefix",
    "ggml.remove_extra_whitespaces",
}

# Settings that are not supported, each with the value under which it does nothing; those that only
# say how another one works are listed with None.
_SAMPLING = {
    "mirostat": 0,
    "mirostat_eta": None,
    "mirostat_tau": None,
    "penalty_last_n": None,
    "penalty_repeat": 1.0,
    "xtc_probability": 0.0,
    "xtc_threshold": None,
}
SAMPLING_READ = {"temp": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p"}
"""What is read of ``general.sampling``, with its name in generation_config.json."""


def check_keys(gguf: GGUFFile, family: GGUFFamily) -> None:
    """Refuse a file that is no whole model, or has metadata that matters and is not understood.

    Raises:
        GGUFError: an adapter, a projector or a part of a split file; or a key that may change what
            is computed or generated, by its name.
    """
    if (kind := gguf.get("general.type", str, "model")) != "model":
        raise GGUFError(f"{gguf.path}: general.type is '{kind}', expected 'model'")
    if (num_files := gguf.get("split.count", int, 1)) > 1:
        raise GGUFError(
            f"{gguf.path}: one of {num_files} files that a model was split into, which is not "
            "supported; join them first: llama-gguf-split --merge FIRST_FILE OUTPUT"
        )
    for key, value in gguf.metadata.items():
        if not _is_understood(key, value, family):
            raise GGUFError(f"{gguf.path}: metadata key '{key}' = {value!r:.60} is not supported")


def _is_understood(key: str, value: object, family: GGUFFamily) -> bool:
    namespace, _, name = key.partition(".")
    if namespace == family.architecture:
        return name in family.understood_keys and (name != "rope.scaling.type" or value == "none")
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
