"""Right implementations, each in another way than the plain op: all are to be accepted."""

import torch
from torch.nn import functional

from augur_model.ops import (
    causal_mask,
    eager_attention,
    eager_f32_attention,
    fused_paged_attention,
    repeat_kv,
    rotate_half,
    sdpa_attention,
)
from augur_proof.kernels.linear import dequantise_int4, dequantise_int8


def norm_in_float64(x, weight, eps):
    values = x.double()
    mean = values.pow(2).mean(-1, keepdim=True)
    return (values / (mean + eps).sqrt() * weight.double()).to(x.dtype)


def norm_by_torch(x, weight, eps):
    return functional.rms_norm(x, weight.shape, weight, eps)


def norm_of_a_scaled_row(x, weight, eps):
    """Divided by its largest value first, so that no square overflows."""
    values = x.float()
    largest = values.abs().amax(-1, keepdim=True).clamp(min=1e-30)
    mean = (values / largest).pow(2).mean(-1, keepdim=True)
    root = largest * (mean + eps / largest / largest).sqrt()
    # A row of zeros, or nearly: epsilon alone is under the root.
    root = torch.where(largest > 1e-15, root, torch.tensor(eps, device=x.device).sqrt())
    return weight * (values / root).to(x.dtype)


def norm_summed_one_after_another(x, weight, eps):
    total = x.float().pow(2).cumsum(-1)[..., -1:]
    return weight * (x.float() * torch.rsqrt(total / x.shape[-1] + eps)).to(x.dtype)


def norm_summed_in_blocks(x, weight, eps):
    blocks = functional.pad(x.float().pow(2), (0, -x.shape[-1] % 128)).unflatten(-1, (-1, 128))
    mean = blocks.sum(-1).sum(-1, keepdim=True) / x.shape[-1]
    return (x.float() * (mean + eps).pow(-0.5) * weight.float()).to(x.dtype)


def norm_backwards(x, weight, eps):
    mean = x.float().flip(-1).pow(2).mean(-1, keepdim=True)
    return weight * (x.float() * (mean + eps).rsqrt()).to(x.dtype)


def add_norm_in_float32(x, residual, weight, eps):
    summed = x.float() + residual.float()
    return norm_summed_in_blocks(summed, weight.float(), eps).to(x.dtype), summed.to(x.dtype)


def add_norm_in_two_steps(x, residual, weight, eps):
    summed = residual + x
    return norm_by_torch(summed, weight, eps), summed


def rope_in_float32(heads, cos, sin):
    cos, sin = cos.float().unsqueeze(1), sin.float().unsqueeze(1)
    return (heads.float() * cos + rotate_half(heads.float()) * sin).to(heads.dtype)


def rope_of_complex_numbers(heads, cos, sin):
    half = heads.shape[-1] // 2
    numbers = torch.complex(heads[..., :half].float(), heads[..., half:].float())
    turned = numbers * torch.complex(cos[..., :half].float(), sin[..., :half].float())[:, None]
    return torch.cat((turned.real, turned.imag), -1).to(heads.dtype)


def rope_by_halves(heads, cos, sin):
    half = heads.shape[-1] // 2
    first, second = heads[..., :half], heads[..., half:]
    cos, sin = cos[:, None, :, :half], sin[:, None, :, :half]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def swiglu_in_float32(gate, up):
    return (gate.float() * torch.sigmoid(gate.float()) * up.float()).to(gate.dtype)


def swiglu_by_base_two(gate, up):
    """exp2 of a rounded product, as GPUs do it."""
    values = gate.float()
    return (values / (1 + torch.exp2(values * -1.4426950408889634)) * up.float()).to(gate.dtype)


def linear_in_float32(x, weight, bias):
    return functional.linear(x.float(), weight.float(), None if bias is None else bias.float()).to(
        x.dtype
    )


def linear_split_over_the_sum(x, weight, bias):
    half = x.shape[-1] // 2
    product = x[..., :half].float() @ weight[:, :half].float().T
    product = product + x[..., half:].float() @ weight[:, half:].float().T
    return (product if bias is None else product + bias).to(x.dtype)


def linear_by_columns_of_64(x, weight, bias):
    total = torch.zeros(*x.shape[:-1], weight.shape[0])
    for start in range(0, x.shape[-1], 64):
        stop = start + 64
        total += x[..., start:stop].float() @ weight[:, start:stop].float().T
    return (total if bias is None else total + bias.float()).to(x.dtype)


def int8_scaled_after_the_sum(x, codes, scales):
    return (x.float() @ codes.float().T * scales).to(x.dtype)


