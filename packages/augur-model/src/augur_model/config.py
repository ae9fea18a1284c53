"""The few numbers that define a Qwen decoder, cut loose from the checkpoint's `config.json`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from augur_model.attention_windows import read_attention_windows
from augur_model.config_reader import ConfigReader
from augur_model.errors import ConfigError
from augur_model.family import FAMILIES, Family
from augur_model.rope_config import MOST_POSITIONS, Yarn, read_rope_theta, read_yarn
from augur_model.unsupported import supported_family

# Far beyond any model, and refused before anything is built: every layer is an object, the rotary
# frequencies are computed for every dimension of a head, and of so many parameters torch cannot
# even describe the shapes.
_MOST_LAYERS = 1000
_MOST_HEAD_DIM = 2**16
_MOST_PARAMETERS = 2**48

# Qwen's is 1e-5 or 1e-6. Above, a norm would hardly depend on its input; below, float32 holds none.
_RMS_NORM_EPS_RANGE = (1e-30, 1.0)


@dataclass(frozen=True)
class QwenConfig:
    """Shapes and constants of a Qwen decoder.

    Attributes:
        vocab_size: rows of the embedding, padding included (more than the tokenizer knows).
        hidden_size: width of the residual stream.
        intermediate_size: width inside the MLP.
        num_hidden_layers: decoder blocks.
        num_attention_heads: query heads.
        num_key_value_heads: key/value heads, each shared by
            `num_attention_heads / num_key_value_heads` neighbouring query heads.
        head_dim: width of one head. Not always `hidden_size / num_attention_heads`.
        max_position_embeddings: positions the model was made for, without YaRN.
        rms_norm_eps: added to the mean square before its root is taken.
        rope_theta: base of the rotary frequencies.
        attention_bias: whether q, k and v have biases (o never has one).
        tie_word_embeddings: whether the LM head is the embedding matrix.
        qk_norm: whether each head of q and k is normalised before the rotation.
        yarn: how the rotary frequencies are stretched for long contexts; None leaves them.
        attention_windows: for each layer how many tokens a query sees, itself included; None
            where it sees all. Empty: all layers see all.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float
    attention_bias: bool
    tie_word_embeddings: bool
    qk_norm: bool = False
    yarn: Yarn | None = None
    attention_windows: tuple[int | None, ...] = ()

    def __post_init__(self) -> None:
        if self.num_attention_heads % self.num_key_value_heads:
            raise ConfigError(
                f"num_attention_heads is {self.num_attention_heads}, which is not a multiple of "
                f"num_key_value_heads, {self.num_key_value_heads}. Correct one of the two"
            )
        if self.head_dim % 2:
            raise ConfigError(
                f"head_dim is {self.head_dim}; rotary embedding needs an even one. Correct it, or "
                "hidden_size and num_attention_heads, from which it follows where it is left out"
            )
        if self.num_parameters > _MOST_PARAMETERS:
            raise ConfigError(
                f"the sizes come to more than {_MOST_PARAMETERS:.1e} parameters: vocab_size, "
                "hidden_size, intermediate_size, head_dim or a number of heads is wrong. "
                "Compare them with the model's published ones"
            )
        if self.head_dim > _MOST_HEAD_DIM:
            raise ConfigError(
                f"head_dim is {self.head_dim}, expected at most {_MOST_HEAD_DIM}. Correct it"
            )

    @property
    def num_positions(self) -> int:
        """Positions that may be used: `max_position_embeddings`, or what YaRN stretches them to.

        Qwen's configs keep the original length there when YaRN is switched on.
        """
        if self.yarn is None:
            return self.max_position_embeddings
        stretched = int(self.yarn.factor * self.yarn.original_max_position_embeddings)
        return max(self.max_position_embeddings, stretched)

    @property
    def num_parameters(self) -> int:
        """Parameters of the whole network; a tied matrix counts once. Nothing is built for it."""
        query_size = self.num_attention_heads * self.head_dim
        key_value_size = self.num_key_value_heads * self.head_dim
        projected = query_size + 2 * key_value_size
        attention = self.hidden_size * (projected + query_size)
        if self.attention_bias:
            attention += projected
        if self.qk_norm:
            attention += 2 * self.head_dim
        mlp = 3 * self.hidden_size * self.intermediate_size
        norms = 2 * self.hidden_size
        matrices = 1 if self.tie_word_embeddings else 2
        return (
            self.num_hidden_layers * (attention + mlp + norms)
            + matrices * self.vocab_size * self.hidden_size
            + self.hidden_size  # the last norm
        )

    @classmethod
    def from_dict(
        cls, config: Mapping[str, Any], families: Mapping[str, Family] = FAMILIES
    ) -> "QwenConfig":
        """Read a checkpoint's `config.json`, as transformers 4 or 5 wrote it.

        Args:
            config: the parsed file.
            families: those that are known, by model type.

        Raises:
            UnsupportedModelError: the config asks for what is not computed here: another model
                type or activation, another scaling of RoPE than YaRN, quantised weights, or a
                setting of other decoders that would change the result. Keys of which nothing is
                known are passed over.
            ConfigError: a key is missing or has a value of the wrong type or range.
        """
        reader = ConfigReader(config)
        family = supported_family(reader, families)
        num_attention_heads = reader.whole_number("num_attention_heads")
        hidden_size = reader.whole_number("hidden_size")
        # Bounded before what is read layer by layer.
        num_hidden_layers = reader.whole_number("num_hidden_layers", most=_MOST_LAYERS)
        return cls(
            vocab_size=reader.whole_number("vocab_size"),
            hidden_size=hidden_size,
            intermediate_size=reader.whole_number("intermediate_size"),
            num_hidden_layers=num_hidden_layers,
            num_attention_heads=num_attention_heads,
            num_key_value_heads=reader.whole_number("num_key_value_heads", num_attention_heads),
            head_dim=_head_dim(reader, family, hidden_size, num_attention_heads),
            max_position_embeddings=reader.whole_number(
                "max_position_embeddings", most=MOST_POSITIONS
            ),
            rms_norm_eps=reader.number("rms_norm_eps", *_RMS_NORM_EPS_RANGE),
            rope_theta=read_rope_theta(reader),
            attention_bias=family.attention_bias,
            tie_word_embeddings=reader.boolean("tie_word_embeddings", default=False),
            qk_norm=family.qk_norm,
            yarn=read_yarn(reader),
            attention_windows=read_attention_windows(reader, num_hidden_layers),
        )


def _head_dim(
    reader: ConfigReader, family: Family, hidden_size: int, num_attention_heads: int
) -> int:
    if reader.get("head_dim") is not None or family.names_head_dim:
        return reader.whole_number("head_dim")
    if hidden_size % num_attention_heads:
        raise reader.error(
            f"has no head_dim, and hidden_size {hidden_size} is not a multiple of "
            f"num_attention_heads {num_attention_heads}"
        )
    return hidden_size // num_attention_heads
