"""A GGUF file that cannot be imported is refused with its name and the reason."""

import runpy
import shutil
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from augur_weights.errors import GGUFError, WeightsError
from augur_weights.gguf_import import import_gguf

gguf = pytest.importorskip("gguf", reason="the gguf extra is not installed")
np = pytest.importorskip("numpy", reason="the gguf extra is not installed")
tiny = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("gguf_tiny.py"))))


def setting(key: str, value: Any) -> Callable[[Any], None]:
    return lambda model: model.metadata.update({key: value})


def without(key: str) -> Callable[[Any], None]:
    return lambda model: model.metadata.pop(key)


def tensor(name: str, array: Any, type_name: str = "F32") -> Callable[[Any], None]:
    return lambda model: model.tensors.update({name: (array, type_name)})


REFUSED = {
    "another architecture": (
        lambda model: setattr(model, "architecture", "llama"),
        r"architecture 'llama' is not supported; supported: qwen2",
    ),
    "an adapter": (setting("general.type", "adapter"), "general.type is 'adapter'"),
    "a part of a split model": (setting("split.count", np.uint32(3)), "one of 3 files"),
    "a rope scaling": (
        setting("qwen2.rope.scaling.type", "yarn"),
        "rope.scaling.type' = 'yarn' is not",
    ),
    "a key that is not understood": (
        setting("qwen2.attention.sliding_window", np.uint32(64)),
        r"'qwen2.attention.sliding_window' = 64 is not supported",
    ),
    "sampling that is not supported": (
        setting("general.sampling.mirostat", np.uint32(2)),
        r"'general.sampling.mirostat' = 2 is not supported",
    ),
    "an order of sampling": (
        setting("general.sampling.sequence", "top_k;temp"),
        r"'general.sampling.sequence' = 'top_k;temp' is not supported",
    ),
    "a temperature that is no number": (
        setting("general.sampling.temp", np.float32("nan")),
        "is nan, expected 0 or a positive number",
    ),
    "another layout of blocks": (
        setting("general.quantization_version", np.uint32(1)),
        r"'general.quantization_version' = 1 is not supported",
    ),
    "a key of a tokenizer that is not understood": (
        setting("tokenizer.ggml.normalizer.lowercase", True),
        r"'tokenizer.ggml.normalizer.lowercase' = True is not supported",
    ),
    "spaces that are taken away": (
        setting("tokenizer.ggml.remove_extra_whitespaces", True),
        "remove_extra_whitespaces",
    ),
    "a projector": (setting("clip.has_vision_encoder", True), "clip.has_vision_encoder"),
    "an end of a turn that is no token": (
        setting("tokenizer.ggml.eot_token_id", np.uint32(288)),
        "eot_token_id is 288, expected a token's id, below 288",
    ),
    "an end of a text that is no token": (
        setting("tokenizer.ggml.eos_token_id", np.uint32(288)),
        "eos_token_id is 288, expected a token's id, below 288",
    ),
    "a beginning that is no token": (
        setting("tokenizer.ggml.bos_token_id", np.uint32(999)),
        "bos_token_id is 999, expected a token's id, below 288",
    ),
    "padding that is no token": (
        setting("tokenizer.ggml.padding_token_id", np.uint32(288)),
        "padding_token_id is 288, expected a token's id, below 288",
    ),
    "merges that break off": (
        setting("tokenizer.ggml.merges", ["i n"]),
        "merges makes 2 of the tokens by no merge",
    ),
    "an end of a message that is no number": (
        setting("tokenizer.ggml.eom_token_id", "<|im_end|>"),
        "'tokenizer.ggml.eom_token_id' holds a str, expected a int",
    ),
    "a missing key": (without("qwen2.block_count"), "'qwen2.block_count' is missing"),
    "a key of the wrong type": (
        setting("qwen2.block_count", "two"),
        "'qwen2.block_count' holds a str, expected a int",
    ),
    "no layers": (setting("qwen2.block_count", np.uint32(0)), "is 0, expected at least 1"),
    "an epsilon that is no number": (
        setting("qwen2.attention.layer_norm_rms_epsilon", np.float32("nan")),
        "is nan, expected a positive number",
    ),
    "heads that do not divide the hidden size": (
        setting("qwen2.attention.head_count", np.uint32(3)),
        "256 is no multiple of head_count 3",
    ),
    "another size of values than of keys": (
        setting("qwen2.attention.value_length", np.uint32(32)),
        "expected the head's size 64",
    ),
    "another tokenizer": (setting("tokenizer.ggml.pre", "llama-bpe"), "expected 'qwen2'"),
    "a token before every text": (setting("tokenizer.ggml.add_bos_token", True), "add_bos_token"),
    "an end token that is none": (
        setting("tokenizer.ggml.eos_token_id", np.uint32(5)),
        "eos_token_id is 5, which is no added token",
    ),
    "a merge of unknown tokens": (
        setting("tokenizer.ggml.merges", ["i n", "q z"]),
        "merges holds 'q z'",
    ),
    "fewer types than tokens": (
        setting("tokenizer.ggml.token_type", [1] * 200),
        "288 tokens but 200 token types",
    ),
    "a missing tensor": (
        lambda model: model.tensors.pop("blk.1.attn_k.bias"),
        r"'blk.1.attn_k.bias' \(model.layers.1.self_attn.k_proj.bias\) is missing",
    ),
    "a tensor too many": (
        tensor("blk.0.attn_q_norm.weight", np.ones(64, np.float32)),
        "1 tensors have no place .* blk.0.attn_q_norm.weight",
    ),
    "a tensor of another shape": (
        tensor("output_norm.weight", np.ones(128, np.float32)),
        r"'output_norm.weight' \(model.norm.weight\) has shape \[128\], expected \[256\]",
    ),
    "a tensor type without support": (
        tensor("blk.0.ffn_up.weight", np.zeros((512, 256 // 32 * 18), np.uint8), "IQ4_NL"),
        "'blk.0.ffn_up.weight' has type IQ4_NL, which is not supported",
    ),
    "values that bfloat16 rounds to infinity": (
        tensor("output_norm.weight", np.full(256, 3.4e38, np.float32)),
        r"'output_norm.weight' \(F32\) holds values that are not finite",
    ),
    "values that are not finite": (
        tensor("output_norm.weight", np.full(256, np.inf, np.float32)),
        r"'output_norm.weight' \(F32\) holds values that are not finite",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_imported_is_refused_by_name(case: str, tmp_path: Path):
    change, message = REFUSED[case]
    model = tiny.tiny_model()
    change(model)

    with pytest.raises(GGUFError, match=message) as refusal:
        tiny.imported(model, tmp_path)

    assert str(refusal.value).startswith(str(tmp_path / "tiny.gguf"))
    assert [p.name for p in (tmp_path / "cache" / "imports").iterdir() if p.is_dir()] == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a GGUF file: it starts with b''"),
        (b"PK\x03\x04 and so on", r"starts with b'PK\\x03\\x04', expected b'GGUF'"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:1d96\nsize 491400064\n",
            r"a Git LFS pointer of 74 bytes .* \(491400064 bytes\). Fetch it with `git lfs pull`",
        ),
        (b"GGUF" + struct.pack("<I", 1), "version 1 is not supported, expected version 2 or 3"),
        (b"GGUF" + struct.pack(">I", 3), "a big-endian file"),
        # A count of keys and a length of a string that no file could hold.
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "0 tensors and 1152921504606846976 metadata"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "1152921504606846976 tensors and 0 metadata"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 9), "the file is truncated: a metadata key"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**60), "the file is truncated: a metadata key"),
    ],
)
def test_a_file_that_is_no_gguf_file_is_named_with_what_was_found(
    content: bytes, message: str, tmp_path: Path
):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)

    with pytest.raises(GGUFError, match=message):
        import_gguf(path, cache_dir=tmp_path / "cache")


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(GGUFError, match=r"absent\.gguf: there is no such file"):
        import_gguf(tmp_path / "absent.gguf", cache_dir=tmp_path / "cache")


