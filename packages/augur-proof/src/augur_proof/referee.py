"""transformers' side of every comparison: the source of truth, and the only file that imports it.

Between releases of transformers three things changed that matter here: the forward pass's cache
argument (`past_key_values`, then `cache`), what `apply_chat_template` returns, and how a recorded
attention is installed. All three are asked of the installed release.
"""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from augur_proof.answer import Answer
from augur_proof.errors import ProofError
from augur_proof.recording import Pass, Recorder

RECORDED_ATTENTION = "augur_recorded_eager"

# A cache line, which is what torch aligns to.
_ALIGNMENT_BYTES = 64

# What its loaders raise for folders that are not as they expect.
_LOADING_ERRORS = (OSError, ValueError, RuntimeError, KeyError, ImportError)


class Referee:
    """A checkpoint opened by transformers, with eager attention.

    Args:
        model: its `...ForCausalLM`.
        tokenizer: its tokenizer.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model = model
        self.tokenizer = tokenizer

    @classmethod
    def load(cls, folder: Path, *, device: torch.device, dtype: torch.dtype) -> "Referee":
        """Open a checkpoint folder.

        Raises:
            ProofError: transformers is not installed, or cannot load the folder whole.
        """
        model = load_model(folder, device=device, dtype=dtype, attention="eager")
        try:
            tokenizer = import_transformers().AutoTokenizer.from_pretrained(
                folder, local_files_only=True
            )
        except _LOADING_ERRORS as error:
            raise ProofError(f"{folder}: transformers cannot load it: {error}") from error
        return cls(aligned(model), tokenizer)

    def encode(self, prompt: str) -> list[int]:
        """A prompt's ids: in the chat template, or as raw text where there is none.

        Raises:
            ProofError: there are none.
        """
        if self.tokenizer.chat_template:
            messages = [{"role": "user", "content": prompt}]
            rendered = self.tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, tokenize=True
            )
            return token_ids_of(rendered)
        input_ids = token_ids_of(self.tokenizer(prompt))
        if not input_ids:
            raise ProofError("the prompt has no tokens; give some text")
        return input_ids

    @torch.inference_mode()
    def answer(self, prompt: str, max_new_tokens: int) -> Answer:
        """Continue a prompt with the raw argmax, up to an EOS or `max_new_tokens`."""
        input_ids = self.encode(prompt)
        eos_token_ids = self._eos_token_ids()
        feed = self._new_sequence()
        rows = [feed(input_ids)]
        generated_ids = [_argmax(rows[0])]
        while len(generated_ids) < max_new_tokens and generated_ids[-1] not in eos_token_ids:
            rows.append(feed(generated_ids[-1:]))
            generated_ids.append(_argmax(rows[-1]))
        return Answer(prompt, input_ids, generated_ids, torch.stack([row.cpu() for row in rows]))

    @torch.inference_mode()
    def record(self, input_ids: list[int], decode_steps: int) -> list[Pass]:
        """Every module's output for the prompt, then for greedy tokens fed one by one."""
        with Recorder(self.model) as recorder:
            self._install_recorded_attention(recorder)
            feed = self._new_sequence()
            passes = []
            token_ids, past_length = input_ids, 0
            for step in range(decode_steps + 1):
                label = f"decode step {step}" if step else f"prefill of {len(token_ids)} tokens"
                row = feed(token_ids)
                passes.append(Pass(label, token_ids, past_length, recorder.take()))
                past_length += len(token_ids)
                token_ids = [_argmax(row)]
        return passes

    def _new_sequence(self) -> Callable[[list[int]], Tensor]:
        """As `new_sequence`, of one row: ids -> `[vocab_size]`."""
        feed = new_sequence(self.model)
        return lambda token_ids: feed(torch.tensor([token_ids], device=self.model.device))[0]

    def _eos_token_ids(self) -> frozenset[int]:
        for config in (self.model.generation_config, self.model.config):
            found = getattr(config, "eos_token_id", None)
            if found is not None:
                return frozenset([found] if isinstance(found, int) else found)
        return frozenset()

    def _install_recorded_attention(self, recorder: Recorder) -> None:
        """Eager attention that also shows the recorder what it is given."""
        from transformers import AttentionInterface  # noqa: PLC0415
        from transformers.masking_utils import AttentionMaskInterface, eager_mask  # noqa: PLC0415

        def recorded(
            module: Any, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any
        ) -> Any:
            recorder.keep_attention_inputs(module, query, key, value)
            eager = sys.modules[type(module).__module__].eager_attention_forward
            return eager(module, query, key, value, *args, **kwargs)

        AttentionInterface.register(RECORDED_ATTENTION, recorded)
        AttentionMaskInterface.register(RECORDED_ATTENTION, eager_mask)
        self.model.set_attn_implementation(RECORDED_ATTENTION)


