"""Which layers see a sliding window only, read from `config.json`."""

from augur_model.config_reader import ConfigReader
from augur_model.errors import UnsupportedModelError

FULL, SLIDING = "full_attention", "sliding_attention"


def read_attention_windows(reader: ConfigReader, num_layers: int) -> tuple[int | None, ...]:
    """How many tokens a query of each layer sees, itself included; None for all of them.

    `layer_types` says it layer by layer. Without it, `use_sliding_window` gives the window to all
    layers from `max_window_layers` on, as Qwen2's own code does.

    Returns:
        one entry for each layer; empty where every layer sees everything.

    Raises:
        UnsupportedModelError: a layer type other than full_attention and sliding_attention.
        ConfigError: the keys are missing, malformed, or do not fit together.
    """
    layer_types = reader.array("layer_types")
    sliding = reader.boolean("use_sliding_window", default=False)
    given = reader.get("layer_types") is not None
    if not given and sliding:
        first_sliding = reader.whole_number("max_window_layers", least=0)
        layer_types = [FULL if i < first_sliding else SLIDING for i in range(num_layers)]
    for layer_type in layer_types:
        if layer_type not in (FULL, SLIDING):
            raise UnsupportedModelError(
                f"layer_types names {layer_type!r:.200}; supported: {FULL}, {SLIDING}. Take "
                "a model that was trained with them"
            )
    if given and len(layer_types) != num_layers:
        raise reader.error(
            f"has layer_types of {len(layer_types)} layers, expected {num_layers}, as "
            "num_hidden_layers says"
        )
    if SLIDING not in layer_types:
        return ()
    if not sliding:
        raise reader.error(f"has layer_types with {SLIDING}, but use_sliding_window is not true")
    window = reader.whole_number("sliding_window")
    if window == 1:
        raise UnsupportedModelError(
            "sliding_window is 1, so that a token sees itself alone; supported: 2 and more. Take a "
            "model that was trained with them"
        )
    return tuple(window if layer_type == SLIDING else None for layer_type in layer_types)
