"""A GGUF file of a Qwen2 model becomes the checkpoint folder that its model is published as."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from augur_weights.gguf_types import SUPPORTED_TYPES

gguf = pytest.importorskip("gguf", reason="the gguf extra is not installed")
np = pytest.importorskip("numpy", reason="the gguf extra is not installed")
tiny = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("gguf_tiny.py"))))


def test_the_type_table_has_ggmls_numbers_names_and_block_sizes():
    for tensor_type in SUPPORTED_TYPES.values():
        known = gguf.GGMLQuantizationType(tensor_type.id)
        assert tensor_type.name == known.name
        sizes = (tensor_type.block_elements, tensor_type.block_bytes)
        assert sizes == gguf.GGML_QUANT_SIZES[known]


@pytest.mark.parametrize("type_name", [t.name for t in SUPPORTED_TYPES.values()])
def test_every_tensor_equals_the_gguf_librarys_values_in_bfloat16(type_name: str, tmp_path: Path):
    model = tiny.tiny_model(type_name)

    tensors = tiny.checkpoint_tensors(tiny.imported(model, tmp_path))

    checkpoint_names = {
        "token_embd": "embed_tokens",
        "output_norm": "norm",
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    seen = set()
    for gguf_name, stored in model.tensors.items():
        *layer, module, kind = gguf_name.replace("blk.", "layers.").split(".")
        name = ".".join(["model", *layer, checkpoint_names[module], kind])
        assert torch.equal(tensors[name], tiny.expected_bfloat16(stored)), name
        seen.add(name)
    assert seen == set(tensors)


def test_rounding_to_bfloat16_goes_to_the_nearest_and_ties_to_even(tmp_path: Path):
    model = tiny.tiny_model()
    # bfloat16 has steps of 1/128 just above one.
    values = [1 + 1 / 256, 1 + 3 / 256, 1 + 1 / 256 + 2**-20, -1 - 1 / 256]
    norm = model.tensors["output_norm.weight"][0]
    norm[:4] = values

    found = tiny.checkpoint_tensors(tiny.imported(model, tmp_path))["model.norm.weight"][:4]

    assert found.tolist() == [1.0, 1 + 1 / 64, 1 + 1 / 128, -1.0]


@pytest.mark.parametrize("type_name", ["F32", "Q5_0", "Q4_K"])
def test_the_size_of_the_chunks_makes_no_difference(
    type_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model = tiny.tiny_model(type_name)
    whole = tiny.checkpoint_tensors(tiny.imported(model, tmp_path / "whole"))
    monkeypatch.setattr("augur_weights.gguf_safetensors._CHUNK_ELEMENTS", 5 * 256)

    chunked = tiny.checkpoint_tensors(tiny.imported(model, tmp_path / "chunked"))

    assert all(torch.equal(chunked[name], whole[name]) for name in whole)


def test_the_config_is_what_qwen_publishes(tmp_path: Path):
    assert tiny.read_json(tiny.imported(tiny.tiny_model(), tmp_path), "config.json") == {
        "architectures": ["Qwen2ForCausalLM"],
        "attention_dropout": 0.0,
        "bos_token_id": tiny.END_OF_TEXT,
        "eos_token_id": tiny.TURN_END,
        "hidden_act": "silu",
        "hidden_size": 256,
        "initializer_range": 0.02,
        "intermediate_size": 512,
        "max_position_embeddings": 128,
        "model_type": "qwen2",
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        # The file's float32 is 9.999999974752427e-07.
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": 288,
    }


def test_the_head_size_is_the_files_where_it_has_one(tmp_path: Path):
    model = tiny.tiny_model()
    model.metadata["qwen2.attention.key_length"] = np.uint32(32)
    for layer in range(tiny.LAYERS):
        for name, rows in (("q", 4 * 32), ("k", 2 * 32), ("v", 2 * 32)):
            weight, bias = f"blk.{layer}.attn_{name}.weight", f"blk.{layer}.attn_{name}.bias"
            model.tensors[weight] = (model.tensors[weight][0][:rows], "F32")
            model.tensors[bias] = (model.tensors[bias][0][:rows], "F32")
        output = f"blk.{layer}.attn_output.weight"
        model.tensors[output] = (model.tensors[output][0][:, : 4 * 32].copy(), "F32")

    folder = tiny.imported(model, tmp_path)

    assert tiny.read_json(folder, "config.json")["head_dim"] == 32
    assert tiny.checkpoint_tensors(folder)["model.layers.1.self_attn.k_proj.weight"].shape == (
        64,
        256,
    )


def test_a_chat_model_ends_at_its_turn_and_at_the_end_of_text(tmp_path: Path):
    assert tiny.read_json(tiny.imported(tiny.tiny_model(), tmp_path), "generation_config.json") == {
        "bos_token_id": tiny.END_OF_TEXT,
        "eos_token_id": [tiny.TURN_END, tiny.END_OF_TEXT],
        "pad_token_id": tiny.END_OF_TEXT,
    }


def test_a_base_model_ends_at_the_end_of_text_and_has_no_template(tmp_path: Path):
    model = tiny.tiny_model()
    model.metadata["tokenizer.ggml.eos_token_id"] = np.uint32(tiny.END_OF_TEXT)
    del model.metadata["tokenizer.chat_template"]

    folder = tiny.imported(model, tmp_path)

    assert tiny.read_json(folder, "generation_config.json")["eos_token_id"] == tiny.END_OF_TEXT
    config = tiny.read_json(folder, "tokenizer_config.json")
    assert config["eos_token"] == "<|endoftext|>"
    assert "chat_template" not in config


@pytest.mark.parametrize(
    ("keys", "ends"),
    [
        ({"eot_token_id": tiny.TOOL_CALL}, [tiny.TURN_END, tiny.END_OF_TEXT, tiny.TOOL_CALL]),
        ({"eom_token_id": 5}, [tiny.TURN_END, tiny.END_OF_TEXT, 5]),
        (
            {"eot_token_id": tiny.TURN_START, "eom_token_id": tiny.TOOL_CALL},
            [tiny.TURN_END, tiny.END_OF_TEXT, tiny.TURN_START, tiny.TOOL_CALL],
        ),
        ({"eot_token_id": tiny.TURN_END, "eom_token_id": 0}, [tiny.TURN_END, tiny.END_OF_TEXT, 0]),
    ],
)
def test_every_token_that_ends_a_turn_or_a_message_ends_a_text(
    keys: dict[str, int], ends: list[int], tmp_path: Path
):
    model = tiny.tiny_model()
    model.metadata |= {f"tokenizer.ggml.{key}": np.uint32(value) for key, value in keys.items()}

    config = tiny.read_json(tiny.imported(model, tmp_path), "generation_config.json")

    assert config["eos_token_id"] == ends


@pytest.mark.parametrize(
    ("keys", "settings"),
    [
        (
            {"temp": np.float32(0.7), "top_p": np.float32(0.8), "top_k": np.uint32(20)},
            {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20},
        ),
        ({"min_p": np.float32(0.05)}, {"do_sample": True, "min_p": 0.05}),
        ({"temp": np.float32(0), "top_p": np.float32(0.8)}, {}),
        ({"penalty_repeat": np.float32(1), "penalty_last_n": np.uint32(64)}, {}),
    ],
)
def test_recommended_sampling_is_kept_in_the_trainers_decimals(
    keys: dict[str, object], settings: dict[str, object], tmp_path: Path
):
    model = tiny.tiny_model()
    model.metadata |= {f"general.sampling.{key}": value for key, value in keys.items()}

    config = tiny.read_json(tiny.imported(model, tmp_path), "generation_config.json")

    assert {k: v for k, v in config.items() if not k.endswith("_token_id")} == settings


def test_what_says_where_a_file_comes_from_changes_nothing(tmp_path: Path):
    model = tiny.tiny_model()
    plain = tiny.imported(model, tmp_path / "plain")
    model.metadata |= {
        "general.license": "apache-2.0",
        "general.quantization_version": np.uint32(2),
        "quantize.imatrix.file": "calibration.dat",
        "somebody.quantize_version": "2",
        "tokenizer.ggml.fim_pre_token_id": np.uint32(tiny.FIM),
        "tokenizer.ggml.add_space_prefix": False,
    }

    told = tiny.imported(model, tmp_path / "told")

    for name in (
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ):
        assert tiny.read_json(told, name) == tiny.read_json(plain, name)


def test_named_templates_stand_beside_the_only_one(tmp_path: Path):
    model = tiny.tiny_model()
    model.metadata["tokenizer.chat_template.tool_use"] = "{{ tools }}"
    model.metadata["tokenizer.chat_templates"] = ["tool_use"]

    config = tiny.read_json(tiny.imported(model, tmp_path), "tokenizer_config.json")

    assert config["chat_template"] == [
        {"name": "default", "template": tiny.CHAT_TEMPLATE},
        {"name": "tool_use", "template": "{{ tools }}"},
    ]


def test_the_tokenizer_has_the_files_vocabulary_without_its_padding(tmp_path: Path):
    tokenizer = tiny.read_json(tiny.imported(tiny.tiny_model(), tmp_path), "tokenizer.json")

    tokens, _, merges = tiny.vocabulary()
    assert tokenizer["model"]["vocab"] == {token: i for i, token in enumerate(tokens[:259])}
    assert tokenizer["model"]["merges"] == merges
    added = [(t["id"], t["content"], t["special"]) for t in tokenizer["added_tokens"]]
    assert added == [
        (tiny.END_OF_TEXT, "<|endoftext|>", True),
        (tiny.TURN_START, "<|im_start|>", True),
        (tiny.TURN_END, "<|im_end|>", True),
        (tiny.TOOL_CALL, "<tool_call>", False),
        # A control token in the file, but published as one that decoding keeps.
        (tiny.FIM, "<|fim_prefix|>", False),
    ]


def test_the_tokenizer_splits_and_normalizes_as_qwen2(tmp_path: Path):
    tokenizer = tiny.read_json(tiny.imported(tiny.tiny_model(), tmp_path), "tokenizer.json")

    split, byte_level = tokenizer["pre_tokenizer"]["pretokenizers"]
    assert tokenizer["normalizer"] == {"type": "NFC"}
    assert split["behavior"] == "Isolated"
    assert split["pattern"]["Regex"] == (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    assert byte_level == {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }
    assert tokenizer["decoder"]["type"] == "ByteLevel"


def test_the_tokenizer_config_names_class_special_tokens_and_template(tmp_path: Path):
    config = tiny.read_json(tiny.imported(tiny.tiny_model(), tmp_path), "tokenizer_config.json")

    decoder = config.pop("added_tokens_decoder")
    assert decoder[str(tiny.TURN_END)] == {
        "content": "<|im_end|>",
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    assert list(decoder) == [str(token_id) for token_id in range(259, 264)]
    assert config == {
        "add_bos_token": False,
        "add_prefix_space": False,
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
        "bos_token": None,
        "chat_template": tiny.CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 128,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }
