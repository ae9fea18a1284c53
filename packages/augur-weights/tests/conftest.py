"""Tiny checkpoints, and a Hub to fetch them from."""

import ctypes
import importlib.util
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
import torch

Tensors = dict[str, torch.Tensor]


def _load_hub_stand_in() -> Any:
    # By path: pytest's importlib mode does not put this folder on sys.path.
    spec = importlib.util.spec_from_file_location(
        "hub_stand_in", Path(__file__).with_name("hub_stand_in.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hub_stand_in = _load_hub_stand_in()


# The format's names of the dtypes that the tests store.
DTYPE_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.int64: "I64",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def save_tensors(tensors: Tensors) -> bytes:
    """A safetensors file; the library's own function needs numpy, which is not always there."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    parts = []
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": DTYPE_NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
        parts.append(ctypes.string_at(tensor.contiguous().data_ptr(), tensor.nbytes))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the format aligns the tensors to eight bytes
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


@pytest.fixture
def save() -> Callable[[Tensors], bytes]:
    return save_tensors


@pytest.fixture
def tensors() -> Tensors:
    generator = torch.Generator().manual_seed(0)
    shapes = {"embed.weight": (7, 4), "layer.weight": (4, 4), "layer.bias": (4,)}
    return {
        name: torch.randn(shape, generator=generator, dtype=torch.bfloat16)
        for name, shape in shapes.items()
    }


@pytest.fixture
def write_checkpoint(tmp_path: Path) -> Callable[..., Path]:
    """Write a checkpoint folder: each keyword argument is one shard's tensors, if more than one."""

    def write(
        *shards: Tensors, config: object = None, folder: str = "checkpoint", index: bool = False
    ) -> Path:
        path = tmp_path / folder
        path.mkdir()
        text = json.dumps({"model_type": "tiny"} if config is None else config)
        (path / "config.json").write_text(text, encoding="utf-8")
        if len(shards) == 1 and not index:
            (path / "model.safetensors").write_bytes(save_tensors(shards[0]))
            return path
        weight_map = {}
        for number, shard in enumerate(shards, start=1):
            file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
            (path / file).write_bytes(save_tensors(shard))
            weight_map |= dict.fromkeys(shard, file)
        (path / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {}, "weight_map": weight_map}), encoding="utf-8"
        )
        return path

    return write


@pytest.fixture
def repository_files(tensors: Tensors) -> dict[str, bytes]:
    """A model repository as one finds them: what is needed, and much that is not."""
    return {
        ".gitattributes": b"*.safetensors filter=lfs",
        "README.md": b"# A model",
        "config.json": b'{"model_type": "tiny"}',
        "generation_config.json": b'{"eos_token_id": [1, 2]}',
        "tokenizer.json": b'{"model": {}}',
        "tokenizer_config.json": b'{"added_tokens_decoder": {}}',
        "added_tokens.json": b'{"<a>": 1}',
        "special_tokens_map.json": b'{"eos_token": "<a>"}',
        "additional_chat_templates/tool_use.jinja": b"{{ tools }}",
        "vocab.json": b"{}",
        "merges.txt": b"#version: 0.2",
        "chat_template.jinja": b"{{ messages }}",
        "model.safetensors": save_tensors(tensors),
        "consolidated.safetensors": save_tensors(tensors),
        "pytorch_model.bin": b"not to be fetched",
        "original/model.safetensors": save_tensors(tensors),
        "tf_model.h5": b"not to be fetched",
    }


@pytest.fixture
def needed_files() -> list[str]:
    return [
        "additional_chat_templates/tool_use.jinja",
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


@pytest.fixture
def stand_in() -> Iterator[Any]:
    """A running stand-in of the Hub; nothing in this process is told of it."""
    with hub_stand_in.HubStandIn() as hub:
        yield hub


@pytest.fixture
def hub(stand_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A running stand-in of the Hub, and huggingface_hub set to use it and an empty cache.

    Its settings are read from the environment when it is first imported, so here they are set where
    it keeps them; what it makes of the environment is tested in processes of their own.
    """
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "ENDPOINT", stand_in.url)
    template = stand_in.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return stand_in
