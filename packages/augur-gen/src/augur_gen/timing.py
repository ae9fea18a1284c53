"""The clock, and what it measured of one generation."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch


class Stopwatch:
    """Reads a clock after the device has done all its work: launching a kernel takes no time.

    Args:
        device: whose work is waited for.
        clock: seconds, never going back.
    """

    def __init__(
        self, device: torch.device, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._clock = clock
        self._device = device

    def read(self) -> float:
        """Seconds, once the device is idle."""
        if self._device.type != "cpu":
            torch.accelerator.synchronize(self._device)
        return self._clock()


@dataclass(frozen=True)
class Timings:
    """Seconds spent inside the engine; what the caller does between two tokens does not count.

    Attributes:
        num_prompt_tokens: tokens that the prefill fed.
        prefill_s: until the prompt's logits were there.
        token_s: for each generated token, the time from asking for it to having it. The first
            holds the prefill.
    """

    num_prompt_tokens: int
    prefill_s: float
    token_s: tuple[float, ...]

    @property
    def ttft_s(self) -> float:
        """Time to first token: prefill and the choice of the first token; 0 without a token."""
        return self.token_s[0] if self.token_s else 0.0

    @property
    def decode_s(self) -> float:
        """All tokens but the first."""
        return sum(self.token_s[1:], start=0.0)

    @property
    def prefill_tokens_per_s(self) -> float | None:
        """Prompt tokens per second; None where nothing was measured."""
        return self.num_prompt_tokens / self.prefill_s if self.prefill_s > 0 else None

    @property
    def decode_tokens_per_s(self) -> float | None:
        """Tokens after the first per second; None where there was only one."""
        return (len(self.token_s) - 1) / self.decode_s if self.decode_s > 0 else None


class GenerationClock:
    """What one generation reads off a stopwatch: twice for each token, and once for the prompt."""

    def __init__(self, stopwatch: Stopwatch) -> None:
        self._read = stopwatch.read
        self._began_s = math.nan
        self._asked_s = math.nan
        self._prefill_s = 0.0
        self._token_s: list[float] = []

    def ask(self) -> float:
        """A token is asked for, or again because its choice failed: seconds since the first was."""
        now_s = self._read()
        if math.isnan(self._began_s):
            self._began_s = now_s
        if math.isnan(self._asked_s):
            self._asked_s = now_s
        return now_s - self._began_s

    def prefilled(self) -> None:
        """The prompt's logits are there."""
        self._prefill_s = self._read() - self._asked_s

    def receive(self) -> float:
        """The token is there: seconds since the first was asked for."""
        now_s = self._read()
        self._token_s.append(now_s - self._asked_s)
        self._asked_s = math.nan
        return now_s - self._began_s

    def timings(self, num_prompt_tokens: int) -> Timings:
        """What was measured so far."""
        return Timings(num_prompt_tokens, self._prefill_s, tuple(self._token_s))