def import_transformers() -> ModuleType:
    """transformers, imported when it is first needed: it takes seconds, and need not be there.

    Raises:
        ProofError: it is not installed.
    """
    try:
        import transformers  # noqa: PLC0415
    except ImportError as error:
        raise ProofError(
            f"transformers, the source of truth, cannot be imported ({error}). Install it with: "
            "uv sync, or: pip install transformers"
        ) from error
    return transformers


def token_ids_of(rendered: Any) -> list[int]:
    """The ids of one text, whatever `apply_chat_template(..., tokenize=True)` gave.

    A plain list before transformers 5, a mapping with `input_ids` since; each may hold a batch of
    one, and the ids may be a tensor.
    """
    token_ids = rendered["input_ids"] if isinstance(rendered, Mapping) else rendered
    if isinstance(token_ids, Tensor):
        token_ids = token_ids.tolist()
    if token_ids and isinstance(token_ids[0], Sequence):
        (token_ids,) = token_ids
    return [int(token_id) for token_id in token_ids]


def load_model(folder: Path, *, device: torch.device, dtype: torch.dtype, attention: str) -> Any:
    """Its `...ForCausalLM` of a checkpoint folder.

    Args:
        folder: of the checkpoint.
        device: to run on.
        dtype: of the weights.
        attention: its `attn_implementation`.

    Raises:
        ProofError: transformers is not installed, or cannot load the folder whole.
    """
    transformers = import_transformers()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    try:
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=dtype,
            attn_implementation=attention,
            local_files_only=True,
            output_loading_info=True,
        )
    except _LOADING_ERRORS as error:
        raise ProofError(f"{folder}: transformers cannot load it: {error}") from error
    # What it does not find it makes up, at random.
    made_up = sorted(str(name) for name in report["missing_keys"])
    if made_up:
        raise ProofError(f"{folder}: has no tensor {made_up[0]}; it cannot be a ground truth")
    return model.to(device).eval().requires_grad_(False)


def new_sequence(model: Any) -> Callable[[Tensor], Tensor]:
    """A function that feeds tokens after those it was given before.

    It takes ids, `[batch, length]`, and gives the last position's logits, `[batch, vocab_size]`.
    """
    cache = {cache_argument(model): import_transformers().DynamicCache(config=model.config)}

    def feed(token_ids: Tensor) -> Tensor:
        # The head for one position alone, as the engine asks it: a matrix product of another shape
        # may round otherwise.
        output = model(token_ids, use_cache=True, logits_to_keep=1, **cache)
        logits: Tensor = output.logits
        return logits[:, -1]

    return feed


def cache_argument(model: Any) -> str:
    """What the model's forward pass calls its key/value cache."""
    parameters = inspect.signature(model.forward).parameters
    return "cache" if "cache" in parameters else "past_key_values"


def aligned(model: Any) -> Any:
    """Move weights to memory as torch allocates it, and give the model back.

    Weights that keep the file's dtype stay in the mapped file, at whatever address the header's
    length gave them, and the CPU's matrix-vector products then round otherwise in the last bit.
    """
    for parameter in model.parameters():
        if parameter.data_ptr() % _ALIGNMENT_BYTES:
            parameter.data = parameter.data.clone()
    return model


def _argmax(row: Tensor) -> int:
    return int(row.float().argmax())
