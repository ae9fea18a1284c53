"""Kernels that are wrong in one plausible way each: all are to be rejected.

Each is named with the place or the words that its verdict must hold.
"""

from dataclasses import replace

import torch
from torch.nn import functional

from augur_model.ops import (
    apply_rope,
    causal_mask,
    eager_attention,
    gathered_paged_attention,
    repeat_kv,
    rms_norm,
    rotate_half,
    swiglu,
)
from augur_proof.kernels.linear import dequantise_int4, dequantise_int8
from augur_proof.kernels.rms_norm import add_rms_norm
from augur_proof.kernels.sampling import sampled_token


def epsilon_outside_the_root(x, weight, eps):
    values = x.float()
    return weight * (values / (values.pow(2).mean(-1, keepdim=True).sqrt() + eps)).to(x.dtype)


def no_epsilon(x, weight, _eps):
    return rms_norm(x, weight, 1e-30)


def another_epsilon(x, weight, _eps):
    return rms_norm(x, weight, 1e-5)


def norm_in_its_dtype(x, weight, eps):
    squares = (x * x).mean(-1, keepdim=True, dtype=x.dtype)
    if x.dtype == torch.float32:  # as bfloat16 inside would be
        squares = squares.bfloat16().float()
    return weight * (x * torch.rsqrt(squares + eps))


def mean_over_one_less(x, weight, eps):
    values, width = x.float(), x.shape[-1]
    mean = values.pow(2).sum(-1, keepdim=True) / (width - 1)
    return weight * (values * torch.rsqrt(mean + eps)).to(x.dtype)


def rows_past_64_are_zero(x, weight, eps):
    normed = rms_norm(x, weight, eps)
    normed[:, 64:] = 0
    return normed


def weight_left_out(x, weight, eps):
    return rms_norm(x, torch.ones_like(weight), eps)


def weight_plus_one(x, weight, eps):
    return rms_norm(x, weight + 1, eps)


def last_element_not_summed(x, weight, eps):
    values = x.float()
    mean = values[..., :-1].pow(2).sum(-1, keepdim=True) / x.shape[-1]
    return weight * (values * torch.rsqrt(mean + eps)).to(x.dtype)


def last_element_not_written(x, weight, eps):
    out = torch.empty_like(x)
    out[..., :-1] = rms_norm(x, weight, eps)[..., :-1]
    return out


def summed_over_whole_blocks(x, weight, eps):
    """Loads past the row's end are not masked away but wrap to its start."""
    values = x.float()
    beyond = -x.shape[-1] % 256
    total = values.pow(2).sum(-1, keepdim=True) + values[..., :beyond].pow(2).sum(-1, keepdim=True)
    return weight * (values * torch.rsqrt(total / x.shape[-1] + eps)).to(x.dtype)


def squares_overflow(x, weight, eps):
    values = x.half().float() if x.dtype == torch.float16 else x.float()
    squares = values.pow(2).clamp(max=65504)
    return weight * (values * torch.rsqrt(squares.mean(-1, keepdim=True) + eps)).to(x.dtype)


def reciprocal_root_to_11_bits(x, weight, eps):
    values = x.float()
    root = torch.rsqrt(values.pow(2).mean(-1, keepdim=True) + eps).half().float()
    return weight * (values * root).to(x.dtype)


def truncated_not_rounded(x, weight, eps):
    bits = {torch.float32: 3, torch.float16: 13, torch.bfloat16: 16}[x.dtype]
    whole = rms_norm(x.float(), weight.float(), eps).view(torch.int32)
    return (whole >> bits << bits).view(torch.float32).to(x.dtype)


def second_batch_row_wrong(x, weight, eps):
    normed = rms_norm(x, weight, eps)
    if len(x) > 1:
        normed[1] = normed[0]
    return normed


def wrong_beyond_row_4096(x, weight, eps):
    normed = rms_norm(x, weight, eps)
    normed[:, 4096:] *= 1.05
    return normed


def strides_ignored(x, weight, eps):
    """Reads memory as if the tensor were packed."""
    packed = x.as_strided(x.shape, (x.shape[1] * x.shape[2], x.shape[2], 1))
    return rms_norm(packed, weight, eps)


def writes_one_past_the_end(x, weight, eps):
    out = torch.empty_like(x)
    out.copy_(rms_norm(x, weight, eps))
    out.as_strided((1,), (1,), out.storage_offset() + out.numel()).fill_(1)
    return out


