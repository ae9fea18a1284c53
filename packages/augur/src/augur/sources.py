"""From a model's name to its folder, for the programs."""

from functools import partial
from pathlib import Path
from typing import Any

from augur_model import ConfigError, QwenConfig
from augur_weights import DEFAULT_MODEL, Progress, resolve


def resolve_model(name: str | Path | None, *, progress: Progress | None = None) -> Path:
    """As `augur_weights.resolve`; a model that is not supported is refused before its weights come.

    Raises:
        WeightsError: the name leads to no checkpoint.
        ConfigError: the checkpoint's config.json asks for what augur does not do.
    """
    return resolve(name, progress=progress, check_config=partial(config_of, name or DEFAULT_MODEL))


def config_of(model: str | Path, config: dict[str, Any]) -> QwenConfig:
    """What network a model's config.json describes.

    Raises:
        ConfigError: one that augur does not do; the message begins with the model.
    """
    try:
        return QwenConfig.from_dict(config)
    except ConfigError as error:
        raise type(error)(f"{model}: {error}") from None
