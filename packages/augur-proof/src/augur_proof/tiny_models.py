"""Tiny random models of every kind, each as a referee and a candidate with equal weights."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from augur_model import Ops, QwenConfig, QwenForCausalLM
from augur_proof.candidate import Candidate
from augur_proof.checks import Outputs
from augur_proof.referee import Referee
from augur_proof.tiny_checkpoint import config_with

YARN = {
    "rope_type": "yarn",
    "rope_theta": 1_000_000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}
_WINDOW = {"use_sliding_window": True, "max_window_layers": 1, "num_hidden_layers": 3}

KINDS: dict[str, dict[str, Any]] = {
    "untied": {},
    "tied": {"tie_word_embeddings": True},
    "head_dim above hidden over heads": {"head_dim": 16},
    "one head": {"num_attention_heads": 1, "num_key_value_heads": 1},
    "fourteen heads on two": {
        "hidden_size": 112,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
    },
    "large epsilon, small theta": {"rms_norm_eps": 1e-2, "rope_theta": 10_000.0},
}
"""What makes each kind, as keys of config.json: for a prompt of any length."""

LONG_KINDS: dict[str, dict[str, Any]] = {
    "yarn": {"rope_parameters": YARN},
    "yarn with all settings": {
        "rope_parameters": {
            **YARN,
            "attention_factor": 1.3,
            "beta_fast": 16.0,
            "beta_slow": 2.0,
            "truncate": False,
        }
    },
    "window shorter than the prompt": {**_WINDOW, "sliding_window": 7},
    "window longer than the prompt": {**_WINDOW, "sliding_window": 110},
    "yarn and window": {**_WINDOW, "rope_parameters": YARN, "sliding_window": 24},
}
"""Kinds that differ beyond some length, 7 to 110 tokens. All are for Qwen2 and for Qwen3."""


def tiny_config(**changes: Any) -> dict[str, Any]:
    """A config.json of two layers, hidden 32, heads 4/2, 128 tokens and 32,768 positions."""
    sizes = {"vocab_size": 128, "intermediate_size": 48, "max_position_embeddings": 32768}
    return config_with(**sizes | {"tie_word_embeddings": False} | changes)


class Pair(NamedTuple):
    """Both sides of one model."""

    candidate: Candidate
    referee: Referee

    def with_ops(self, ops: Ops) -> "Pair":
        """The same, with a table of ops on trial; see `Candidate.with_ops`."""
        return self._replace(candidate=self.candidate.with_ops(ops))

    def logits(
        self,
        token_ids: Tensor,
        sizes: Sequence[int] | None = None,
        *,
        logits_to_keep: int | None = None,
    ) -> Outputs:
        """What both make of `token_ids` `[batch, length]`; see `Candidate.logits`."""
        return Outputs(
            self.candidate.logits(token_ids, sizes, logits_to_keep=logits_to_keep),
            self.referee.logits(token_ids, sizes, logits_to_keep=logits_to_keep or 0),
        )


def pair_of(referee: Referee, config: QwenConfig | None = None) -> Pair:
    """The referee, with a candidate that has a copy of its weights, in its dtype.

    With a `config`, the candidate is built from that instead of the referee's.
    """
    model = QwenForCausalLM(config or referee.config)
    model.to(referee.model.dtype).load_state_dict(referee.model.state_dict())
    return Pair(Candidate(model), referee)


@cache
def tiny_pair(name: str, dtype: torch.dtype) -> Pair:
    """The model of `KINDS[name]`. It is shared: read, never changed."""
    return pair_of(Referee.random(tiny_config(**KINDS[name]), dtype))


def random_token_ids(batch: int, length: int, vocab_size: int = 128) -> Tensor:
    """`[batch, length]`, int64; the same for the same arguments."""
    generator = torch.Generator().manual_seed(batch * 1000 + length)
    return torch.randint(vocab_size, (batch, length), generator=generator)
