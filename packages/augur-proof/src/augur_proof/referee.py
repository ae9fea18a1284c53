"""transformers' side of every comparison: the source of truth, and the only file that imports it.

Between releases of transformers three things changed that matter here: the forward pass's cache
argument (`past_key_values`, then `cache`), what `apply_chat_template` returns, and how a recorded
attention is installed. All three are asked of the installed release.
"""

import inspect
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from augur_model import QwenConfig
from augur_proof.answer import Answer, GreedyRun
from augur_proof.errors import ProofError
from augur_proof.random_weights import fill_randomly
from augur_proof.recording import Pass, Recorder

RECORDED_ATTENTION = "augur_recorded_eager"

# A cache line, which is what torch aligns to.
_ALIGNMENT_BYTES = 64

# What its loaders raise for folders that are not as they expect.
_LOADING_ERRORS = (OSError, ValueError, RuntimeError, KeyError, ImportError)


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
        return cls(
            aligned(load_model(folder, device=device, dtype=dtype, attention="eager")), folder
        )

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

        Args:
            config: what a config.json holds.
            dtype: of the weights.
            seed: as `fill_randomly` takes it, and so is `embedding_scale`.

        Raises:
            ProofError: transformers is not installed.
        """
        model = import_transformers().AutoModelForCausalLM.from_config(
            referee_config(config), attn_implementation="eager"
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
        try:
            return import_transformers().AutoTokenizer.from_pretrained(
                self._folder, local_files_only=True
            )
        except _LOADING_ERRORS as error:
            raise ProofError(f"{self._folder}: transformers cannot load it: {error}") from error

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
    def logits(
        self, token_ids: Tensor, sizes: Sequence[int] | None = None, *, logits_to_keep: int = 0
    ) -> Tensor:
        """All positions' logits, `[batch, length, vocab_size]`.

        Args:
            token_ids: `[batch, length]`.
            sizes: feed pieces of so many tokens through one cache. Left out: all at once, without.
            logits_to_keep: for this many last positions of each piece alone; 0 keeps all.
        """
        if sizes is None:
            logits: Tensor = self.model(
                token_ids, use_cache=False, logits_to_keep=logits_to_keep
            ).logits
            return logits
        cache = _new_cache(self.model)
        pieces = [
            self.model(piece, use_cache=True, logits_to_keep=logits_to_keep, **cache).logits
            for piece in torch.split(token_ids, list(sizes), dim=1)
        ]
        return torch.cat(pieces, dim=1)

    @torch.inference_mode()
    def greedy(
        self,
        input_ids: Sequence[int],
        max_new_tokens: int,
        eos_token_ids: Collection[int] | None = None,
    ) -> GreedyRun:
        """Continue with the raw argmax; an EOS ends it, the checkpoint's own unless others are
        given."""
        if eos_token_ids is None:
            eos_token_ids = self._eos_token_ids()
        feed = self._new_sequence()
        rows = [feed(input_ids)]
        token_ids = [_argmax(rows[0])]
        while len(token_ids) < max_new_tokens and token_ids[-1] not in eos_token_ids:
            rows.append(feed(token_ids[-1:]))
            token_ids.append(_argmax(rows[-1]))
        return GreedyRun(token_ids, torch.stack([row.cpu() for row in rows]))

    def generate(self, input_ids: Sequence[int], max_new_tokens: int, **options: Any) -> GreedyRun:
        """As `greedy`, by transformers' own `generate`, with its own loop and its own stopping.

        A penalty that the checkpoint names is left out.

        Args:
            input_ids: the prompt.
            max_new_tokens: at most.
            options: of `generate`; `repetition_penalty=None` is the checkpoint's own.
        """
        given = torch.tensor([list(input_ids)], device=self.model.device)
        output = self.model.generate(
            given,
            attention_mask=torch.ones_like(given),
            max_new_tokens=max_new_tokens,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
            **{
                name: value
                for name, value in ({"repetition_penalty": 1.0} | options).items()
                if value is not None
            },
        )
        return GreedyRun(output.sequences[0, len(input_ids) :].tolist(), torch.cat(output.logits))

    def answer(self, prompt: str, max_new_tokens: int) -> Answer:
        """Encode a prompt and continue it, up to an EOS or `max_new_tokens`."""
        input_ids = self.encode(prompt)
        return Answer(prompt, input_ids, *self.greedy(input_ids, max_new_tokens))

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


def referee_config(config: Mapping[str, Any]) -> Any:
    """transformers' config object of what a config.json holds; raises as `import_transformers`."""
    return import_transformers().AutoConfig.for_model(**config, attn_implementation="eager")


def referee_modules(model_type: str) -> ModuleType:
    """transformers' modeling file of a family; raises as `import_transformers`."""
    import_transformers()
    return import_module(f"transformers.models.{model_type}.modeling_{model_type}")


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


def load_model(
    folder: Path, *, device: torch.device | str, dtype: torch.dtype, attention: str
) -> Any:
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
    cache = _new_cache(model)

    def feed(token_ids: Tensor) -> Tensor:
        # The head for one position alone, as the engine asks it: a matrix product of another shape
        # may round otherwise.
        output = model(token_ids, use_cache=True, logits_to_keep=1, **cache)
        logits: Tensor = output.logits
        return logits[:, -1]

    return feed


def cache_argument(module: Any) -> str:
    """What the forward pass of a module, or of a class of them, calls its key/value cache."""
    parameters = inspect.signature(module.forward).parameters
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


def _new_cache(model: Any) -> dict[str, Any]:
    """An empty cache, under the name by which a forward pass takes it."""
    return {cache_argument(model): import_transformers().DynamicCache(config=model.config)}


def _argmax(row: Tensor) -> int:
    return int(row.float().argmax())
