"""Filling a module from a checkpoint: everything fits and arrives, or nothing is touched."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from augur_weights import Checkpoint, CheckpointError, WeightsError, check_fit, load_into

Tensors = dict[str, torch.Tensor]
Write = Callable[..., Path]
Save = Callable[[Tensors], bytes]
TIED = "head.weight"


class Tiny(nn.Module):
    """An embedding, a layer and, if tied, a head that is the embedding."""

    def __init__(self, *, tied: bool = False) -> None:
        super().__init__()
        with torch.device("meta"):
            # Not nn.Embedding(7, 4): to draw its values on the meta device, torch imports sympy,
            # which takes seconds.
            self.embed = nn.Embedding.from_pretrained(torch.empty(7, 4))
            self.layer = nn.Linear(4, 4)
            if tied:
                self.head = nn.Linear(4, 7, bias=False)
                self.head.weight = self.embed.weight


def is_untouched(module: nn.Module) -> bool:
    return all(parameter.is_meta for parameter in module.parameters())


def refusal(module: nn.Module, folder: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_into(module, Checkpoint(folder))
    assert is_untouched(module)
    assert "Nothing was loaded" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("dtype", [None, torch.float32, torch.float16, torch.bfloat16])
def test_every_parameter_holds_the_checkpoints_values(
    dtype: torch.dtype | None, tensors: Tensors, write_checkpoint: Write
) -> None:
    module = Tiny()
    load_into(module, Checkpoint(write_checkpoint(tensors)), dtype=dtype)
    for name, tensor in tensors.items():
        parameter = module.get_parameter(name)
        assert torch.equal(parameter, tensor.to(dtype or torch.bfloat16))
        assert parameter.dtype == (dtype or torch.bfloat16)
        assert not parameter.requires_grad


def test_dtypes_stay_mixed_where_none_is_asked_for(
    tensors: Tensors, write_checkpoint: Write
) -> None:
    tensors["layer.bias"] = tensors["layer.bias"].double()
    module = Tiny()
    load_into(module, Checkpoint(write_checkpoint(tensors)))
    assert module.layer.bias.dtype == torch.float64
    assert module.layer.weight.dtype == torch.bfloat16


def test_shards_fill_one_module(tensors: Tensors, write_checkpoint: Write) -> None:
    first = {"embed.weight": tensors["embed.weight"]}
    second = {name: tensor for name, tensor in tensors.items() if name not in first}
    module = Tiny()
    load_into(module, Checkpoint(write_checkpoint(first, second)))
    for name, tensor in tensors.items():
        assert torch.equal(module.get_parameter(name), tensor)


@pytest.mark.parametrize("stored_names", [["embed.weight"], [TIED], ["embed.weight", TIED]])
def test_tied_weights_load_under_either_name_and_stay_one(
    stored_names: list[str], tensors: Tensors, write_checkpoint: Write
) -> None:
    weight = tensors.pop("embed.weight")
    stored = tensors | {name: weight.clone() for name in stored_names}
    module = Tiny(tied=True)
    load_into(module, Checkpoint(write_checkpoint(stored)), dtype=torch.float32)
    assert torch.equal(module.embed.weight, weight.float())
    assert module.head.weight is module.embed.weight


def test_two_copies_of_a_tied_weight_may_hold_the_same_nan(
    tensors: Tensors, write_checkpoint: Write
) -> None:
    tensors["embed.weight"][0, 0] = torch.nan
    stored = tensors | {TIED: tensors["embed.weight"].clone()}
    module = Tiny(tied=True)
    load_into(module, Checkpoint(write_checkpoint(stored)))
    assert module.head.weight[0, 0].isnan()


@pytest.mark.parametrize("change", ["one value", "sign of zero", "dtype"])
def test_two_copies_of_a_tied_weight_that_differ_are_named(
    change: str, tensors: Tensors, write_checkpoint: Write, tmp_path: Path
) -> None:
    tensors["embed.weight"][0, 0] = 0.0
    copy = tensors["embed.weight"].clone()
    if change == "dtype":
        copy = copy.float()
    else:
        copy[0, 0] = -0.0 if change == "sign of zero" else 1.0
    message = refusal(Tiny(tied=True), write_checkpoint(tensors | {TIED: copy}))
    assert '"embed.weight" and "head.weight" differ' in message

    module, checkpoint = Tiny(tied=True), Checkpoint(tmp_path / "checkpoint")
    check_fit(module, checkpoint)  # looks at no value
    with pytest.raises(CheckpointError) as caught:
        check_fit(module, checkpoint, compare_tied=True)
    assert str(caught.value) == message


def test_two_copies_of_a_tied_weight_that_are_equal_fit(
    tensors: Tensors, write_checkpoint: Write
) -> None:
    folder = write_checkpoint(tensors | {TIED: tensors["embed.weight"].clone()})
    check_fit(Tiny(tied=True), Checkpoint(folder), compare_tied=True)


def test_a_head_that_is_stored_but_tied_nowhere_is_left_over(
    tensors: Tensors, write_checkpoint: Write
) -> None:
    message = refusal(Tiny(), write_checkpoint(tensors | {TIED: torch.zeros(7, 4)}))
    assert "1 of its tensors have no place in the model: head.weight" in message


def test_a_missing_tensor_is_named(tensors: Tensors, write_checkpoint: Write) -> None:
    del tensors["layer.bias"]
    message = refusal(Tiny(), write_checkpoint(tensors))
    assert "1 parameters of the model are not in it: layer.bias" in message


def test_a_missing_tied_weight_is_named_by_all_its_names(
    tensors: Tensors, write_checkpoint: Write
) -> None:
    del tensors["embed.weight"]
    message = refusal(Tiny(tied=True), write_checkpoint(tensors))
    assert "embed.weight or head.weight" in message


def test_left_over_tensors_are_counted_and_the_first_are_named(
    tensors: Tensors, write_checkpoint: Write
) -> None:
    extra = {f"layer.{number}.norm": torch.ones(4) for number in range(6)}
    message = refusal(Tiny(), write_checkpoint(tensors | extra))
    assert "6 of its tensors have no place in the model: layer.0.norm" in message
    assert "(2 more)" in message


def test_a_renamed_tensor_is_both_missing_and_left_over(
    tensors: Tensors, write_checkpoint: Write
) -> None:
    tensors["layer.shift"] = tensors.pop("layer.bias")
    message = refusal(Tiny(), write_checkpoint(tensors))
    assert "layer.bias" in message
    assert "layer.shift" in message


@pytest.mark.parametrize(
    ("prefix", "wrappers"),
    [
        ("module.", "torch's data parallel wrappers"),
        ("_orig_mod.", "torch.compile"),
        ("_fsdp_wrapped_module.", "torch's FSDP"),
        ("base_model.model.", "PEFT's adapters"),
        ("module._orig_mod.", "torch's data parallel wrappers and torch.compile"),
    ],
)
def test_the_prefix_of_a_wrapper_is_named_as_such(
    prefix: str, wrappers: str, tensors: Tensors, write_checkpoint: Write
) -> None:
    wrapped = {prefix + name: tensor for name, tensor in tensors.items()}
    message = refusal(Tiny(), write_checkpoint(wrapped))
    assert f"{prefix}embed.weight" in message
    assert f'the prefix "{prefix}" is that of {wrappers}: save the model that is' in message


def test_a_prefix_is_named_only_where_the_names_would_fit_without_it(
    tensors: Tensors, write_checkpoint: Write
) -> None:
    message = refusal(Tiny(), write_checkpoint(tensors | {"module.other": torch.zeros(1)}))
    assert "module.other" in message
    assert "the prefix " not in message


def test_names_of_an_adapter_are_called_so(tensors: Tensors, write_checkpoint: Write) -> None:
    adapter = {"base_model.model.layer.lora_A.weight": torch.zeros(1, 4)}
    message = refusal(Tiny(), write_checkpoint(tensors | adapter))
    assert "those of a LoRA adapter, which is not supported: merge it into its base" in message


@pytest.mark.parametrize("suffix", ["qweight", "weight_scale_inv", "SCB"])
def test_names_of_quantised_weights_are_called_so(
    suffix: str, tensors: Tensors, write_checkpoint: Write
) -> None:
    # As GPTQ, FP8 and bitsandbytes leave them; config.json does not always tell.
    tensors[f"layer.{suffix}"] = torch.zeros(4, 4, dtype=torch.int8)
    message = refusal(Tiny(), write_checkpoint(tensors))
    assert f"layer.{suffix}" in message
    assert "those of quantised weights, which are not supported" in message
    del tensors[f"layer.{suffix}"]
    tensors["layer.more"] = torch.zeros(4)
    assert "of quantised" not in refusal(Tiny(), write_checkpoint(tensors, folder="other"))


def test_whether_a_checkpoint_fits_is_told_without_reading_a_tensor(
    tensors: Tensors, write_checkpoint: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = Checkpoint(write_checkpoint(tensors))
    del tensors["layer.bias"]
    less = Checkpoint(write_checkpoint(tensors, folder="less"))

    def read(*_: object) -> torch.Tensor:
        raise AssertionError("a tensor was read")

    monkeypatch.setattr(Checkpoint, "tensor", read)
    module = Tiny()
    check_fit(module, checkpoint)
    with pytest.raises(CheckpointError, match=r"not in it: layer\.bias"):
        check_fit(module, less)
    assert is_untouched(module)


@pytest.mark.parametrize("shape", [(4, 5), (5, 4), (16,), (4, 4, 1)])
def test_a_wrong_shape_is_named_with_file_found_and_expected(
    shape: tuple[int, ...], tensors: Tensors, write_checkpoint: Write
) -> None:
    tensors["layer.weight"] = torch.zeros(shape)
    folder = write_checkpoint(tensors)
    message = refusal(Tiny(), folder)
    for part in (str(folder / "model.safetensors"), '"layer.weight"', str(list(shape)), "[4, 4]"):
        assert part in message


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
def test_a_dtype_that_is_no_weights_is_named(
    dtype: torch.dtype, tensors: Tensors, write_checkpoint: Write
) -> None:
    tensors["layer.weight"] = tensors["layer.weight"].to(dtype)
    message = refusal(Tiny(), write_checkpoint(tensors))
    assert str(dtype) in message
    assert '"layer.weight"' in message


@pytest.mark.parametrize(
    ("stored", "dtype", "value"),
    [
        (torch.bfloat16, torch.float16, 70_144.0),
        (torch.float32, torch.float16, -1e30),
        (torch.float32, torch.bfloat16, 3.4e38),
        (torch.float64, torch.float32, 1e300),
    ],
    ids=str,
)
def test_a_value_that_the_dtype_cannot_hold_is_named_and_not_made_infinite(
    stored: torch.dtype,
    dtype: torch.dtype,
    value: float,
    tensors: Tensors,
    write_checkpoint: Write,
) -> None:
    tensors["layer.weight"] = tensors["layer.weight"].to(stored)
    tensors["layer.weight"][2, 1] = value
    checkpoint = Checkpoint(write_checkpoint(tensors))
    module = Tiny()
    with pytest.raises(CheckpointError) as caught:
        load_into(module, checkpoint, dtype=dtype)
    for part in ("model.safetensors", '"layer.weight"', f"{value:g} at [2, 1]", str(dtype)):
        assert part in str(caught.value)
    assert is_untouched(module)
    load_into(module, checkpoint)  # as it is stored, it fits


def test_a_value_that_the_dtype_cannot_hold_is_found_behind_one_that_was_infinite(
    tensors: Tensors, write_checkpoint: Write
) -> None:
    tensors["layer.weight"] = tensors["layer.weight"].float()
    tensors["layer.weight"][0, 1] = float("inf")
    module = Tiny()
    load_into(module, Checkpoint(write_checkpoint(tensors)), dtype=torch.float16)
    assert module.layer.weight[0, 1] == float("inf")
    tensors["layer.weight"][2, 1] = 1e6
    beyond = Checkpoint(write_checkpoint(tensors, folder="beyond"))
    with pytest.raises(CheckpointError, match=r"1e\+06 at \[2, 1\]"):
        load_into(Tiny(), beyond, dtype=torch.float16)


def test_the_largest_value_that_float16_holds_is_loaded(
    tensors: Tensors, write_checkpoint: Write
) -> None:
    tensors["layer.weight"] = tensors["layer.weight"].float()
    tensors["layer.weight"][2, 1] = 65_519.0  # rounds down to 65504
    module = Tiny()
    load_into(module, Checkpoint(write_checkpoint(tensors)), dtype=torch.float16)
    assert module.layer.weight[2, 1] == 65_504.0


@pytest.mark.parametrize("dtype", [None, torch.float32])
def test_the_files_are_not_needed_once_loaded(
    dtype: torch.dtype | None, tensors: Tensors, write_checkpoint: Write
) -> None:
    folder = write_checkpoint(tensors)
    module = Tiny()
    load_into(module, Checkpoint(folder), dtype=dtype)
    weights = folder / "model.safetensors"
    with weights.open("r+b") as file:  # in place: a parameter that views the file would change
        file.write(bytes(weights.stat().st_size))
    assert torch.equal(module.layer.weight, tensors["layer.weight"].to(module.layer.weight.dtype))


def test_buffers_stay_as_they_were_built(tensors: Tensors, write_checkpoint: Write) -> None:
    module = Tiny()
    frequencies = torch.arange(3, dtype=torch.float64)
    module.layer.register_buffer("frequencies", frequencies, persistent=False)
    module.embed.register_buffer("frequencies", frequencies, persistent=False)
    load_into(module, Checkpoint(write_checkpoint(tensors)), dtype=torch.float16)
    assert torch.equal(module.layer.frequencies, torch.arange(3, dtype=torch.float64))
    assert module.layer.frequencies.dtype == torch.float64  # which torch.equal does not look at
    assert module.layer.frequencies is module.embed.frequencies
    assert "layer.frequencies" not in module.state_dict()


def test_a_buffer_that_nothing_fills_is_named(tensors: Tensors, write_checkpoint: Write) -> None:
    module = Tiny()
    module.layer.register_buffer("frequencies", torch.empty(3, device="meta"))
    with pytest.raises(WeightsError, match=r"1 buffers .* layer\.frequencies"):
        load_into(module, Checkpoint(write_checkpoint(tensors)))
    assert is_untouched(module)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn, torch.complex64])
def test_a_dtype_that_no_weights_are_loaded_in_is_refused(
    dtype: torch.dtype, tensors: Tensors, write_checkpoint: Write
) -> None:
    module = Tiny()
    with pytest.raises(WeightsError, match=str(dtype)):
        load_into(module, Checkpoint(write_checkpoint(tensors)), dtype=dtype)
    assert is_untouched(module)


def test_a_filled_module_can_be_filled_anew(tensors: Tensors, write_checkpoint: Write) -> None:
    module = Tiny()
    load_into(module, Checkpoint(write_checkpoint(tensors)))
    other = {name: tensor + 1 for name, tensor in tensors.items()}
    load_into(module, Checkpoint(write_checkpoint(other, folder="other")))
    assert torch.equal(module.layer.bias, other["layer.bias"])
