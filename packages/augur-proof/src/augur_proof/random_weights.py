"""Random weights under which every part of a decoder leaves a mark on the logits."""

import torch
from torch import nn

_BIAS_SCALE = 1.0
_NORM_SPREAD = 0.5
# Keeps logits around 1, where the tolerances for half precision were made for them to be.
_HEAD_SCALE = 0.5


def fill_randomly(module: nn.Module, *, seed: int, embedding_scale: float = 0.1) -> None:
    """Overwrite all parameters in place.

    Matrices keep the size of what passes through them. Biases are as large as the values that they
    are added to, and norm weights differ from 1 and from each other, so that neither can be
    forgotten unseen.

    Args:
        module: transformers' modules, or any with the same parameter names.
        seed: of the generator.
        embedding_scale: standard deviation of the embedding. A small one brings the mean square
            that the first norm sees near its epsilon.
    """
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        values = torch.randn(parameter.shape, generator=generator)
        if name.endswith("embed_tokens.weight"):
            values *= embedding_scale
        elif name.endswith("bias"):
            values *= _BIAS_SCALE
        elif parameter.dim() == 1:
            values = 1 + _NORM_SPREAD * values
        elif name.endswith("lm_head.weight"):
            values *= _HEAD_SCALE * parameter.shape[1] ** -0.5
        else:
            values *= parameter.shape[1] ** -0.5
        parameter.data.copy_(values)
