"""Another family is another record, and nothing else."""

import dataclasses
import runpy
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import pytest

from augur_weights import GGUFError, gguf_family, import_gguf

pytest.importorskip("gguf", reason="the gguf extra is not installed")
tiny = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("gguf_tiny.py"))))

# A family without biases, with names, an ending and a pattern of its own.
TOY = dataclasses.replace(
    gguf_family.QWEN2,
    architecture="toy",
    config={"architectures": ["ToyForCausalLM"], "model_type": "toy"},
    layer_tensors=tuple(
        (name.replace("mlp.", "feed_forward."), gguf_name.replace("ffn_", "mlp_"), sizes)
        for name, gguf_name, sizes in gguf_family.QWEN2.layer_tensors
        if not name.endswith(".bias")
    ),
    neutral_keys={"attention.causal": True},
    pre_tokenizer="toy-bpe",
    split_pattern=r"\p{N}{1,3}",
    tokenizer_class="ToyTokenizer",
    end_of_text="<tool_call>",
    not_special=frozenset({"<|im_start|>"}),
)


def toy_file(tmp_path: Path, more: Mapping[str, object] = MappingProxyType({})) -> Path:
    model = tiny.tiny_model()
    model.architecture = "toy"
    model.metadata = {k.replace("qwen2.", "toy."): v for k, v in model.metadata.items()}
    model.metadata |= {"tokenizer.ggml.pre": "toy-bpe", **more}
    model.tensors = {
        name.replace("ffn_", "mlp_"): stored
        for name, stored in model.tensors.items()
        if not name.endswith(".bias")
    }
    return model.write(tmp_path / "toy.gguf")


def test_a_family_that_has_no_record_is_refused(tmp_path: Path):
    with pytest.raises(GGUFError, match="architecture 'toy' is not supported; supported: qwen2"):
        import_gguf(toy_file(tmp_path), cache_dir=tmp_path / "cache")


def test_a_record_is_all_that_another_family_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gguf_family, "FAMILIES", (gguf_family.QWEN2, TOY))

    folder = import_gguf(toy_file(tmp_path), cache_dir=tmp_path / "cache")

    config = tiny.read_json(folder, "config.json")
    assert config["model_type"] == "toy"
    assert config["hidden_size"] == tiny.HIDDEN
    assert "use_sliding_window" not in config
    tensors = tiny.checkpoint_tensors(folder)
    assert "model.layers.1.feed_forward.up_proj.weight" in tensors
    assert len(tensors) == 26 - 3 * tiny.LAYERS
    tokenizer = tiny.read_json(folder, "tokenizer.json")
    assert tokenizer["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] == r"\p{N}{1,3}"
    assert [t["content"] for t in tokenizer["added_tokens"] if not t["special"]] == [
        "<|im_start|>",
        "<tool_call>",
    ]
    assert tiny.read_json(folder, "tokenizer_config.json")["tokenizer_class"] == "ToyTokenizer"
    ends = tiny.read_json(folder, "generation_config.json")["eos_token_id"]
    assert ends == [tiny.TURN_END, tiny.TOOL_CALL]
    # Qwen2's own files are read as before.
    assert (
        tiny.read_json(tiny.imported(tiny.tiny_model(), tmp_path), "config.json")["model_type"]
        == "qwen2"
    )


@pytest.mark.parametrize("causal", [True, False])
def test_a_key_is_neutral_where_the_record_says_so(
    causal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(gguf_family, "FAMILIES", (gguf_family.QWEN2, TOY))
    path = toy_file(tmp_path, {"toy.attention.causal": causal})
    if causal:
        assert import_gguf(path, cache_dir=tmp_path / "cache").is_dir()
    else:
        with pytest.raises(GGUFError, match=r"'toy\.attention\.causal' = False is not supported"):
            import_gguf(path, cache_dir=tmp_path / "cache")
