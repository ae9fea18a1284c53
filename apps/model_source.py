"""From a model's name to its folder, for the programs."""

from pathlib import Path

from augur_model import ConfigError, QwenConfig
from augur_weights import DEFAULT_MODEL, Progress, resolve, resolve_config


def resolve_model(name: str, *, progress: Progress) -> Path:
    """As `augur_weights.resolve`; a model that is not supported is refused before its weights come.

    Raises:
        WeightsError: the name leads to no checkpoint.
        ConfigError: the checkpoint's config.json asks for what augur does not do.
    """
    if name != DEFAULT_MODEL:
        try:
            QwenConfig.from_dict(resolve_config(name, progress=progress))
        except ConfigError as error:
            raise type(error)(f"{name}: {error}") from None
    return resolve(name, progress=progress)
