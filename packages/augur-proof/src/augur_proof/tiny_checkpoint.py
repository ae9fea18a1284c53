"""A whole checkpoint folder in miniature: random weights, a real BPE, a chat template."""

import json
from pathlib import Path
from typing import Any

import tokenizers
from safetensors.torch import save_file
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers
from torch import Tensor

from augur_model import QwenConfig, QwenForCausalLM
from augur_proof.random_weights import fill_randomly
from augur_tok import QWEN2

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 32,
    "intermediate_size": 88,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
}

CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

TEXT = ("Why is the sky blue? Because the air scatters blue light the most. 你好 ¿Por qué? 🙂",)


def config_with(**changes: Any) -> dict[str, Any]:
    """`CONFIG` with other keys. A Qwen3's head_dim follows from nothing: 16 if not set."""
    base = CONFIG | {"head_dim": 16} if changes.get("model_type") == "qwen3" else CONFIG
    config = base | changes
    if "rope_parameters" in changes:  # which say theta, too
        del config["rope_theta"]
    return config


def write_tiny_checkpoint(
    folder: Path,
    *,
    chat_template: str | None = CHAT_TEMPLATE,
    seed: int = 0,
    max_shard_bytes: int | None = None,
    **changes: Any,
) -> Path:
    """Write config, generation config, tokenizer and weights into `folder`, and give it back.

    Args:
        folder: made if it is not there.
        chat_template: None leaves the template out, as base models do.
        seed: of the weights.
        max_shard_bytes: cut the weights into files of at most this size, as large models are; a
            tensor that is larger has one of its own. None writes one file.
        **changes: keys of config.json to set.
    """
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = _write_tokenizer(folder, chat_template)
    # No padding: every id that the random model may choose is one that the tokenizer knows.
    sizes = {"vocab_size": len(vocabulary), "eos_token_id": vocabulary["<|im_end|>"]}
    config = config_with(**sizes | changes)
    _write_json(folder / "config.json", config)
    eos_token_id = [vocabulary["<|im_end|>"], vocabulary["<|endoftext|>"]]
    _write_json(folder / "generation_config.json", {"eos_token_id": eos_token_id})

    model = QwenForCausalLM(QwenConfig.from_dict(config))
    fill_randomly(model, seed=seed)
    tensors = {name: parameter.data for name, parameter in model.named_parameters()}
    if max_shard_bytes is None:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    else:
        _write_shards(folder, tensors, max_shard_bytes)
    return folder


def _write_shards(folder: Path, tensors: dict[str, Tensor], max_shard_bytes: int) -> None:
    shards: list[dict[str, Tensor]] = [{}]
    for name, tensor in tensors.items():
        num_bytes = sum(one.nbytes for one in (*shards[-1].values(), tensor))
        if shards[-1] and num_bytes > max_shard_bytes:
            shards.append({})
        shards[-1][name] = tensor
    weight_map: dict[str, str] = {}
    for number, shard in enumerate(shards, start=1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(shard, file)
    total_size = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": total_size}, "weight_map": weight_map}
    _write_json(folder / "model.safetensors.index.json", index)


def files_of(folder: Path) -> dict[str, bytes]:
    """What a Hub repository of that checkpoint holds."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _write_tokenizer(folder: Path, chat_template: str | None) -> dict[str, int]:
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(QWEN2.split), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    tokenizer.add_special_tokens(
        [tokenizers.AddedToken(t, normalized=False) for t in CONTROL_TOKENS]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "bos_token": None}
    if chat_template is not None:
        config["chat_template"] = chat_template
    _write_json(folder / "tokenizer_config.json", config)
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    return vocabulary


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