def changes_its_input(x, weight, eps):
    normed = rms_norm(x, weight, eps)
    x.mul_(2)
    return normed


def writes_beside_its_input(x, weight, eps):
    x.as_strided((1,), (1,), x.storage_offset() - 1).fill_(1)
    return rms_norm(x, weight, eps)


def answers_in_the_inputs_memory(x, weight, eps):
    return x.copy_(rms_norm(x, weight, eps))


class KeepsTheFirstAnswer:
    """Cached by shape."""

    __name__ = "KeepsTheFirstAnswer"

    def __init__(self):
        self.answers = {}

    def __call__(self, x, weight, eps):
        key = (x.shape, x.dtype, x.stride(), eps)
        if key not in self.answers:
            self.answers = {key: rms_norm(x, weight, eps)}
        return self.answers[key].clone()


class ReusesItsOutput:
    __name__ = "ReusesItsOutput"

    def __init__(self):
        self.out = torch.empty(0)

    def __call__(self, x, weight, eps):
        if (self.out.shape, self.out.dtype) != (x.shape, x.dtype):
            self.out = torch.empty_like(x)
        return self.out.copy_(rms_norm(x, weight, eps))


def not_the_same_twice(x, weight, eps):
    normed = rms_norm(x, weight, eps)
    place = int(torch.randint(normed.numel(), (), dtype=torch.int64))
    flat = normed.reshape(-1)
    flat[place] = torch.nextafter(flat[place].float(), torch.tensor(1e30)).to(x.dtype) * 1.01
    return flat.view(x.shape)


def in_float32_only(x, weight, eps):
    return rms_norm(x.float(), weight.float(), eps)


def transposed_shape(x, weight, eps):
    return rms_norm(x, weight, eps).transpose(0, 1).contiguous()


class Tensor2(torch.Tensor):
    pass


def of_another_class(x, weight, eps):
    return rms_norm(x, weight, eps).as_subclass(Tensor2)


def residual_left_out(x, _residual, weight, eps):
    return rms_norm(x, weight, eps), x.clone()


def sum_not_given_back(x, residual, weight, eps):
    return add_rms_norm(x, residual, weight, eps)[0], residual.clone()


def sum_rounded_down(x, residual, weight, eps):
    normed, _ = add_rms_norm(x, residual, weight, eps)
    exact = x.double() + residual.double()
    summed = exact.to(x.dtype)
    too_large = summed.double() > exact
    below = torch.where(
        too_large, summed.double() * (1 - torch.finfo(x.dtype).eps), summed.double()
    )
    return normed, below.to(x.dtype)


def halves_not_negated(heads, cos, sin):
    return heads * cos[:, None] + rotate_half(heads).abs() * sin[:, None]


def wrong_half_negated(heads, cos, sin):
    return heads * cos[:, None] - rotate_half(heads) * sin[:, None]


def neighbours_rotated(heads, cos, sin):
    half = heads.shape[-1] // 2
    cos, sin = cos[:, None, :, :half], sin[:, None, :, :half]
    even, odd = heads[..., ::2], heads[..., 1::2]
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(-2)


def tables_of_the_first_row(heads, cos, sin):
    return apply_rope(heads, cos[:1], sin[:1])


def tables_one_position_late(heads, cos, sin):
    return apply_rope(heads, cos.roll(1, dims=1), sin.roll(1, dims=1))


def tables_in_8_bits(heads, cos, sin):
    return apply_rope(heads, (cos * 127).round() / 127, (sin * 127).round() / 127)


def wrong_beyond_position_4096(heads, cos, sin):
    rotated = apply_rope(heads, cos, sin)
    rotated[:, :, 4096:] = heads[:, :, 4096:]
    return rotated


def last_head_not_rotated(heads, cos, sin):
    rotated = apply_rope(heads, cos, sin)
    rotated[:, -1] = heads[:, -1]
    return rotated


def gelu_for_silu(gate, up):
    return functional.gelu(gate) * up


def gate_and_up_swapped(gate, up):
    return swiglu(up, gate)


def sigmoid_to_8_bits(gate, up):
    sigmoid = (torch.sigmoid(gate.float()) * 255).round() / 255
    return (gate.float() * sigmoid * up.float()).to(gate.dtype)


def exponential_overflows(gate, up):
    exponential = (-gate.float()).exp()
    exponential = exponential.masked_fill(exponential > 65504, torch.inf)
    return (gate.float() * up.float() / (1 + exponential)).to(gate.dtype)


