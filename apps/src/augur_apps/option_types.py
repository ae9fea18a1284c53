"""The options that programs share, declared once: names, help and what a command line may hold.

Whether values are in their ranges, and go together, is for `GivenOptions` to say.
"""

from typing import Annotated

import typer

from augur.attention_choice import ATTENTION_DEFAULT, ATTENTION_HELP, AttentionName
from augur.devices import DTypeName
from augur_apps.console import MODEL_HELP

_CHOICE = "Choosing tokens"
_ENDING = "Ending the text"

Model = Annotated[str, typer.Option(help=MODEL_HELP)]
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
    AttentionName | None, typer.Option(help=ATTENTION_HELP, show_default=ATTENTION_DEFAULT)
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
MaxNewTokens = Annotated[
    int | None,
    typer.Option(min=1, help="Stop after this many tokens.", rich_help_panel=_ENDING),
]
Stop = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        help="End before this text, wherever it comes up. May be repeated.",
        rich_help_panel=_ENDING,
    ),
]
StopTokenId = Annotated[
    list[int] | None,
    typer.Option(
        metavar="ID",
        min=0,
        help="End with this token, as with the checkpoint's EOS. May be repeated.",
        rich_help_panel=_ENDING,
    ),
]
MinNewTokens = Annotated[
    int | None,
    typer.Option(
        help="No EOS and no --stop-token-id before there are this many; --stop still ends.",
        show_default="0",
        rich_help_panel=_ENDING,
    ),
]
MaxTime = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="Begin no other token after this long; at least one is made. How long a text gets "
        "then differs from run to run.",
        show_default="no limit",
        rich_help_panel=_ENDING,
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        help="Draw tokens at random: below 1 more certain, above 1 more even, 1 as the model says; "
        "1e-6 to 1e6. 0 takes the likeliest after bias and penalties.",
        show_default="greedy: the raw argmax",
        rich_help_panel=_CHOICE,
    ),
]
TopK = Annotated[
    int | None,
    typer.Option(
        help="Draw among the k likeliest tokens.", show_default="all", rich_help_panel=_CHOICE
    ),
]
TopP = Annotated[
    float | None,
    typer.Option(
        help="Draw among the likeliest tokens that together exceed this probability.",
        show_default="1: all",
        rich_help_panel=_CHOICE,
    ),
]
MinP = Annotated[
    float | None,
    typer.Option(
        help="Draw among tokens at least this fraction as likely as the likeliest.",
        show_default="0: all",
        rich_help_panel=_CHOICE,
    ),
]
RepetitionPenalty = Annotated[
    float | None,
    typer.Option(
        help="Above 1 makes tokens of the prompt and of the text so far less likely; 1e-6 to 1e6.",
        show_default="1: off",
        rich_help_panel=_CHOICE,
    ),
]
PresencePenalty = Annotated[
    float | None,
    typer.Option(
        help="Subtracted from the logit of each token generated so far.",
        show_default="0: off",
        rich_help_panel=_CHOICE,
    ),
]
FrequencyPenalty = Annotated[
    float | None,
    typer.Option(
        help="Subtracted from a token's logit for each time it was generated.",
        show_default="0: off",
        rich_help_panel=_CHOICE,
    ),
]
LogitBias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ID=VALUE",
        help="Added to this token's logit; -inf forbids it. May be repeated.",
        rich_help_panel=_CHOICE,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        help="Of the random draws: the same seed draws the same text. The figures of an answer "
        "tell it.",
        show_default="a fresh one",
        rich_help_panel=_CHOICE,
    ),
]
Logprobs = Annotated[
    int | None,
    typer.Option(
        metavar="K",
        help="Report each token's log-probability, and the K likeliest tokens' beside it, by the "
        "model's own logits.",
        show_default="none",
        rich_help_panel=_CHOICE,
    ),
]
UseGenerationConfig = Annotated[
    bool,
    typer.Option(
        "--use-generation-config",
        help="Take what is not given here from the checkpoint's generation_config.json, as "
        "transformers does: do_sample, temperature, top_k, top_p, min_p, repetition_penalty, "
        "limits and stop strings. A --temperature above 0 stands for do_sample. Where tokens are "
        "drawn and nobody says a top-k, it is transformers' 50. What the file asks for and augur "
        "does not support is refused.",
        rich_help_panel=_CHOICE,
    ),
]
