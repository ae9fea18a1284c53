"""Rungs that are wrong, slow to start or broken, each in its own way: what a bench must show."""

import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from augur_bench.errors import RungUnavailableError
from augur_bench.rung import NewSteps, Rung, cached, load_eager, with_ops
from augur_gen import Steps
from augur_model import EAGER, QwenForCausalLM, ops

SLEEP_S = 2.0


def larger_epsilon(hidden_states: Tensor, weight: Tensor, eps: float) -> Tensor:
    return ops.rms_norm(hidden_states, weight, 10 * eps)


def load_without_one_bias(
    folder: Path, device: torch.device, dtype: torch.dtype
) -> QwenForCausalLM:
    model = load_eager(folder, device, dtype)
    model.model.layers[1].self_attn.v_proj.bias.data.zero_()
    return model


class Wrapped(Steps):
    """The cached path, with something done before each phase."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def before_prefill(self) -> None: ...

    def before_decode(self) -> None: ...

    def prefill(self, token_ids: Tensor) -> Tensor:
        self.before_prefill()
        return self._steps.prefill(token_ids)

    def decode(self, token_ids: Tensor) -> Tensor:
        self.before_decode()
        return self._steps.decode(token_ids)


class Sleepy(Wrapped):
    """Takes its time over the first prefill and the first decode of the whole process."""

    slept: set[str] = set()  # noqa: RUF012 (shared by all sequences, as what is set up once is)

    def before_prefill(self) -> None:
        self._sleep_once("prefill")

    def before_decode(self) -> None:
        self._sleep_once("decode")

    def _sleep_once(self, phase: str) -> None:
        if phase not in self.slept:
            self.slept.add(phase)
            time.sleep(SLEEP_S)


class Breaking(Wrapped):
    """Breaks in the middle of a timed run: the warm-up does not decode as often."""

    def __init__(self, steps: Steps) -> None:
        super().__init__(steps)
        self._decoded = 0

    def before_decode(self) -> None:
        self._decoded += 1
        if self._decoded == 3:
            raise ArithmeticError("the kernel on trial gave up")


class NotFinite(Wrapped):
    """One logit in the vocabulary is NaN."""

    def decode(self, token_ids: Tensor) -> Tensor:
        logits = super().decode(token_ids).clone()
        logits[0, 5] = torch.nan
        return logits


class LateBoost(Wrapped):
    """From the fourth decode on, the largest logit is larger yet: the choice is the same."""

    def __init__(self, steps: Steps) -> None:
        super().__init__(steps)
        self._decoded = 0

    def decode(self, token_ids: Tensor) -> Tensor:
        self._decoded += 1
        logits = super().decode(token_ids).clone()
        return self.spoil(logits) if self._decoded >= 4 else logits

    def spoil(self, logits: Tensor) -> Tensor:
        logits[0, logits.argmax()] += 100
        return logits


class LateMinusInf(LateBoost):
    """From the fourth decode on, the smallest logit is -inf: the choice is the same."""

    def spoil(self, logits: Tensor) -> Tensor:
        logits[0, logits.argmin()] = -torch.inf
        return logits


class Wavering(Wrapped):
    """All logits higher by some chance: the choice is the same."""

    def decode(self, token_ids: Tensor) -> Tensor:
        return super().decode(token_ids) + torch.rand(())


class OneLogit(Wrapped):
    """A row of one logit, which would be broadcast."""

    def prefill(self, token_ids: Tensor) -> Tensor:
        return super().prefill(token_ids)[:, :1]

    def decode(self, token_ids: Tensor) -> Tensor:
        return super().decode(token_ids)[:, :1]


def end_the_process(_model: QwenForCausalLM, _capacity: int) -> NewSteps:
    raise SystemExit("the rung wants to leave")


def wrapping(wrapper: type[Wrapped]):
    def prepare(model: QwenForCausalLM, capacity: int) -> NewSteps:
        new_steps = cached(model, capacity)
        return lambda: wrapper(new_steps())

    return prepare


def prepare_nothing(_model: QwenForCausalLM, _capacity: int) -> NewSteps:
    raise RungUnavailableError("this model is too small for it")


RUNGS = [
    Rung(
        name="wrong-epsilon",
        parent="cached",
        changes="ten times the epsilon in every norm",
        load=with_ops(replace(EAGER, rms_norm=larger_epsilon)),
    ),
    Rung(
        name="no-bias",
        parent="cached",
        changes="one bias of layer 1 dropped",
        load=load_without_one_bias,
    ),
    Rung(
        name="sleepy",
        parent="cached",
        changes="sleeps at the first prefill and the first decode",
        prepare=wrapping(Sleepy),
    ),
    Rung(
        name="lacking",
        changes="needs what no machine has",
        missing=lambda _device: "there is no abacus here",
    ),
    Rung(name="unfitting", changes="does not go with the model", prepare=prepare_nothing),
    Rung(name="breaking", changes="raises midway", prepare=wrapping(Breaking)),
    Rung(name="late-boost", changes="a logit is wrong", prepare=wrapping(LateBoost)),
    Rung(name="late-minus-inf", changes="a logit is -inf", prepare=wrapping(LateMinusInf)),
    Rung(name="one-logit", changes="one logit for all", prepare=wrapping(OneLogit)),
    Rung(name="wavering", changes="never the same", prepare=wrapping(Wavering)),
    Rung(name="numbered", changes="lacks a number", missing=lambda _device: 5),
    Rung(name="leaving", changes="ends its process", prepare=end_the_process),
    Rung(name="not-finite", changes="a logit is NaN", prepare=wrapping(NotFinite)),
]
