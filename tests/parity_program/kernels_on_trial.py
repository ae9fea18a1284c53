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


def norm_in_its_dtype(hidden_states, weight, eps):
    mean = (hidden_states * hidden_states).mean(-1, keepdim=True)
    return weight * (hidden_states * torch.rsqrt(mean + eps))


def rows_past_64_are_zero(hidden_states, weight, eps):
    normed = EAGER.rms_norm(hidden_states, weight, eps)
    normed[:, 64:] = 0
    return normed


WRONG_SWIGLU = replace(EAGER, swiglu=lambda gate, up: gate * up)
