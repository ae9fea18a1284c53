"""From a GGUF file's metadata to ``generation_config.json``: where a text ends, how it is drawn."""

from typing import Any

from augur_weights.gguf_config import decimal, special_token_ids, token_id
from augur_weights.gguf_file import GGUFFile
from augur_weights.gguf_keys import SAMPLING_READ
from augur_weights.gguf_vocabulary import Vocabulary


def generation_config(gguf: GGUFFile, vocabulary: Vocabulary, end_of_text: str) -> dict[str, Any]:
    """The file's ``generation_config.json``: the special ids, and the sampling that it recommends.

    A chat model ends its turn with the file's end token and a text with ``end_of_text``; both are
    published, in this order. Further tokens that end a turn or a message follow.

    Raises:
        GGUFError: an end is no token of the vocabulary, or a setting is no number.
    """
    config = special_token_ids(gguf)
    ends = [config["eos_token_id"], vocabulary.added_id(end_of_text)]
    further = ("eot_token_id", "eom_token_id")
    ends += [token_id(gguf, one) for one in further if f"tokenizer.ggml.{one}" in gguf.metadata]
    distinct = [end for end in dict.fromkeys(ends) if end is not None]
    config["eos_token_id"] = distinct if len(distinct) > 1 else distinct[0]
    if "tokenizer.ggml.padding_token_id" in gguf.metadata:
        config["pad_token_id"] = token_id(gguf, "padding_token_id")
    return config | _sampling(gguf)


def _sampling(gguf: GGUFFile) -> dict[str, Any]:
    """The recommended settings; with temperature 0 they recommend the likeliest token."""
    settings: dict[str, Any] = {}
    for name, published in SAMPLING_READ.items():
        key = f"general.sampling.{name}"
        if key in gguf.metadata:
            is_count = published == "top_k"
            settings[published] = (
                gguf.require(key, int) if is_count else decimal(gguf, key, or_zero=True)
            )
    if not settings or settings.get("temperature") == 0:
        return {}
    return {"do_sample": True, **settings}
