"""Tensors that would fit but for what a wrapper around the model put before their names."""

from collections.abc import Collection

# A wrapper names the model as a part of itself, and so do the names of the tensors that it saves.
_WRAPPERS = {
    "module.": "torch's data parallel wrappers",
    "_orig_mod.": "torch.compile",
    "_fsdp_wrapped_module.": "torch's FSDP",
    "base_model.model.": "PEFT's adapters",
}

_ADAPTER_MARKS = (".lora_A.", ".lora_B.", ".lora_embedding_", ".lora_magnitude_vector")


def wrapper_fault(names: Collection[str], expected: Collection[str]) -> str | None:
    """Say that names are a wrapper's, or an adapter's, and what to do; else ``None``.

    Args:
        names: of tensors that have no place in the model.
        expected: the names that the model has.
    """
    if any(mark in name for mark in _ADAPTER_MARKS for name in names):
        return (
            "such names are those of a LoRA adapter, which is not supported: merge it into its "
            "base model (PEFT's merge_and_unload) and save that"
        )
    for name in sorted(names):
        prefix, wrappers = _wrapping(name)
        if prefix and name.removeprefix(prefix) in expected:
            return (
                f'the prefix "{prefix}" is that of {" and ".join(wrappers)}: save the model that '
                "is wrapped, or take the prefix off the names"
            )
    return None


def _wrapping(name: str) -> tuple[str, list[str]]:
    """The prefixes at the beginning of a name, and whose they are."""
    prefix, wrappers = "", []
    rest = name
    while found := next((it for it in _WRAPPERS if rest.startswith(it)), None):
        prefix, rest = prefix + found, rest.removeprefix(found)
        wrappers.append(_WRAPPERS[found])
    return prefix, wrappers
