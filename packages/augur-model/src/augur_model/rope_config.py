"""The rotary settings of `config.json`: theta, and YaRN's stretching of it."""

import math
from dataclasses import dataclass

from augur_model.config_reader import ConfigReader
from augur_model.errors import UnsupportedModelError
from augur_model.unsupported import refuse_unless_neutral

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
        "partial_rotary_factor",  # refused where it says anything
    }
)

# Far beyond any model on both sides. Outside, the frequencies are no longer finite numbers, or the
# formula divides by zero: at a base of 1 every dimension would turn alike.
_THETA_RANGE = (1.01, 1e30)
_YARN_RANGE = (1e-3, 1e6)
MOST_POSITIONS = 2**31


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
            return section.number("rope_theta", *_THETA_RANGE)
    return reader.number("rope_theta", *_THETA_RANGE)


def read_yarn(reader: ConfigReader) -> Yarn | None:
    """The YaRN settings; None for plain RoPE.

    Raises:
        UnsupportedModelError: another scaling, or a setting of YaRN that is not supported.
        ConfigError: a value is missing or malformed, or two sections disagree.
    """
    sections = _sections(reader)
    if not sections or _rope_type(sections[0]) == "default":
        return None
    yarn = _yarn(sections[0], reader)
    key = "original_max_position_embeddings"
    beside = reader.get(key)
    if beside is not None and beside != yarn.original_max_position_embeddings:
        raise reader.error(
            f"{key} is {beside!r:.200}, and {yarn.original_max_position_embeddings} for YaRN; "
            "expected one of them, or the same"
        )
    return yarn


def _sections(reader: ConfigReader) -> list[ConfigReader]:
    """`rope_parameters` (transformers 5) and `rope_scaling` (transformers 4), those that exist."""
    keys = ("rope_parameters", "rope_scaling")
    sections = {key: reader.section(key) for key in keys if reader.get(key) is not None}
    for key, section in sections.items():
        name = "partial_rotary_factor"
        refuse_unless_neutral(f"{key}.{name}", section.get(name), 1)
        for layer_type in sorted(section.keys()):
            if isinstance(section.get(layer_type), dict):
                raise UnsupportedModelError(
                    f"{key} has an object of its own for {layer_type!r:.200}; supported: one for "
                    "all layers. Take a model that was trained with one"
                )
    found = list(sections.values())
    if len(found) == 2 and _described(found[0]) != _described(found[1]):
        raise reader.error("gives rope_parameters and rope_scaling that disagree, expected one")
    return found


def _described(section: ConfigReader) -> dict[str, object]:
    settings = {key: section.get(key) for key in section.keys() - {"type", "rope_type"}}
    return settings | {"rope_type": _rope_type(section)}


def _rope_type(section: ConfigReader) -> str:
    # "type" is the older spelling; a scaling named by either must not be passed over.
    names = [section.get(key) for key in ("rope_type", "type") if section.get(key) is not None]
    for rope_type in names:
        if rope_type not in ("default", "yarn"):
            raise UnsupportedModelError(
                f"rope_type is {rope_type!r:.200}; supported: default, yarn. Take a model that was "
                "trained with one of them"
            )
        if rope_type != names[0]:
            told = f"gives rope_type {names[0]!r} and type {rope_type!r}, expected one"
            raise section.error(told)
    return str(names[0]) if names else "default"


def _yarn(section: ConfigReader, reader: ConfigReader) -> Yarn:
    unknown = sorted(section.keys() - _YARN_KEYS)
    if unknown:
        supported = ", ".join(sorted(_YARN_KEYS))
        raise UnsupportedModelError(
            f"the YaRN settings name {', '.join(map(repr, unknown)):.200}; supported: {supported}. "
            "Take a model that was trained without them"
        )
    factor = section.number("factor", *_YARN_RANGE)
    if section.get("original_max_position_embeddings") is not None:
        original = section.whole_number("original_max_position_embeddings", most=MOST_POSITIONS)
    else:
        # As transformers: the positions that the config names are then the original ones.
        original = reader.whole_number("max_position_embeddings", most=MOST_POSITIONS)
    if section.get("attention_factor") is not None:
        attention_factor = section.number("attention_factor", *_YARN_RANGE)
    else:
        attention_factor = 1.0 if factor <= 1 else 0.1 * math.log(factor) + 1.0
    if "truncate" in section.keys() and section.get("truncate") is None:  # noqa: SIM118
        # For transformers null is false, and a missing key true.
        raise section.error("truncate is null, expected true or false")
    return Yarn(
        factor=factor,
        original_max_position_embeddings=original,
        attention_factor=attention_factor,
        beta_fast=section.number("beta_fast", *_YARN_RANGE, default=32.0),
        beta_slow=section.number("beta_slow", *_YARN_RANGE, default=1.0),
        truncate=section.boolean("truncate", default=True),
    )
