"""How much memory prompts take, from a process of its own: `python long_prompt_memory.py JSON`.

Peaks are the kernel's: writing 5 to clear_refs sets the high-water mark back to what is resident
now.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch

from augur_gen import StaticKVCache, prefill
from augur_model import OPS_BY_ATTENTION, QwenConfig, QwenForCausalLM
from augur_proof.random_weights import fill_randomly

CONFIG = {
    "model_type": "qwen2",
    "vocab_size": 151,
    "hidden_size": 64,
    "intermediate_size": 88,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1_000_000.0,
    "tie_word_embeddings": True,
}


def long_prompt_model(attention: str) -> QwenForCausalLM:
    """One layer of one head, with seeded weights and 32,768 positions."""
    model = QwenForCausalLM(QwenConfig.from_dict(CONFIG), OPS_BY_ATTENTION[attention])
    fill_randomly(model, seed=0)
    return model


def long_prompt(length: int) -> torch.Tensor:
    """`[1, length]`, seeded ids."""
    return torch.randint(0, 151, (1, length), generator=torch.Generator().manual_seed(length))


def _resident_bytes(key: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/self/status has no {key}")


def _prefill_peak(model: QwenForCausalLM, length: int, chunk_size: int | None) -> dict[str, Any]:
    """Bytes beyond what was resident before the cache was made, and the last logits."""
    token_ids = long_prompt(length)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    before = _resident_bytes("VmRSS")
    cache = StaticKVCache.for_model(model, length)
    logits = prefill(model, token_ids, cache, chunk_size=chunk_size)
    return {
        "bytes": _resident_bytes("VmHWM") - before,
        "logits": logits[0].tolist(),
    }


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    model = long_prompt_model(asked["attention"])
    prefill(model, long_prompt(64), StaticKVCache.for_model(model, 64), chunk_size=32)  # warm-up
    json.dump([_prefill_peak(model, *prompt) for prompt in asked["prompts"]], sys.stdout)