def test_a_file_cut_anywhere_is_truncated_and_says_so(tmp_path: Path):
    path = tiny.tiny_model("Q4_0").write(tmp_path / "model.gguf")
    content = path.read_bytes()
    header_and_tensors = [*range(8, 2000, 97), *range(2000, len(content) - 32, 99_991)]

    for length in [*header_and_tensors, len(content) - 32]:
        path.write_bytes(content[:length])
        with pytest.raises(GGUFError, match=r"model\.gguf: the file is truncated: .* fetch it"):
            import_gguf(path, cache_dir=tmp_path / "cache")


def test_a_damaged_scale_is_refused_without_a_warning_before_the_message(tmp_path: Path):
    model = tiny.tiny_model("Q8_0")
    blocks, _ = model.tensors["blk.0.ffn_up.weight"]
    blocks[3, :2] = (0, 0x7C)  # the first block's float16 scale in row 3: infinity

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(GGUFError, match=r"'blk.0.ffn_up.weight' \(Q8_0\) holds values that"):
            tiny.imported(model, tmp_path)


def test_a_full_disk_is_noticed_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))

    with pytest.raises(WeightsError, match=r"MB are needed but 0 MB are free.* AUGUR_CACHE"):
        tiny.imported(tiny.tiny_model(), tmp_path)


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path):
    path = tiny.tiny_model().write(tmp_path / "tiny.gguf")
    (tmp_path / "cache").write_text("a file where a folder should be", encoding="utf-8")

    with pytest.raises(WeightsError, match=r"cache.*: a file is where a folder.* AUGUR_CACHE"):
        import_gguf(path, cache_dir=tmp_path / "cache")