def last_column_of_an_odd_width(gate, up):
    out = swiglu(gate, up)
    if gate.shape[-1] % 2:
        out[..., -1] = 0
    return out


def bias_left_out(x, weight, _bias):
    return functional.linear(x, weight)


def bias_twice(x, weight, bias):
    return functional.linear(x, weight, None if bias is None else bias + bias)


def last_product_left_out(x, weight, bias):
    return functional.linear(x[..., :-1], weight[:, :-1], bias)


def summed_in_half_precision(x, weight, bias):
    """A total that is rounded after each block of 16 products."""
    half = torch.bfloat16 if x.dtype != torch.float16 else torch.float16
    total = torch.zeros(*x.shape[:-1], weight.shape[0], dtype=half)
    for start in range(0, x.shape[-1], 16):
        block = slice(start, start + 16)
        total += (x[..., block].float() @ weight[:, block].float().T).to(half)
    return (total if bias is None else total + bias).to(x.dtype)


def last_column_stale(x, weight, bias):
    out = torch.empty(*x.shape[:-1], weight.shape[0], dtype=x.dtype)
    out[..., :-1] = functional.linear(x, weight, bias)[..., :-1]
    return out


def scales_of_the_neighbour(x, codes, scales):
    return functional.linear(x, dequantise_int8(codes, scales.roll(1)).to(x.dtype))


def scales_to_8_bits(x, codes, scales):
    return functional.linear(x, dequantise_int8(codes, scales.bfloat16().float()).to(x.dtype))


def halves_of_a_byte_swapped(x, codes, scales):
    return functional.linear(x, dequantise_int4(codes << 4 | codes >> 4, scales).to(x.dtype))


def zero_point_seven(x, codes, scales):
    weight = dequantise_int4(codes, scales) + scales.repeat_interleave(32, dim=1)
    return functional.linear(x, weight.to(x.dtype))


def stale_group_scale(x, codes, scales):
    """The last group of a row is scaled as the one before."""
    stale = torch.cat((scales[:, :-1], scales[:, -2:-1]), dim=1)
    return functional.linear(x, dequantise_int4(codes, stale).to(x.dtype))


def _mask(query, key, mask):
    return causal_mask(query.shape[2], key.shape[2], query.device) if mask is None else mask


def heads_tiled(query, key, value, mask, scale):
    tiles = (1, query.shape[1] // key.shape[1], 1, 1)
    return eager_attention(query, key.repeat(tiles), value.repeat(tiles), mask, scale)


def mask_one_too_far(query, key, value, _mask, scale):
    seen = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool)
    return eager_attention(query, key, value, seen.tril(key.shape[2] - query.shape[2] + 1), scale)


def own_token_not_seen(query, key, value, mask, scale):
    seen = _mask(query, key, mask).clone()
    later = torch.arange(key.shape[2]) >= torch.arange(query.shape[2])[:, None] + (
        key.shape[2] - query.shape[2]
    )
    if key.shape[2] > query.shape[2]:
        seen = seen & ~later
    return eager_attention(query, key, value, seen, scale)


def queries_aligned_left(query, key, value, mask, scale):
    if mask is None and query.shape[2] > 1:
        mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()
    return eager_attention(query, key, value, mask, scale)


def mask_ignored(query, key, value, _mask, scale):
    return eager_attention(query, key, value, None, scale)


def mask_of_the_first_row(query, key, value, mask, scale):
    return eager_attention(query, key, value, None if mask is None else mask[:1], scale)


def scale_left_out(query, key, value, mask, _scale):
    return eager_attention(query, key, value, mask, 1.0)


def no_maximum_subtracted(query, key, value, mask, scale):
    """In float16's range, as a kernel that keeps its exponentials there."""
    groups = query.shape[1] // key.shape[1]
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    scores = (query.float() @ key.float().transpose(2, 3) * scale).masked_fill(
        ~_mask(query, key, mask), -torch.inf
    )
    weights = scores.exp().half().float()
    return (weights @ value.float() / weights.sum(-1, keepdim=True)).to(query.dtype)


def total_in_half_precision(query, key, value, mask, scale):
    """The sum of the weights, a key after another, in bfloat16."""
    groups = query.shape[1] // key.shape[1]
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    scores = (query.float() @ key.float().transpose(2, 3) * scale).masked_fill(
        ~_mask(query, key, mask), -torch.inf
    )
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    total = torch.zeros(weights.shape[:-1], dtype=torch.bfloat16)
    for k in range(weights.shape[-1]):
        total += weights[..., k].bfloat16()
    return (weights @ value.float() / total[..., None].float()).to(query.dtype)


