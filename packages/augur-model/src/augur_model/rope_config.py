"""The rotary settings of `config.json`: theta, and YaRN's stretching of it."""

import math
from dataclasses import dataclass

from augur_model.config_reader import ConfigReader
from augur_model.errors import ConfigError, UnsupportedModelError

_YARN_KEYS = frozenset(
    {
        "rope_type",
        "type",
        "rope_theta",
        "factor",
        "original_max_position_embeddings",
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "truncate",
    }
)

# Far beyond any model on both sides. Outside, the frequencies are no longer finite numbers, or the
# formula divides by zero: at a base of 1 every dimension would turn alike.
_THETA_RANGE = (1.01, 1e30)
_YARN_RANGE = (1e-3, 1e6)
_MAX_POSITIONS = 2**31


@dataclass(frozen=True)
class Yarn:
    """YaRN (Peng et al., 2023, arXiv:2309.00071): longer contexts by slower rotations.

    Attributes:
        factor: how many times longer the context becomes.
        original_max_position_embeddings: positions the model was trained on.
        attention_factor: what cos and sin are multiplied by.
        beta_fast: dimensions that turn more often than this over the original length keep their
            frequency.
        beta_slow: those that turn less often than this are slowed down by `factor`; between the
            two it is blended.
        truncate: whether the blend begins and ends at whole dimensions.
    """

    factor: float
    original_max_position_embeddings: int
    attention_factor: float
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True


def read_rope_theta(reader: ConfigReader) -> float:
    """The base of the frequencies, from wherever transformers 4 or 5 wrote it."""
    for section in _sections(reader):
        if section.get("rope_theta") is not None:
            return _between(section, "rope_theta", *_THETA_RANGE)
    return _between(reader, "rope_theta", *_THETA_RANGE)


def read_yarn(reader: ConfigReader) -> Yarn | None:
    """The YaRN settings; None for plain RoPE.

    Raises:
        UnsupportedModelError: another scaling, or a setting of YaRN that is not supported.
        ConfigError: a value is missing or malformed, or two sections disagree.
    """
    scaled = [section for section in _sections(reader) if _rope_type(section) != "default"]
    if not scaled:
        return None
    found = [_yarn(section, reader) for section in scaled]
    if any(yarn != found[0] for yarn in found):
        raise ConfigError("config.json: rope_parameters and rope_scaling disagree")
    return found[0]


def _sections(reader: ConfigReader) -> list[ConfigReader]:
    """`rope_parameters` (transformers 5) and `rope_scaling` (transformers 4), those that exist."""
    keys = ("rope_parameters", "rope_scaling")
    return [reader.section(key) for key in keys if reader.get(key) is not None]


def _rope_type(section: ConfigReader) -> str:
    # "type" is the older spelling; a scaling named by either must not be passed over.
    for rope_type in (section.get("rope_type"), section.get("type")):
        if rope_type not in (None, "default", "yarn"):
            raise UnsupportedModelError(
                f"rope_type is {rope_type!r:.200}; supported: default, yarn"
            )
        if rope_type == "yarn":
            return "yarn"
    return "default"


def _yarn(section: ConfigReader, reader: ConfigReader) -> Yarn:
    unknown = sorted(section.keys() - _YARN_KEYS)
    if unknown:
        supported = ", ".join(sorted(_YARN_KEYS))
        raise UnsupportedModelError(
            f"the YaRN settings name {', '.join(map(repr, unknown)):.200}; supported: {supported}"
        )
    factor = _between(section, "factor", *_YARN_RANGE)
    if section.get("original_max_position_embeddings") is not None:
        original = _positions(section, "original_max_position_embeddings")
    else:
        # As transformers: the positions that the config names are then the original ones.
        original = _positions(reader, "max_position_embeddings")
    if section.get("attention_factor") is not None:
        attention_factor = _between(section, "attention_factor", *_YARN_RANGE)
    else:
        attention_factor = 1.0 if factor <= 1 else 0.1 * math.log(factor) + 1.0
    return Yarn(
        factor=factor,
        original_max_position_embeddings=original,
        attention_factor=attention_factor,
        beta_fast=_between(section, "beta_fast", *_YARN_RANGE, default=32.0),
        beta_slow=_between(section, "beta_slow", *_YARN_RANGE, default=1.0),
        truncate=section.boolean("truncate", default=True),
    )


def _between(
    section: ConfigReader, key: str, low: float, high: float, *, default: float | None = None
) -> float:
    value = section.positive_float(key, default)
    if not low <= value <= high:
        raise ConfigError(f"config.json: {key} is {value}, expected {low:g} to {high:g}")
    return value


def _positions(section: ConfigReader, key: str) -> int:
    value = section.positive_int(key)
    if value > _MAX_POSITIONS:
        raise ConfigError(f"config.json: {key} is above {_MAX_POSITIONS}, which no model can be")
    return value
