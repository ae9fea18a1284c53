"""Talk with a Qwen model: answers on stdout as they are made, the rest on stderr."""

from pathlib import Path
from typing import Annotated

import typer

import augur_apps.option_types as option
from augur_apps.console import Debug, clear_errors, progress_bars

app = typer.Typer(add_completion=False)


@app.command()
def main(
    model: option.Model = None,
    system: Annotated[
        str | None, typer.Option(help="The system message; it replaces that of --load.")
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Tokens that fit: the conversation and the answer under way.",
            show_default="4096, or the model's positions where they are fewer",
        ),
    ] = None,
    when_full: Annotated[
        option.WhenFull,
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
    values = dict(locals())
    import augur  # noqa: PLC0415  (what is only asked for help does not wait for torch)
    from augur.conversation import DEFAULT_MAX_NEW_TOKENS  # noqa: PLC0415
    from augur.devices import choose_device, choose_dtype, dtype_name  # noqa: PLC0415
    from augur.options import check_options  # noqa: PLC0415
    from augur_apps.chatting.commands import go_on_from  # noqa: PLC0415
    from augur_apps.chatting.lines import open_lines  # noqa: PLC0415
    from augur_apps.chatting.session import HINT, run_session  # noqa: PLC0415
    from augur_apps.chatting.shown import say  # noqa: PLC0415
    from augur_apps.chatting.talk import Talk  # noqa: PLC0415
    from augur_apps.chatting.talk_file import read_talk  # noqa: PLC0415
    from augur_weights import DEFAULT_MODEL  # noqa: PLC0415

    with clear_errors(debug=debug):
        given = option.given(values)
        check_options(given)
        loaded = () if load_file is None else read_talk(load_file)
        choose_dtype(dtype, choose_device(device))  # refused before anything is fetched
        with progress_bars() as progress:
            llm = augur.load(
                model, device=device, dtype=dtype, attention=attention, progress=progress
            )
        options = llm.options(DEFAULT_MAX_NEW_TOKENS, **given)
        conversation = llm.conversation(context=context, when_full=when_full, thinking=thinking)
        conversation.check_options(options)
        lines = open_lines()
        talk = Talk(conversation, options, lines.is_interactive)
        if load_file is not None:
            go_on_from(talk, load_file, loaded)
        if system is not None:
            conversation.set_system(system)
        say(
            f"{model or DEFAULT_MODEL} on {llm.model.device} in {dtype_name(llm.model.dtype)}, "
            f"{llm.attention} | load {llm.load_s:.2f} s | context {conversation.context} tokens, "
            f"{conversation.cache_bytes / 1e6:.1f} MB"
        )
        if lines.is_interactive:
            say(HINT)
        status = run_session(talk, lines, debug=debug)
    if not lines.is_interactive:
        raise SystemExit(status)
