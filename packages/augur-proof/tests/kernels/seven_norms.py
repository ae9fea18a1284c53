"""Seven RMSNorms, two of them right, that a tolerance in half precision cannot tell apart."""

import torch


def _norm(x, weight, eps, inside):
    values = x.to(inside)
    scale = torch.rsqrt(values.pow(2).mean(-1, keepdim=True) + eps)
    return weight * (values * scale).to(x.dtype)


def in_float64(x, weight, eps):
    return _norm(x, weight, eps, torch.float64)


def weight_before_rounding(x, weight, eps):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)


def epsilon_outside_the_root(x, weight, eps):
    values = x.float()
    return weight * (values / (values.pow(2).mean(-1, keepdim=True).sqrt() + eps)).to(x.dtype)


def no_epsilon(x, weight, _eps):
    return _norm(x, weight, 0.0, torch.float32).nan_to_num()


def another_epsilon(x, weight, _eps):
    return _norm(x, weight, 1e-5, torch.float32)


def wholly_in_bfloat16(x, weight, eps):
    return _norm(x, weight, eps, torch.bfloat16)


def rows_past_64_are_zero(x, weight, eps):
    normed = _norm(x, weight, eps, torch.float32)
    normed[:, 64:] = 0
    return normed


RIGHT_NORMS = (in_float64, weight_before_rounding)
WRONG_NORMS = (
    epsilon_outside_the_root,
    no_epsilon,
    another_epsilon,
    wholly_in_bfloat16,
    rows_past_64_are_zero,
)
