"""The options that programs share, declared once: names, help and what a command line may hold.

Whether values are in their ranges, and go together, is for `augur.options` to say. Nothing heavy is
imported here: `--help` is not to wait for torch.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

if TYPE_CHECKING:
    from augur import Options
    from augur.batch_limits import BatchLimits

# As augur has them.
AttentionName = Literal["eager", "eager-f32", "sdpa"]
DTypeName = Literal["float32", "bfloat16", "float16"]
WhenFull = Literal["refuse", "drop"]

_choosing = partial(typer.Option, rich_help_panel="Choosing tokens")
_ending = partial(typer.Option, rich_help_panel="Ending the text")
many = partial(typer.Option, rich_help_panel="Many prompts")

MODEL_HELP = "Hub id (org/name or org/name@revision), folder, .gguf file, or the embedded default."
MODEL_DEFAULT = "the embedded default"

Model = Annotated[str | None, typer.Option(help=MODEL_HELP, show_default=MODEL_DEFAULT)]
Device = Annotated[
    str | None,
    typer.Option(help="cuda, cuda:1, mps or cpu.", show_default="the first of them there is"),
]
DType = Annotated[
    DTypeName | None,
    typer.Option(
        help="Of weights and cache.",
        show_default="bfloat16 where the device computes in it natively, else float32",
    ),
]
Attention = Annotated[
    AttentionName | None,
    typer.Option(
        help="eager is the bit-exact reference; eager-f32 computes attention in float32, where "
        "scores that float16 cannot hold do not overflow; sdpa is fused and close to both.",
        show_default="eager, and for float16 eager-f32",
    ),
]
Thinking = Annotated[
    bool | None,
    typer.Option(
        "--thinking/--no-thinking",
        help="Whether the model thinks before it answers, where its chat template leaves the "
        "choice (Qwen3's enable_thinking).",
        show_default="as the template does",
    ),
]
MaxNewTokens = Annotated[int | None, _ending(min=1, help="Stop after this many tokens.")]
Stop = Annotated[
    list[str] | None,
    _ending(metavar="TEXT", help="End before this text, wherever it comes up. May be repeated."),
]
StopTokenId = Annotated[
    list[int] | None,
    _ending(
        metavar="ID",
        min=0,
        help="End with this token, as with the checkpoint's EOS. May be repeated.",
    ),
]
MinNewTokens = Annotated[
    int | None,
    _ending(
        help="No EOS and no --stop-token-id before there are this many; --stop still ends.",
        show_default="0",
    ),
]
MaxTime = Annotated[
    float | None,
    _ending(
        metavar="SECONDS",
        help="Begin no other token after this long; at least one is made. How long a text gets "
        "then differs from run to run.",
        show_default="no limit",
    ),
]
Temperature = Annotated[
    float | None,
    _choosing(
        help="Draw tokens at random: below 1 more certain, above 1 more even, 1 as the model says; "
        "1e-6 to 1e6. 0 takes the likeliest after bias and penalties; of equally likely tokens a "
        "draw takes either, 0 the lowest id.",
        show_default="greedy: the raw argmax",
    ),
]
TopK = Annotated[
    int | None, _choosing(help="Draw among the k likeliest tokens.", show_default="all")
]
TopP = Annotated[
    float | None,
    _choosing(
        help="Draw among the likeliest tokens that together exceed this probability.",
        show_default="1: all",
    ),
]
MinP = Annotated[
    float | None,
    _choosing(
        help="Draw among tokens at least this fraction as likely as the likeliest.",
        show_default="0: all",
    ),
]
RepetitionPenalty = Annotated[
    float | None,
    _choosing(
        help="Above 1 makes tokens of the prompt and of the text so far less likely; 1e-6 to 1e6.",
        show_default="1: off",
    ),
]
PresencePenalty = Annotated[
    float | None,
    _choosing(
        help="Subtracted from the logit of each token generated so far.", show_default="0: off"
    ),
]
FrequencyPenalty = Annotated[
    float | None,
    _choosing(
        help="Subtracted from a token's logit for each time it was generated.",
        show_default="0: off",
    ),
]
LogitBias = Annotated[
    list[str] | None,
    _choosing(
        metavar="ID=VALUE", help="Added to this token's logit; -inf forbids it. May be repeated."
    ),
]
Seed = Annotated[
    int | None,
    _choosing(
        help="Of the random draws: the same seed draws the same text. The figures of an answer "
        "tell it.",
        show_default="a fresh one",
    ),
]
Logprobs = Annotated[
    int | None,
    _choosing(
        metavar="K",
        help="Report each token's log-probability, and the K likeliest tokens' beside it, by the "
        "model's own logits.",
        show_default="none",
    ),
]
UseGenerationConfig = Annotated[
    bool,
    _choosing(
        "--use-generation-config",
        help="Take what is not given here from the checkpoint's generation_config.json, as "
        "transformers does: do_sample, temperature, top_k, top_p, min_p, repetition_penalty, "
        "limits and stop strings. A --temperature above 0 stands for do_sample. Where tokens are "
        "drawn and nobody says a top-k, it is transformers' 50. What the file asks for and augur "
        "does not support is refused.",
    ),
]

MaxRunning = Annotated[
    int | None,
    many(
        help="Generate so many texts at a time. 1 answers each alone, with the bits it has alone; "
        "together, logits differ in their last bits, so that one of two tokens that are nearly "
        "equally likely may be taken for the other, and log-probabilities differ in their last "
        "digits.",
        show_default="16",
    ),
]
BatchTokens = Annotated[
    int | None,
    many(
        help="Feed at most so many tokens in a step, all texts together; prompts in chunks.",
        show_default="256",
    ),
]
CacheMemory = Annotated[
    str | None,
    many(
        metavar="SIZE",
        help="For the keys and values of all texts together: bytes, or with KB, MB or GB (10^9). "
        "Texts for which there is no room wait.",
        show_default="what those that run may need, at most half of what is free",
    ),
]

# Options whose name is not that of the argument with "--" before it and "-" in it.
_SPELLED = {
    "stop_strings": "--stop",
    "stop_token_ids": "--stop-token-id",
    "max_time_s": "--max-time",
    "thinking": "--thinking and --no-thinking",
    "retry": "/retry",
    "reset": "/reset",
}


def spelled(argument: str) -> str:
    """How a person writes what is called so in Python."""
    return _SPELLED.get(argument, "--" + argument.replace("_", "-"))


def given(values: Mapping[str, Any]) -> "Options":
    """What the options of a command line ask for, under Python's names.

    Args:
        values: every argument of the program; those of other kinds are passed over.

    Raises:
        OptionError: `--logit-bias` is not well formed.
    """
    from augur import Options  # noqa: PLC0415  (it brings torch)

    in_python = {option.strip("-").replace("-", "_"): name for name, option in _SPELLED.items()}
    options = {in_python.get(name, name): value for name, value in values.items()}
    if options.get("logit_bias"):
        options["logit_bias"] = _biases(options["logit_bias"])
    names = [name for name in Options.__annotations__ if options.get(name) not in (None, [])]
    return cast("Options", {name: options[name] for name in names})


def limits(values: Mapping[str, Any]) -> "BatchLimits":
    """How many texts are answered together, of every argument of the program.

    Raises:
        OptionError: a value is wrong, or says nothing beside another.
    """
    from augur.batch_limits import BatchLimits  # noqa: PLC0415

    said = {name: values[name] for name in ("max_running", "batch_tokens")}
    said["cache_memory"] = _bytes(values["cache_memory"])
    return BatchLimits(**{name: value for name, value in said.items() if value is not None})


def _bytes(size: str | None) -> int | None:
    from augur import OptionError  # noqa: PLC0415

    if size is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)B?", size.strip(), re.ASCII | re.IGNORECASE)
    if found is None:
        raise OptionError("{cache_memory} is %r, expected a size, such as 500MB or 2GB", size)
    number, unit = found.groups()
    return int(float(number) * 1000 ** " KMG".index(unit.upper() or " "))


def _biases(entries: list[str]) -> dict[int, float]:
    from augur import OptionError  # noqa: PLC0415

    biases: dict[int, float] = {}
    for entry in entries:
        token_id, _, value = entry.partition("=")
        try:
            bias = {int(token_id): float(value)}
        except ValueError:
            raise OptionError(
                "{logit_bias} is %r, expected ID=VALUE, such as 151645=-2.5, or ID=-inf to forbid "
                "a token",
                entry,
            ) from None
        if biases.keys() & bias.keys():
            raise OptionError("{logit_bias} names token %s twice; give it once", token_id)
        biases |= bias
    return biases
