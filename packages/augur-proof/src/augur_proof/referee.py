"""transformers' side of every comparison: the source of truth."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from augur_model import QwenConfig
from augur_proof.answer import Answer, GreedyRun
from augur_proof.errors import ProofError
from augur_proof.points import Pass
from augur_proof.random_weights import fill_randomly
from augur_proof.transformers_api import (
    aligned,
    config_object,
    import_transformers,
    load_model,
    load_tokenizer,
    new_cache,
    new_sequence,
    recorded,
    token_ids_of,
)


class Referee:
    """A network of transformers, with eager attention.

    Args:
        model: its `...ForCausalLM`.
        folder: of the checkpoint, for the tokenizer; None where there is none.
    """

    def __init__(self, model: Any, folder: Path | None = None) -> None:
        self.model = model
        self._folder = folder

    @classmethod
    def load(
        cls, folder: Path, *, dtype: torch.dtype, device: torch.device | str = "cpu"
    ) -> "Referee":
        """Open a checkpoint folder.

        Raises:
            ProofError: transformers is not installed, or cannot load the folder whole.
        """
        model = load_model(folder, device=device, dtype=dtype, attention="eager")
        return cls(aligned(model), folder)

    @classmethod
    def random(
        cls,
        config: Mapping[str, Any],
        dtype: torch.dtype = torch.float32,
        *,
        seed: int = 0,
        embedding_scale: float = 0.1,
    ) -> "Referee":
        """Random weights, in the state that loading a checkpoint of this dtype gives them.

        `config` is what a config.json holds; the rest is as `fill_randomly` takes it.

        Raises:
            ProofError: transformers is not installed.
        """
        model = import_transformers().AutoModelForCausalLM.from_config(
            config_object(config), attn_implementation="eager"
        )
        fill_randomly(model, seed=seed, embedding_scale=embedding_scale)
        # Parameter by parameter: `model.to(dtype)` would round the rotary frequencies as well,
        # which loading a checkpoint does not.
        for parameter in model.parameters():
            parameter.data = parameter.data.to(dtype)
        model.config.dtype = dtype
        return cls(model.eval().requires_grad_(False))

    @cached_property
    def config(self) -> QwenConfig:
        """The same network as augur describes it."""
        return QwenConfig.from_dict(self.model.config.to_dict())

    @cached_property
    def tokenizer(self) -> Any:
        """transformers' tokenizer of the folder.

        Raises:
            ProofError: there is no folder, or transformers cannot load one from it.
        """
        if self._folder is None:
            raise ProofError("this referee has no tokenizer: it was made without a folder")
        return load_tokenizer(self._folder)

    def encode(self, prompt: str) -> list[int]:
        """A prompt's ids: in the chat template, or as raw text where there is none.

        Raises:
            ProofError: there are none.
        """
        if self.tokenizer.chat_template:
            chat = [{"role": "user", "content": prompt}]
            return token_ids_of(
                self.tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=True)
            )
        input_ids = token_ids_of(self.tokenizer(prompt))
        if not input_ids:
            raise ProofError("the prompt has no tokens; give some text")
        return input_ids

    @torch.inference_mode()
    def logits(
        self, token_ids: Tensor, sizes: Sequence[int] | None = None, *, logits_to_keep: int = 0
    ) -> Tensor:
        """All positions' logits, `[batch, length, vocab_size]`.

        Args:
            token_ids: `[batch, length]`.
            sizes: feed pieces of so many tokens through one cache. Left out: all at once, without.
            logits_to_keep: for this many last positions of each piece alone; 0 keeps all.
        """
        how: dict[str, Any] = {"use_cache": False}
        if sizes is not None:
            how = {"use_cache": True, **new_cache(self.model)}
        pieces = torch.split(token_ids, list(sizes or token_ids.shape[1:]), dim=1)
        logits = [self.model(one, logits_to_keep=logits_to_keep, **how).logits for one in pieces]
        return torch.cat(logits, dim=1)

    @torch.inference_mode()
    def greedy(
        self,
        input_ids: Sequence[int],
        max_new_tokens: int,
        eos_token_ids: Collection[int] | None = None,
    ) -> GreedyRun:
        """Continue with the raw argmax, up to an EOS: the checkpoint's own, if none is given."""
        if eos_token_ids is None:
            eos_token_ids = self._eos_token_ids()
        feed = self._new_sequence()
        rows = [feed(input_ids)]
        token_ids = [_argmax(rows[0])]
        while len(token_ids) < max_new_tokens and token_ids[-1] not in eos_token_ids:
            rows.append(feed(token_ids[-1:]))
            token_ids.append(_argmax(rows[-1]))
        return GreedyRun(token_ids, torch.stack([row.cpu() for row in rows]))

    def answer(self, prompt: str, max_new_tokens: int) -> Answer:
        """Encode a prompt and continue it, up to an EOS or `max_new_tokens`."""
        input_ids = self.encode(prompt)
        return Answer(prompt, input_ids, *self.greedy(input_ids, max_new_tokens))

    @torch.inference_mode()
    def record(self, input_ids: list[int], decode_steps: int) -> list[Pass]:
        """Every module's output for the prompt, then for greedy tokens fed one by one."""
        passes: list[Pass] = []
        with recorded(self.model) as take:
            feed = self._new_sequence()
            token_ids, past_length = input_ids, 0
            for step in range(decode_steps + 1):
                label = f"decode step {step}" if step else f"prefill of {len(token_ids)} tokens"
                row = feed(token_ids)
                passes.append(Pass(label, token_ids, past_length, take()))
                past_length += len(token_ids)
                token_ids = [_argmax(row)]
        return passes

    def _new_sequence(self) -> Callable[[Sequence[int]], Tensor]:
        """As `new_sequence`, of one row: ids -> `[vocab_size]`."""
        feed = new_sequence(self.model)
        return lambda token_ids: feed(torch.tensor([token_ids], device=self.model.device))[0]

    def _eos_token_ids(self) -> frozenset[int]:
        for config in (self.model.generation_config, self.model.config):
            found = getattr(config, "eos_token_id", None)
            if found is not None:
                return frozenset([found] if isinstance(found, int) else found)
        return frozenset()


def _argmax(row: Tensor) -> int:
    return int(row.float().argmax())
