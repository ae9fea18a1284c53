"""What a checkpoint's generation_config.json asks for, as transformers reads the file.

Only a program that was told to looks at it: greedy decoding is the raw argmax unless somebody says
otherwise.
"""

import sys
from pathlib import Path
from typing import Any

from augur_gen import GenerationError, SamplingParams, StopConditions, StopStrings
from augur_weights import Checkpoint, CheckpointError

# Files are written as differences to transformers' defaults, and there top_k is 50 where text is
# sampled, whoever asked for that, and nothing else is said; 0 means all.
_TOP_K_OF_TRANSFORMERS = 50

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
_STOPPING = {
    "max_new_tokens": "max_new_tokens",
    "min_new_tokens": "min_new_tokens",
    "max_time": "max_time_s",
}

# They name token ids that are used elsewhere, or say how to compute or report: no text changes.
_BOOKKEEPING = frozenset(
    {
        "eos_token_id",
        "bos_token_id",
        "pad_token_id",
        "decoder_start_token_id",
        "transformers_version",
        "_from_model_config",
        "use_cache",
        "cache_implementation",
        "cache_config",
        "max_cache_len",
        "return_dict_in_generate",
        "return_legacy_cache",
        "output_attentions",
        "output_hidden_states",
        "output_scores",
        "output_logits",
        "disable_compile",
        "compile_config",
        "continuous_batching_config",
        "prefill_chunk_size",
        "low_memory",
        "early_stopping",  # of beams, and num_beams above 1 is refused
        "length_penalty",  # likewise
        "diversity_penalty",  # likewise
        "num_assistant_tokens",  # of an assistant model; none is ever used
        "num_assistant_tokens_schedule",
        "assistant_confidence_threshold",
        "assistant_lookbehind",
        "assistant_early_exit",
        "is_assistant",
        "target_lookbehind",
    }
)

# Settings that are not supported, with the values under which they do nothing, beside null.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "num_beams": (1,),
    "num_beam_groups": (1,),
    "num_return_sequences": (1,),
    "max_length": (20,),  # transformers' default, which stands for: not said
    "min_length": (0,),
    "typical_p": (1,),
    "epsilon_cutoff": (0,),
    "eta_cutoff": (0,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1,),
    "guidance_scale": (1,),
    "renormalize_logits": (False,),
    "remove_invalid_values": (False,),
    "token_healing": (False,),
    "use_mtp": (False,),
    "penalty_alpha": (0,),
    "suppress_tokens": ([],),
    "begin_suppress_tokens": ([],),
    "bad_words_ids": ([],),
    "force_words_ids": ([],),
    "constraints": ([],),
    "sequence_bias": ([], {}),
}


def settings_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """What the file sets.

    Returns:
        `do_sample`, where it is true, and values under the names of `SamplingParams` and
        `GenerationOptions`; top_k always, which says nothing where nothing is drawn. Without
        do_sample transformers takes the likeliest token, and a temperature in the file says
        nothing.

    Raises:
        CheckpointError: a setting that would change the text and is not supported, or a wrong
            value.
    """
    path = checkpoint.folder / "generation_config.json"
    said = {key: value for key, value in checkpoint.generation_config.items() if value is not None}
    settings: dict[str, Any] = {name: said.pop(name) for name in _SAMPLING if name in said}
    settings |= {name: said.pop(key) for key, name in _STOPPING.items() if key in said}
    if "stop_strings" in said:
        strings = said.pop("stop_strings")
        settings["stop_strings"] = tuple(strings) if isinstance(strings, list) else (strings,)
    do_sample = said.pop("do_sample", False)
    for key, value in said.items():
        if key not in _BOOKKEEPING and value not in _NEUTRAL.get(key, ()):
            raise CheckpointError(
                f"{path}: {key} is {value!r}, and augur does not support it. Take it out of the "
                "file, or leave use_generation_config out and give options"
            )
    if not isinstance(do_sample, bool):
        raise CheckpointError(f"{path}: do_sample is {do_sample!r}, expected true or false")
    settings = {"top_k": _TOP_K_OF_TRANSFORMERS} | settings
    if settings["top_k"] == 0:
        settings["top_k"] = None
    _check(settings, path)
    return settings | ({"do_sample": True} if do_sample else {})


def _check(settings: dict[str, Any], path: Path) -> None:
    try:
        for name in ("max_new_tokens", "min_new_tokens", "max_time_s"):
            kinds = (int, float) if name == "max_time_s" else (int,)
            if name in settings and type(settings[name]) not in kinds:
                raise GenerationError(f"{name} is {settings[name]!r}, expected a number")
        StopConditions(
            settings.get("max_new_tokens", sys.maxsize),
            min_new_tokens=settings.get("min_new_tokens", 0),
            max_time_s=settings.get("max_time_s"),
        )
        StopStrings(settings.get("stop_strings", ()))
        SamplingParams(**{name: settings[name] for name in _SAMPLING if name in settings})
    except GenerationError as error:
        raise CheckpointError(f"{path}: {error}. Correct the file, or fetch it again") from None
