"""Kernels that the program is asked to judge."""

from dataclasses import replace

import torch

from augur_model import EAGER


def right(hidden_states, weight, eps):
    return torch.nn.functional.rms_norm(hidden_states, weight.shape, weight, eps)


def epsilon_outside(hidden_states, weight, eps):
    values = hidden_states.float()
    root = values.pow(2).mean(-1, keepdim=True).sqrt()
    return weight * (values / (root + eps)).to(hidden_states.dtype)


def two_arguments(hidden_states, weight):
    return hidden_states * weight


def rows_past_64_are_zero(hidden_states, weight, eps):
    normed = EAGER.rms_norm(hidden_states, weight, eps)
    normed[:, 64:] = 0
    return normed


RIGHT_NORM = replace(EAGER, rms_norm=right)
WRONG_NORM = replace(EAGER, rms_norm=rows_past_64_are_zero)
WRONG_SWIGLU = replace(EAGER, swiglu=lambda gate, up: gate * up)
