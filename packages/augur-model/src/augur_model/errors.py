"""What augur-model raises. Catch `ModelError` for all of it."""


class ModelError(ValueError):
    """Root of this package's errors."""


class ConfigError(ModelError):
    """A `config.json` that is wrong or incomplete: names the key, the value, the expected."""


class UnsupportedModelError(ConfigError):
    """A `config.json` that is right but asks for something this package does not compute."""


class ModelInputError(ModelError):
    """Arguments of a forward pass whose shape, dtype or range does not fit."""
