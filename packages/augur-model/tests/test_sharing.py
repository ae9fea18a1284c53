"""Ops and sequences are handed in: the model itself holds weights and nothing else."""

import dataclasses
from collections import Counter

import pytest
import torch

from augur_model import EAGER, EAGER_F32, OPS_BY_ATTENTION, SDPA, KVCache, QwenForCausalLM

ONE = torch.tensor([[5, 3, 99, 0, 150]])
OTHER = torch.tensor([[8, 13, 21, 34, 55]])

CALLS_PER_LAYER = {"linear": 7, "rms_norm": 2, "apply_rope": 2, "attention": 1, "swiglu": 1}
CALLS_BESIDE_THE_LAYERS = {"linear": 1, "rms_norm": 1}  # the head and the last norm


@pytest.mark.parametrize("name", CALLS_PER_LAYER)
def test_a_replaced_op_is_called_in_every_place(make_model, name):
    model = make_model(num_hidden_layers=3)
    expected = model(ONE)
    calls: Counter[str] = Counter()
    original = getattr(EAGER, name)

    def counted(*args):
        calls[name] += 1
        return original(*args)

    model.ops = dataclasses.replace(EAGER, **{name: counted})
    assert torch.equal(model(ONE), expected)
    assert calls[name] == 3 * CALLS_PER_LAYER[name] + CALLS_BESIDE_THE_LAYERS.get(name, 0)


def test_attention_is_chosen_by_name():
    assert OPS_BY_ATTENTION == {"eager": EAGER, "eager-f32": EAGER_F32, "sdpa": SDPA}
    names = {entry.name for entry in dataclasses.fields(EAGER)}
    assert names == {*CALLS_PER_LAYER, "paged_attention"}  # which a cache asks for
    fast = ("linear", "attention", "paged_attention")
    assert dataclasses.replace(SDPA, **{name: getattr(EAGER, name) for name in fast}) == EAGER


def test_two_models_share_weights_and_differ_in_ops(make_model):
    eager = make_model()
    with torch.device("meta"):
        sdpa = QwenForCausalLM(eager.config, SDPA)
    sdpa.load_state_dict(eager.state_dict(), assign=True)
    for name, weight in eager.named_parameters():
        assert sdpa.get_parameter(name).data_ptr() == weight.data_ptr()
    torch.testing.assert_close(sdpa(ONE), eager(ONE), atol=1e-4, rtol=1e-4)
    assert (eager.ops, sdpa.ops) == (EAGER, SDPA)


def test_interleaved_sequences_do_not_feel_each_other(make_model, make_cache):
    model = make_model()

    def feed(token_ids, cache):
        """One at a time; gives control back after each."""
        for index in range(token_ids.shape[1]):
            yield model(token_ids[:, index : index + 1], cache=cache)

    alone = [list(feed(token_ids, make_cache())) for token_ids in (ONE, OTHER)]
    one, other = feed(ONE, make_cache()), feed(OTHER, make_cache())
    interleaved = [next(one), next(other), next(other), next(one), next(one), next(other)]
    expected = [alone[0][0], alone[1][0], alone[1][1], alone[0][1], alone[0][2], alone[1][2]]
    assert all(map(torch.equal, interleaved, expected))


def test_a_cache_is_asked_for_every_layers_attention_between_begin_and_advance(make_model):
    calls = []

    class RecordingCache(KVCache):
        lengths = (0,)

        def check_room(self, num_tokens):
            """There is always room."""

        def begin(self, num_tokens):
            calls.append(("begin", num_tokens))

        def update(self, layer_index, keys, values):
            calls.append(("update", layer_index, tuple(keys.shape), tuple(values.shape)))
            return keys, values

        def advance(self, num_tokens):
            calls.append(("advance", num_tokens))

    model, cache = make_model(), RecordingCache()
    expected = model(ONE)
    assert torch.equal(model(ONE, cache=cache), expected)
    shape = (1, 2, 5, 8)
    updates = [("update", 0, shape, shape), ("update", 1, shape, shape)]
    assert calls == [("begin", 5), *updates, ("advance", 5)]

    calls.clear()
    model(ONE, cache=cache, num_tokens=[3])
    assert (calls[0], calls[-1]) == (("begin", (3,)), ("advance", (3,)))


def test_a_cache_may_answer_with_attention_of_its_own(make_model, make_cache):
    """Over keys in blocks of two, as a cache of pages would: attention never sees them joined."""
    asked = []

    class Pages(type(make_cache())):
        def attend(self, layer_index, query, key, value, mask, scale, window, ops):
            asked.append((layer_index, mask, window, ops))
            keys, values = self.update(layer_index, key, value)
            scores, weighed = [], 0
            for keys_page, values_page in zip(keys.split(2, 2), values.split(2, 2), strict=True):
                page = torch.exp(query @ repeated(keys_page).mT * scale)
                scores.append(page.sum(-1, keepdim=True))
                weighed = weighed + page @ repeated(values_page)
            return weighed / sum(scores)

    def repeated(heads):
        return heads.repeat_interleave(2, dim=1)

    model, pages, plain = make_model(), Pages(1), make_cache()
    for token_id in ONE[0]:
        found = model(token_id[None, None], cache=pages)
        expected = model(token_id[None, None], cache=plain)
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert asked[:2] == [(0, None, None, EAGER), (1, None, None, EAGER)]


def test_a_forward_pass_changes_nothing_of_the_model(make_model, make_cache):
    model = make_model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    attributes = set(vars(model))
    model(ONE, cache=make_cache())
    assert set(vars(model)) == attributes
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
