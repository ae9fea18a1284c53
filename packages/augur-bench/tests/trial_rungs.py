"""Rungs that are wrong or broken, each in its own way: what a bench must show."""

import os
from dataclasses import replace

import torch
from torch import Tensor

from augur_bench import Rung, RungUnavailableError
from augur_gen import Steps
from augur_model import EAGER, QwenForCausalLM, ops
from augur_proof.candidate import NewSteps, cached


def larger_epsilon(hidden_states: Tensor, weight: Tensor, eps: float) -> Tensor:
    return ops.rms_norm(hidden_states, weight, 10 * eps)


def drop_one_bias(model: QwenForCausalLM) -> None:
    model.model.layers[1].self_attn.v_proj.bias.data.zero_()


class Wrapped(Steps):
    """The cached path, with something done to its logits."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._decoded = 0

    def spoil(self, logits: Tensor, decoded: int) -> Tensor:
        raise NotImplementedError

    def prefill(self, token_ids: Tensor) -> Tensor:
        return self.spoil(self._steps.prefill(token_ids).clone(), 0)

    def decode(self, token_ids: Tensor) -> Tensor:
        self._decoded += 1
        return self.spoil(self._steps.decode(token_ids).clone(), self._decoded)


class Breaking(Wrapped):
    """Breaks in the middle of a timed run: the warm-up does not decode as often."""

    def spoil(self, logits: Tensor, decoded: int) -> Tensor:
        if decoded == 3:
            raise ArithmeticError("the kernel on trial gave up")
        return logits


class NotFinite(Wrapped):
    """One logit of each decode step is NaN."""

    def spoil(self, logits: Tensor, decoded: int) -> Tensor:
        if decoded:
            logits[0, 5] = torch.nan
        return logits


class LateBoost(Wrapped):
    """From the fourth decode on, the largest logit is larger yet: the choice is the same."""

    def spoil(self, logits: Tensor, decoded: int) -> Tensor:
        if decoded >= 4:
            logits[0, logits.argmax()] += 100
        return logits


class LateMinusInf(Wrapped):
    """From the fourth decode on, the smallest logit is -inf: the choice is the same."""

    def spoil(self, logits: Tensor, decoded: int) -> Tensor:
        if decoded >= 4:
            logits[0, logits.argmin()] = -torch.inf
        return logits


class Wavering(Wrapped):
    """All logits of decode steps higher by some chance: the choice is the same."""

    def spoil(self, logits: Tensor, decoded: int) -> Tensor:
        return logits + torch.rand(()) if decoded else logits


class OneLogit(Wrapped):
    """A row of one logit, which would be broadcast."""

    def spoil(self, logits: Tensor, _decoded: int) -> Tensor:
        return logits[:, :1]


def end_the_process(_model: QwenForCausalLM, _capacity: int) -> Steps:
    raise SystemExit("the rung wants to leave")


def wrapping(wrapper: type[Wrapped]) -> NewSteps:
    return lambda model, capacity: wrapper(cached(model, capacity))


def say_hello(_model: QwenForCausalLM) -> None:
    # Past Python's own stdout, as a library in C would.
    os.write(1, b"hello from the rung\n")


def not_fit(_model: QwenForCausalLM, _capacity: int) -> Steps:
    raise RungUnavailableError("this model is too small for it")


def lack(_device: torch.device) -> str:
    return "there is no abacus here"


RUNGS = [
    Rung(
        "wrong-epsilon",
        "ten times the epsilon in every norm",
        "cached",
        ops=replace(EAGER, rms_norm=larger_epsilon),
    ),
    Rung("no-bias", "one bias of layer 1 dropped", "cached", transform=drop_one_bias),
    Rung("lacking", "needs what no machine has", missing=lack),
    Rung("unfitting", "does not go with the model", new_steps=not_fit),
    Rung("breaking", "raises midway", new_steps=wrapping(Breaking)),
    Rung("late-boost", "a logit is wrong", new_steps=wrapping(LateBoost)),
    Rung("late-minus-inf", "a logit is -inf", new_steps=wrapping(LateMinusInf)),
    Rung("one-logit", "one logit for all", new_steps=wrapping(OneLogit)),
    Rung("wavering", "never the same", new_steps=wrapping(Wavering)),
    Rung("printing", "says something", transform=say_hello),
    Rung("numbered", "lacks a number", missing=lambda _device: 5),
    Rung("leaving", "ends its process", new_steps=end_the_process),
    Rung("not-finite", "a logit is NaN", new_steps=wrapping(NotFinite)),
]