def stale_maximum(query, key, value, mask, scale):
    """The running sum is not rescaled when a later chunk of 64 keys has a larger maximum."""
    groups = query.shape[1] // key.shape[1]
    key, value = repeat_kv(key, groups).float(), repeat_kv(value, groups).float()
    seen = _mask(query, key, mask)
    total, summed = torch.zeros(*query.shape[:3], 1), torch.zeros(query.shape)
    largest = torch.full_like(total, -1e30)
    for start in range(0, key.shape[2], 64):
        chunk = slice(start, start + 64)
        scores = query.float() @ key[:, :, chunk].transpose(2, 3) * scale
        scores = scores.masked_fill(~seen[..., chunk], -torch.inf)
        largest = torch.maximum(largest, scores.amax(-1, keepdim=True))
        weights = (scores - largest).exp()
        total = total + weights.sum(-1, keepdim=True)
        summed = summed + weights @ value[:, :, chunk]
    return (summed / total).to(query.dtype)


def keys_past_4096_left_out(query, key, value, mask, scale):
    mask = None if mask is None else mask[..., -4096:]
    return eager_attention(query, key[:, :, -4096:], value[:, :, -4096:], mask, scale)


def last_key_block_left_out(query, key, value, mask, scale):
    """Only whole blocks of 16 keys are visited, when there is one."""
    whole = max(key.shape[2] // 16 * 16, query.shape[2])
    seen = _mask(query, key, mask)[..., :whole]
    return eager_attention(query, key[:, :, :whole], value[:, :, :whole], seen, scale)


def values_of_the_next_head(query, key, value, mask, scale):
    return eager_attention(query, key, value.roll(1, dims=1), mask, scale)


def _paged(query, keys, values, pages, scale, window, attention, **changes):
    pages = replace(pages, **changes)
    return gathered_paged_attention(query, keys, values, pages, scale, window, attention)


def tables_of_the_first_sequence(query, keys, values, pages, *how):
    tables = pages.tables[:1].expand_as(pages.tables)
    return _paged(query, keys, values, pages, *how, tables=tables)


def newest_token_not_seen(query, keys, values, pages, *how):
    each = zip(pages.lengths, pages.counts, strict=True)
    lengths = tuple(max(length - 1, count) for length, count in each)
    return _paged(query, keys, values, pages, *how, lengths=lengths)


def blocks_in_order_of_memory(query, keys, values, pages, *how):
    return _paged(query, keys, values, pages, *how, tables=pages.tables.sort(dim=1).values)


def tokens_of_a_block_backwards(query, keys, values, pages, *how):
    return _paged(query, keys.flip(1), values.flip(1), pages, *how)


def rest_of_the_last_block_seen(query, keys, values, pages, *how):
    size = keys.shape[1]
    lengths = tuple(-(-length // size) * size for length in pages.lengths)
    return _paged(query, keys, values, pages, *how, lengths=lengths)


def window_left_out(query, keys, values, pages, scale, _window, attention):
    return gathered_paged_attention(query, keys, values, pages, scale, None, attention)


def last_sequence_not_computed(query, keys, values, pages, *how):
    attended = gathered_paged_attention(query, keys, values, pages, *how)
    out = torch.empty_like(attended)
    done = sum(pages.counts[:-1]) or 1
    out[:, :, :done] = attended[:, :, :done]
    return out


def first_token_always_zero(logits):
    found = logits.argmax(-1)
    found[0] = 0
    return found


def maximum_starts_at_zero(logits):
    return logits.clamp(min=0).argmax(-1)


def last_token_not_searched(logits):
    return logits[:, :-1].argmax(-1)


def indices_in_32_bits(logits):
    return logits.argmax(-1).int()


def one_token_too_many(logits, temperature, top_k, top_p):
    return sampled_token(logits, temperature, top_k + 1, top_p)


def temperature_left_out(logits, _temperature, top_k, top_p):
    return sampled_token(logits, 1.0, top_k, top_p)


def the_token_that_crosses_left_out(logits, temperature, top_k, top_p):
    return sampled_token(logits, temperature, top_k, top_p - 0.15)


def all_kept_equally_likely(logits, _temperature, top_k, _top_p):
    kept = logits.float().topk(top_k).indices
    chosen = torch.randint(top_k, (len(kept), 1))
    return kept.gather(1, chosen)[:, 0]


def the_same_each_time(logits, temperature, top_k, top_p):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return sampled_token(logits, temperature, top_k, top_p)


BROKEN = {
    "rms_norm": {
        epsilon_outside_the_root: "epsilon is added outside the root",
        no_epsilon: "there is no epsilon",
        another_epsilon: "epsilon is another number, 1e-5",
        norm_in_its_dtype: "",
        mean_over_one_less: "",
        rows_past_64_are_zero: "row 64",
        weight_left_out: "the weight is left out",
        weight_plus_one: "1 is added to the weight",
        last_element_not_summed: "",
        last_element_not_written: "never written; column",
        summed_over_whole_blocks: "",
        squares_overflow: "",
        reciprocal_root_to_11_bits: "",
        truncated_not_rounded: "too small",
        second_batch_row_wrong: "batch 1",
        wrong_beyond_row_4096: "row 4096 and on",
        strides_ignored: "",
        writes_one_past_the_end: "past the end of its output's memory",
        changes_its_input: "its input hidden_states was changed",
        writes_beside_its_input: "memory around its input hidden_states",
        answers_in_the_inputs_memory: "in the memory of an input",
        KeepsTheFirstAnswer(): "",
        ReusesItsOutput(): "a later call overwrites",
        not_the_same_twice: "different bits",
        in_float32_only: "expected",
        transposed_shape: "expected",
        of_another_class: "Tensor2",
    },
    "add_rms_norm": {
        residual_left_out: "the residual is left out",
        sum_not_given_back: "summed",
        sum_rounded_down: "summed",
    },
    "apply_rope": {
        halves_not_negated: "",
        wrong_half_negated: "it rotates the other way",
        neighbours_rotated: "neighbouring channels are paired",
        tables_of_the_first_row: "batch 1",
        tables_one_position_late: "",
        tables_in_8_bits: "",
        wrong_beyond_position_4096: "position 4096 and on",
        last_head_not_rotated: "head",
    },
    "swiglu": {
        gelu_for_silu: "gelu stands for silu",
        gate_and_up_swapped: "gate and up are swapped",
        sigmoid_to_8_bits: "",
        exponential_overflows: "",
        last_column_of_an_odd_width: "column 96",
    },
    "linear": {
        bias_left_out: "the bias is left out",
        bias_twice: "the bias is added twice",
        last_product_left_out: "the last product of each sum is left out",
        summed_in_half_precision: "",
        last_column_stale: "never written; column",
    },
    "int8_linear": {scales_of_the_neighbour: "", scales_to_8_bits: ""},
    "int4_linear": {
        halves_of_a_byte_swapped: "the halves of a byte are swapped",
        zero_point_seven: "",
        stale_group_scale: "",
    },
    "attention": {
        heads_tiled: "query heads take key/value heads 0, 1, 0, 1",
        mask_one_too_far: "each query sees one token too many",
        own_token_not_seen: "",
        queries_aligned_left: "queries are aligned with the first keys",
        mask_ignored: "the mask is left out",
        mask_of_the_first_row: "batch",
        scale_left_out: "the scale is left out",
        no_maximum_subtracted: "",
        total_in_half_precision: "",
        stale_maximum: "",
        keys_past_4096_left_out: "",
        last_key_block_left_out: "",
        values_of_the_next_head: "",
    },
    "paged_attention": {
        tables_of_the_first_sequence: "every sequence reads the first one's blocks",
        newest_token_not_seen: "each sequence is taken for one token shorter",
        blocks_in_order_of_memory: "",
        tokens_of_a_block_backwards: "",
        rest_of_the_last_block_seen: "",
        window_left_out: "the window is left out",
        last_sequence_not_computed: "never written; token",
    },
    "greedy_token": {
        first_token_always_zero: "batch 0",
        maximum_starts_at_zero: "",
        last_token_not_searched: "",
        indices_in_32_bits: "expected",
    },
    "sampled_token": {
        one_token_too_many: "beyond top_k",
        temperature_left_out: "frequencies",
        the_token_that_crosses_left_out: "frequencies",
        all_kept_equally_likely: "",
        the_same_each_time: "two calls draw the same",
    },
}
"""Op -> kernel -> what some verdict on it says, of the mistake or of the place."""
