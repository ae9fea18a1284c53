"""From a checkpoint to a network ready to run, and what has to fit on the way."""

from pathlib import Path

import torch

from augur.attention_choice import AttentionName
from augur.devices import dtype_name
from augur.free_memory import require_memory
from augur.sources import config_of
from augur_model import OPS_BY_ATTENTION, QwenConfig, QwenForCausalLM
from augur_tok import Tokenizer
from augur_weights import Checkpoint, CheckpointError, load_into


def load_model(
    checkpoint: Checkpoint,
    *,
    device: torch.device,
    dtype: torch.dtype,
    attention: AttentionName = "eager",
) -> QwenForCausalLM:
    """Build the network a checkpoint describes, and fill it.

    Raises:
        WeightsError, ModelError: the checkpoint is wrong or not supported.
        NoRoomError: the device has too little memory free for the weights.
    """
    config = read_config(checkpoint)
    # Before anything is built: a config may ask for any size.
    require_memory(
        f"{checkpoint.folder}: {config.num_parameters:,} parameters in {dtype_name(dtype)}",
        config.num_parameters * dtype.itemsize,
        device,
        "Use a {dtype} of fewer bytes, a smaller model or another {device}",
    )
    with torch.device("meta"):
        model = QwenForCausalLM(config, OPS_BY_ATTENTION[attention])
    load_into(model, checkpoint, dtype=dtype, device=device)
    return model


def read_config(checkpoint: Checkpoint) -> QwenConfig:
    """What network a checkpoint describes; errors name the folder."""
    return config_of(checkpoint.folder, checkpoint.config)


def check_vocabularies(checkpoint: Checkpoint, tokenizer: Tokenizer) -> None:
    """A larger model is padded, as Qwen's are; a larger tokenizer is another model's.

    Raises:
        CheckpointError: it is.
    """
    vocab_size = read_config(checkpoint).vocab_size
    if tokenizer.vocab_size > vocab_size:
        raise CheckpointError(
            f"{checkpoint.folder}: the tokenizer knows {tokenizer.vocab_size} tokens, the model "
            f"{vocab_size} (vocab_size in config.json). They do not belong together: fetch the "
            "model's own tokenizer files."
        )


def eos_token_ids(checkpoint: Checkpoint) -> frozenset[int]:
    """The ids that end a text: generation_config.json's, else config.json's.

    Raises:
        CheckpointError: they are no ids of the vocabulary.
    """
    sources = {
        "generation_config.json": checkpoint.generation_config,
        "config.json": checkpoint.config,
    }
    for file, config in sources.items():
        found = config.get("eos_token_id")
        if found is not None and found != []:
            return _checked_ids(found, checkpoint.folder / file, read_config(checkpoint).vocab_size)
    return frozenset()


def _checked_ids(found: object, path: Path, vocab_size: int) -> frozenset[int]:
    token_ids = found if isinstance(found, list) else [found]
    for token_id in token_ids:
        # bool is an int to Python
        if type(token_id) is not int or not 0 <= token_id < vocab_size:
            raise CheckpointError(
                f"{path}: eos_token_id is {found!r}, expected an id or a list of ids, each from 0 "
                f"to {vocab_size - 1}. Correct the file, or fetch it again."
            )
    return frozenset(token_ids)
