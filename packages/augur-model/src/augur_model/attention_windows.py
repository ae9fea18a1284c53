"""Which layers see a sliding window only, read from `config.json`."""

from augur_model.config_reader import ConfigReader
from augur_model.errors import ConfigError, UnsupportedModelError

FULL, SLIDING = "full_attention", "sliding_attention"


def read_attention_windows(reader: ConfigReader) -> tuple[int | None, ...]:
    """How many tokens a query of each layer sees, itself included; None for all of them.

    `layer_types` says it layer by layer. Without it, `use_sliding_window` gives the window to all
    layers from `max_window_layers` on, as Qwen2's own code does.

    Returns:
        one entry for each layer; empty where every layer sees everything.

    Raises:
        UnsupportedModelError: a layer type other than full_attention and sliding_attention.
        ConfigError: the keys are missing, malformed, or do not fit together.
    """
    num_layers = reader.positive_int("num_hidden_layers")
    layer_types = reader.array("layer_types")
    sliding = reader.boolean("use_sliding_window", default=False)
    if not layer_types and sliding:
        first_sliding = reader.whole_number("max_window_layers")
        layer_types = [FULL if i < first_sliding else SLIDING for i in range(num_layers)]
    for layer_type in layer_types:
        if layer_type not in (FULL, SLIDING):
            raise UnsupportedModelError(
                f"layer_types names {layer_type!r:.200}; supported: {FULL}, {SLIDING}"
            )
    if SLIDING not in layer_types:
        return ()
    if len(layer_types) != num_layers:
        raise ConfigError(
            f"config.json: layer_types names {len(layer_types)} layers, "
            f"num_hidden_layers is {num_layers}"
        )
    if not sliding:
        raise ConfigError(
            f"config.json: layer_types names {SLIDING}, but use_sliding_window is not true"
        )
    window = reader.positive_int("sliding_window")
    return tuple(window if layer_type == SLIDING else None for layer_type in layer_types)