def int8_in_float32(x, codes, scales):
    return functional.linear(x.float(), dequantise_int8(codes, scales)).to(x.dtype)


def int4_in_float32(x, codes, scales):
    return functional.linear(x.float(), dequantise_int4(codes, scales)).to(x.dtype)


def attention_in_chunks(query, key, value, mask, scale):
    """Softmax with a running maximum over chunks of 64 keys, in float32."""
    groups = query.shape[1] // key.shape[1]
    key, value = repeat_kv(key, groups).float(), repeat_kv(value, groups).float()
    if mask is None:
        mask = causal_mask(query.shape[2], key.shape[2], query.device)
    largest = torch.full((*query.shape[:3], 1), -torch.inf)
    total, summed = torch.zeros(*query.shape[:3], 1), torch.zeros(query.shape)
    for start in range(0, key.shape[2], 64):
        chunk = slice(start, start + 64)
        scores = query.float() @ key[:, :, chunk].transpose(2, 3) * scale
        scores = scores.masked_fill(~mask.expand(*mask.shape)[..., chunk], -torch.inf)
        new = torch.maximum(largest, scores.amax(-1, keepdim=True))
        shift = new.masked_fill(new.isinf(), 0)
        weights, keep = (scores - shift).exp(), (largest - shift).exp()
        total = total * keep + weights.sum(-1, keepdim=True)
        summed = summed * keep + weights @ value[:, :, chunk]
        largest = new
    return (summed / total).to(query.dtype)


def attention_with_rounded_weights(query, key, value, mask, scale):
    """Scores in float32, weights rounded for the tensor cores before they are divided."""
    groups = query.shape[1] // key.shape[1]
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    if mask is None:
        mask = causal_mask(query.shape[2], key.shape[2], query.device)
    scores = (query.float() @ key.float().transpose(2, 3) * scale).masked_fill(~mask, -torch.inf)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    summed = weights.to(query.dtype).float() @ value.float()
    return (summed / weights.sum(-1, keepdim=True)).to(query.dtype)


def attention_with_scaled_queries(query, key, value, mask, scale):
    return eager_attention(query.float() * scale, key.float(), value.float(), mask, 1.0).to(
        query.dtype
    )


def paged_attention_in_float32(query, keys, values, pages, scale, window, _attention):
    """The keys of each sequence gathered whole, and what is outside the window masked."""
    attended, start = [], 0
    for count, length, table in zip(pages.counts, pages.lengths, pages.tables, strict=True):
        key, value = (b[table].flatten(0, 1)[:length].transpose(0, 1)[None] for b in (keys, values))
        places = torch.arange(length)
        at = places[length - count :, None]
        seen = (places <= at) & (places > at - (window or length + 1))
        part = query[:, :, start : start + count]
        attended.append(attention_in_chunks(part, key, value, seen[None, None], scale))
        start += count
    return torch.cat(attended, dim=2)


def greedy_by_max(logits):
    return logits.max(-1).indices


def greedy_by_sorting(logits):
    return logits.float().topk(1).indices[:, 0]


def sampled_by_largest_noise(logits, temperature, top_k, top_p):
    """The largest of the logits with Gumbel's noise added, among those that are kept."""
    values, places = (logits.float() / temperature).topk(top_k)
    probabilities = values.softmax(-1)
    values = values.masked_fill(probabilities.cumsum(-1) - probabilities > top_p, -torch.inf)
    noise = -torch.empty_like(values).exponential_().log()
    return places.gather(1, (values + noise).argmax(-1, keepdim=True))[:, 0]


RIGHT: dict[str, list] = {
    "rms_norm": [
        norm_in_float64,
        norm_by_torch,
        norm_of_a_scaled_row,
        norm_summed_one_after_another,
        norm_summed_in_blocks,
        norm_backwards,
    ],
    "add_rms_norm": [add_norm_in_float32, add_norm_in_two_steps],
    "apply_rope": [rope_in_float32, rope_of_complex_numbers, rope_by_halves],
    "swiglu": [swiglu_in_float32, swiglu_by_base_two],
    "linear": [
        functional.linear,
        linear_in_float32,
        linear_split_over_the_sum,
        linear_by_columns_of_64,
    ],
    "int8_linear": [int8_scaled_after_the_sum, int8_in_float32],
    "int4_linear": [int4_in_float32],
    "attention": [
        eager_f32_attention,
        sdpa_attention,
        attention_in_chunks,
        attention_with_rounded_weights,
        attention_with_scaled_queries,
    ],
    "paged_attention": [fused_paged_attention, paged_attention_in_float32],
    "greedy_token": [greedy_by_max, greedy_by_sorting],
    "sampled_token": [sampled_by_largest_noise],
}
