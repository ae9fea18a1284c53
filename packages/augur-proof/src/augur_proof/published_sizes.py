"""The published sizes of the dense Qwen2, Qwen2.5 and Qwen3, as their config.json name them."""

from typing import Any

# layers, hidden, MLP, heads, kv heads, head_dim, vocabulary, tied, parameters as published
PUBLISHED = {
    "Qwen2.5-0.5B": (24, 896, 4864, 14, 2, 64, 151936, True, 494_032_768),
    "Qwen2.5-1.5B": (28, 1536, 8960, 12, 2, 128, 151936, True, 1_543_714_304),
    "Qwen2.5-3B": (36, 2048, 11008, 16, 2, 128, 151936, True, 3_085_938_688),
    "Qwen2.5-7B": (28, 3584, 18944, 28, 4, 128, 152064, False, 7_615_616_512),
    "Qwen2.5-14B": (48, 5120, 13824, 40, 8, 128, 152064, False, 14_770_033_664),
    "Qwen2.5-32B": (64, 5120, 27648, 40, 8, 128, 152064, False, 32_763_876_352),
    "Qwen2.5-72B": (80, 8192, 29568, 64, 8, 128, 152064, False, 72_706_203_648),
    "Qwen3-0.6B": (28, 1024, 3072, 16, 8, 128, 151936, True, 596_049_920),
    "Qwen3-1.7B": (28, 2048, 6144, 16, 8, 128, 151936, True, 1_720_574_976),
    "Qwen3-4B": (36, 2560, 9728, 32, 8, 128, 151936, True, 4_022_468_096),
    "Qwen3-8B": (36, 4096, 12288, 32, 8, 128, 151936, False, 8_190_735_360),
    "Qwen3-14B": (40, 5120, 17408, 40, 8, 128, 151936, False, 14_768_307_200),
    "Qwen3-32B": (64, 5120, 25600, 64, 8, 128, 151936, False, 32_762_123_264),
}


def published_config(name: str) -> dict[str, Any]:
    """What `config.json` says of a size; the constants are the same for all."""
    layers, hidden, mlp, heads, kv_heads, head_dim, vocabulary, tied, _ = PUBLISHED[name]
    return {
        "model_type": "qwen3" if name.startswith("Qwen3") else "qwen2",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": mlp,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "vocab_size": vocabulary,
        "tie_word_embeddings": tied,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000.0,
    }


def scaled_down_config(name: str) -> dict[str, Any]:
    """The same with its heads, tying and biases, but narrow, of two layers and 128 tokens."""
    config = published_config(name)
    small = {"num_hidden_layers": 2, "intermediate_size": 48, "vocab_size": 128}
    return config | small | {"hidden_size": 16 * config["num_attention_heads"]}
