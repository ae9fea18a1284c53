"""Linear layers that hold something else than a float matrix."""

from collections.abc import Callable

from torch import nn

from augur_model.layers import Linear


def replace_linears(model: nn.Module, make: Callable[[str, Linear], nn.Module | None]) -> list[str]:
    """Put other modules in the place of linear layers, the LM head's among them.

    A module in a linear's place has its `forward(hidden_states, ops)`: `[..., in_features]` in the
    model's dtype to `[..., out_features]` in the same. What it holds is its own affair. A tied head
    that is replaced is no longer tied: the embedding stays as it is.

    Args:
        model: a `QwenForCausalLM`, or a part of one; changed in place.
        make: is given each layer's name in the model and the layer, and gives what takes its
            place; None leaves it.

    Returns:
        the names of what was replaced.
    """
    linears = [(name, part) for name, part in model.named_modules() if isinstance(part, Linear)]
    replaced = []
    for name, linear in linears:
        module = make(name, linear)
        if module is not None:
            model.set_submodule(name, module)
            replaced.append(name)
    return replaced
