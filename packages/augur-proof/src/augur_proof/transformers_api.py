"""What is asked of transformers, whichever release is installed; the one file that imports it.

Between releases three things changed that matter here: the forward pass's cache argument
(`past_key_values`, then `cache`), what `apply_chat_template` returns, and how a recorded attention
is installed. All three are asked of the installed release.
"""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from augur_proof.errors import ProofError
from augur_proof.points import CACHED_KEYS, CACHED_VALUES, KEY, QUERY, Point, watched

_RECORDED_ATTENTION = "augur_recorded_eager"

# A cache line, which is what torch aligns to.
_ALIGNMENT_BYTES = 64

# What its loaders raise for folders that are not as they expect.
_LOADING_ERRORS = (OSError, ValueError, RuntimeError, KeyError, ImportError)


def import_transformers(name: str = "transformers") -> Any:
    """transformers, or a module of it, when it is first needed: it takes seconds, and need not be
    there.

    Raises:
        ProofError: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise ProofError(
            f"transformers, the source of truth, cannot be imported ({error}). Install it with: "
            "uv sync, or: pip install 'augur-proof[transformers]'"
        ) from error


def family_modules(model_type: str) -> ModuleType:
    """transformers' modeling file of a family; raises as `import_transformers`."""
    found: ModuleType = import_transformers(
        f"transformers.models.{model_type}.modeling_{model_type}"
    )
    return found


def config_object(config: Mapping[str, Any]) -> Any:
    """transformers' config of what a config.json holds; raises as `import_transformers`."""
    return import_transformers().AutoConfig.for_model(**config, attn_implementation="eager")


def load_model(
    folder: Path, *, device: torch.device | str, dtype: torch.dtype, attention: str
) -> Any:
    """Its `...ForCausalLM` of a checkpoint folder; `attention` is its `attn_implementation`.

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


def load_tokenizer(folder: Path) -> Any:
    """Its tokenizer of a checkpoint folder; raises as `load_model`."""
    try:
        return import_transformers().AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except _LOADING_ERRORS as error:
        raise ProofError(f"{folder}: transformers cannot load it: {error}") from error


def aligned(model: Any) -> Any:
    """Move weights to memory as torch allocates it, and give the model back.

    Weights that keep the file's dtype stay in the mapped file, at whatever address the header's
    length gave them, and the CPU's matrix-vector products then round otherwise in the last bit.
    """
    for parameter in model.parameters():
        if parameter.data_ptr() % _ALIGNMENT_BYTES:
            parameter.data = parameter.data.clone()
    return model


def new_sequence(model: Any) -> Callable[[Tensor], Tensor]:
    """A function that feeds tokens after those it was given before.

    It takes ids, `[batch, length]`, and gives the last position's logits, `[batch, vocab_size]`.
    """
    cache = new_cache(model)

    def feed(token_ids: Tensor) -> Tensor:
        # The head for one position alone, as the engine asks it: a matrix product of another shape
        # may round otherwise.
        logits: Tensor = model(token_ids, use_cache=True, logits_to_keep=1, **cache).logits
        return logits[:, -1]

    return feed


def new_cache(model: Any) -> dict[str, Any]:
    """An empty cache, under the name by which the model's forward pass takes it."""
    return {cache_argument(model): import_transformers().DynamicCache(config=model.config)}


def cache_argument(model: Any) -> str:
    """What the forward pass of a model, or of its class, calls its key/value cache."""
    parameters = inspect.signature(model.forward).parameters
    return "cache" if "cache" in parameters else "past_key_values"


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


@contextmanager
def recorded(model: Any) -> Iterator[Callable[[], dict[Point, Tensor]]]:
    """Keep what a model computes while the block runs, its eager attention's inputs included.

    What is yielded gives all that was kept since it was last called.
    """
    masks = import_transformers("transformers.masking_utils")
    values: dict[Point, Tensor] = {}

    def keep(_: Any, point: Point, value: Tensor) -> Tensor:
        values[point] = value
        return value

    def attention(
        module: Any, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any
    ) -> Any:
        new_keys = key[:, :, key.shape[2] - query.shape[2] :]
        parts = {QUERY: query, KEY: new_keys, CACHED_KEYS: key, CACHED_VALUES: value}
        values.update((Point(names[module], part), found) for part, found in parts.items())
        eager = sys.modules[type(module).__module__].eager_attention_forward
        return eager(module, query, key, value, *args, **kwargs)

    def take() -> dict[Point, Tensor]:
        taken = dict(values)
        values.clear()
        return taken

    import_transformers().AttentionInterface.register(_RECORDED_ATTENTION, attention)
    masks.AttentionMaskInterface.register(_RECORDED_ATTENTION, masks.eager_mask)
    model.set_attn_implementation(_RECORDED_ATTENTION)
    try:
        with watched(model, keep) as names:
            yield take
    finally:
        model.set_attn_implementation("eager")
