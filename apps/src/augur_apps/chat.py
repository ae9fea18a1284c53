"""Talk with a Qwen model: answers on stdout as they are made, the rest on stderr."""

from pathlib import Path
from typing import Annotated

import typer

import augur_apps.option_types as option
from augur.context import DEFAULT_CONTEXT
from augur.conversation import Conversation, WhenFull
from augur.devices import choose_device, choose_dtype, dtype_name
from augur.engine import Engine
from augur.generation_options import GivenOptions
from augur.model_source import resolve_model
from augur_apps.chatting.commands import go_on_from
from augur_apps.chatting.lines import open_lines
from augur_apps.chatting.session import HINT, run_session
from augur_apps.chatting.shown import say
from augur_apps.chatting.talk import Talk
from augur_apps.chatting.talk_file import read_talk
from augur_apps.console import Debug, clear_errors, progress_bars
from augur_weights import DEFAULT_MODEL

MAX_NEW_TOKENS = 512


app = typer.Typer(add_completion=False)


@app.command()
def main(
    model: option.Model = DEFAULT_MODEL,
    system: Annotated[
        str | None, typer.Option(help="The system message; it replaces that of --load.")
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Tokens that fit: the conversation and the answer under way.",
            show_default=f"{DEFAULT_CONTEXT}, or the model's positions where they are fewer",
        ),
    ] = None,
    when_full: Annotated[
        WhenFull,
        typer.Option(
            help="Where the next answer may not fit: refuse says so, drop leaves out the oldest "
            "messages and says which."
        ),
    ] = "refuse",
    thinking: option.Thinking = None,
    load_file: Annotated[
        Path | None,
        typer.Option("--load", metavar="FILE", help="Go on from what /save wrote."),
    ] = None,
    device: option.Device = None,
    dtype: option.DType = None,
    attention: option.Attention = None,
    max_new_tokens: option.MaxNewTokens = None,
    min_new_tokens: option.MinNewTokens = None,
    stop: option.Stop = None,
    stop_token_id: option.StopTokenId = None,
    max_time: option.MaxTime = None,
    temperature: option.Temperature = None,
    top_k: option.TopK = None,
    top_p: option.TopP = None,
    min_p: option.MinP = None,
    repetition_penalty: option.RepetitionPenalty = None,
    presence_penalty: option.PresencePenalty = None,
    frequency_penalty: option.FrequencyPenalty = None,
    logit_bias: option.LogitBias = None,
    seed: option.Seed = None,
    use_generation_config: option.UseGenerationConfig = False,
    debug: Debug = False,
) -> None:
    """Talk with a Qwen model. Each line is a message, or a command such as /help.

    In a terminal lines can be edited; from a pipe they are taken one by one. An answer takes 512
    tokens at most, unless --max-new-tokens or the generation config says otherwise.
    """
    with clear_errors(debug=debug):
        given = GivenOptions(
            max_new_tokens=max_new_tokens,
            min_new_tokens=min_new_tokens,
            stop=stop,
            stop_token_id=stop_token_id,
            max_time=max_time,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
            presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty,
            logit_bias=logit_bias,
            seed=seed,
            use_generation_config=use_generation_config,
            default_max_new_tokens=MAX_NEW_TOKENS,
        )
        loaded = () if load_file is None else read_talk(load_file)
        chosen_device = choose_device(device)
        chosen_dtype = choose_dtype(dtype, chosen_device)
        with progress_bars() as progress:
            folder = resolve_model(model, progress=progress)
        options = given.options(folder)
        engine = Engine.load(folder, device=chosen_device, dtype=chosen_dtype, attention=attention)
        conversation = Conversation(engine, context, when_full=when_full, thinking=thinking)
        conversation.check_options(options)
        lines = open_lines()
        talk = Talk(conversation, options, lines.is_interactive)
        if load_file is not None:
            go_on_from(talk, load_file, loaded)
        if system is not None:
            conversation.set_system(system)
        say(
            f"{model} on {chosen_device} in {dtype_name(chosen_dtype)}, {engine.attention} | "
            f"load {engine.load_s:.2f} s | context {conversation.context} tokens, "
            f"{conversation.cache_bytes / 1e6:.1f} MB"
        )
        if lines.is_interactive:
            say(HINT)
        status = run_session(talk, lines, debug=debug)
    if not lines.is_interactive:
        raise SystemExit(status)
