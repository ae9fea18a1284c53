"""Sampling one sequence: the parameters, the random numbers, and what has been said so far."""

from collections.abc import Sequence

import torch
from torch import Tensor

from augur_gen.candidates import few_candidates
from augur_gen.errors import GenerationError
from augur_gen.logit_processors import apply_temperature
from augur_gen.logits_pipeline import apply_cuts, apply_penalties
from augur_gen.sampling import check_choice, draw, greedy
from augur_gen.sampling_params import SamplingParams
from augur_gen.stable_top_p import apply_top_p_stably


class SequenceSampler:
    """A `Sampler` for the tokens of one sequence, in their order.

    It remembers what it chose, for the penalties. A batch takes one for each row, so that a row's
    text does not depend on its neighbours. `Generation` makes its own from `SamplingParams`.

    The random numbers come from a `torch.Generator` on the CPU, one for each token, whatever device
    the logits are on.

    Args:
        params: how to choose.
        prompt_token_ids: all that comes before the first token to be chosen.

    Attributes:
        params: as given, with the seed in use.
    """

    def __init__(self, params: SamplingParams, prompt_token_ids: Sequence[int]) -> None:
        self.params = params.with_seed()
        self._generator = torch.Generator()
        if self.params.seed is not None:
            self._generator.manual_seed(self.params.seed)
        self._looks_back = (
            params.repetition_penalty != 1
            or params.presence_penalty != 0
            or params.frequency_penalty != 0
        )
        # No penalty counts how often a token is in the prompt.
        distinct = list(dict.fromkeys(prompt_token_ids)) if self._looks_back else []
        self._num_prompt_tokens = len(distinct)
        self._token_ids = torch.tensor([distinct], dtype=torch.int64)

    def __call__(self, logits: Tensor) -> Tensor:
        """Choose the next token.

        Args:
            logits: `[1, vocab_size]`, of any float dtype.

        Returns:
            `[1]`, int64.

        Raises:
            GenerationError: more than one row, an id in logit_bias outside the vocabulary, or no
                token that can be chosen; the choice can then be asked for again.
        """
        if logits.shape[0] != 1:
            raise GenerationError(
                f"logits have {logits.shape[0]} rows; a SequenceSampler chooses for one. "
                "Give each row its own"
            )
        token_ids = self._token_ids.to(logits.device)
        penalised = apply_penalties(logits.float(), self.params, token_ids, self._num_prompt_tokens)
        chosen = greedy(penalised) if self.params.is_greedy else self._draw(penalised)
        if self._looks_back:
            self._token_ids = torch.cat((token_ids, chosen.to(token_ids.device)[:, None]), dim=-1)
        return chosen

    def _draw(self, logits: Tensor) -> Tensor:
        check_choice(logits)  # few_candidates sorts, which needs numbers
        scaled = apply_temperature(logits, self.params.temperature)
        uniform = torch.rand(1, dtype=torch.float64, generator=self._generator)
        candidates = few_candidates(scaled[0], self.params)
        if candidates is None:
            left = apply_cuts(scaled, self.params, apply_top_p_stably)
            if int((left > -torch.inf).sum()) > 1:
                return draw(left, uniform)
        elif len(candidates.token_ids) > 1:
            return candidates.token_ids[draw(candidates.logits[None], uniform)]
        # Not the one that is left: dividing may have made two logits equal that were not.
        return greedy(logits)
