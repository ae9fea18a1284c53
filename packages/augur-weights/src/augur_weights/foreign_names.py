"""What the names of tensors tell that have no place in a model."""

from collections.abc import Collection

# A wrapper names the model as a part of itself, and so do the names of the tensors that it saves.
_WRAPPERS = {
    "module.": "torch's data parallel wrappers",
    "_orig_mod.": "torch.compile",
    "_fsdp_wrapped_module.": "torch's FSDP",
    "base_model.model.": "PEFT's adapters",
}

_ADAPTER_MARKS = (".lora_A.", ".lora_B.", ".lora_embedding_", ".lora_magnitude_vector")

# What GPTQ, AWQ, bitsandbytes, compressed-tensors and FP8 checkpoints keep beside or in place of a
# weight. Not all of them say in config.json what they are.
_QUANTIZED_SUFFIXES = (
    ".qweight", ".qzeros", ".scales", ".g_idx", ".absmax", ".SCB", ".weight_packed",
    ".weight_scale", ".weight_scale_inv",
)  # fmt: skip


def foreign_faults(names: Collection[str], expected: Collection[str]) -> list[str]:
    """What to say of names that are those of quantised weights, an adapter or a wrapper.

    Args:
        names: of tensors that have no place in the model, sorted.
        expected: the names that the model has.
    """
    faults = []
    if any(name.endswith(_QUANTIZED_SUFFIXES) for name in names):
        faults.append("such names are those of quantised weights, which are not supported")
    if any(mark in name for mark in _ADAPTER_MARKS for name in names):
        return [
            *faults,
            "such names are those of a LoRA adapter, which is not supported: merge it into its "
            "base model (PEFT's merge_and_unload) and save that",
        ]
    for name in names:
        rest, wrappers = name, []
        while prefix := next((it for it in _WRAPPERS if rest.startswith(it)), None):
            rest = rest.removeprefix(prefix)
            wrappers.append(_WRAPPERS[prefix])
        if wrappers and rest in expected:
            faults.append(
                f'the prefix "{name.removesuffix(rest)}" is that of {" and ".join(wrappers)}: save '
                "the model that is wrapped, or take the prefix off the names"
            )
            break
    return faults
