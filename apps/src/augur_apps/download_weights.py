"""Fetch a model, check it, and say where it lies and how large it is."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import augur_apps.option_types as option
from augur_apps.console import (
    EXIT_WRONG_INPUT,
    Debug,
    clear_errors,
    progress_bars,
    say_error,
)
from augur_files import one_line

if TYPE_CHECKING:
    from augur_weights import Checkpoint

app = typer.Typer(add_completion=False)


@app.command()
def main(
    model: Annotated[
        str | None,
        typer.Argument(help=option.MODEL_HELP, show_default=option.MODEL_DEFAULT),
    ] = None,
    verify_all: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Read every byte: compare the files' digests with those that are known of the "
            "model, look for weights that are not finite, and compare tied weights that are stored "
            "twice. Nothing is changed.",
        ),
    ] = False,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Only tell what memory MODEL takes, weights and cache, in each dtype. Of a Hub "
            "model config.json alone is fetched; a folder need hold nothing else.",
        ),
    ] = False,
    context: Annotated[
        int | None,
        typer.Option(
            help="With --plan: tokens of prompt and answer together.",
            show_default="all that the model has positions for",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --plan: one JSON object, sizes in bytes.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Fetch MODEL if it is not here yet, and check its files; or tell what memory it takes."""
    from augur.errors import OptionError  # noqa: PLC0415  (help does not wait for torch)
    from augur.sources import resolve_model  # noqa: PLC0415
    from augur_weights import DEFAULT_MODEL, verify  # noqa: PLC0415

    with clear_errors(debug=debug):
        model = model or DEFAULT_MODEL
        if plan:
            if verify_all:
                raise OptionError("{plan} fetches no weights to {verify}; give one of the two")
            _plan(model, context, as_json)
            return
        if context is not None or as_json:
            raise OptionError("{context} and {json} go with {plan}; add it, or leave them out")
        with progress_bars() as progress:
            folder = resolve_model(model, progress=progress)
            verification = verify(folder, progress=progress) if verify_all else None
        if verification is not None and verification.faults:
            for fault in verification.faults:
                say_error(fault)
            raise SystemExit(EXIT_WRONG_INPUT)
        checkpoint = _usable(folder, compare_tied=verify_all)
        dtypes = sorted({str(checkpoint.dtype(name)) for name in checkpoint.names})
        print(f"model       {one_line(model)}")
        print(f"folder      {one_line(str(folder))}")
        print(f"parameters  {checkpoint.num_parameters:,} in {len(checkpoint.names)} tensors")
        print(f"weights     {checkpoint.num_bytes:,} bytes, {', '.join(dtypes)}")
        if verification is not None:
            files = f"{verification.num_files} files as " if verification.num_files else ""
            print(f"digests     {files}{one_line(verification.known_by)}")
            print(f"values      finite in all {verification.num_tensors} tensors")


def _plan(model: str, context: int | None, as_json: bool) -> None:
    from augur import MemoryPlan  # noqa: PLC0415
    from augur.sources import config_of  # noqa: PLC0415
    from augur_weights import resolve_config  # noqa: PLC0415

    with progress_bars() as progress:
        found = resolve_config(model, progress=progress)
    plan = MemoryPlan.of(config_of(model, found), context)
    if as_json:
        print(json.dumps({"model": model, **plan.as_json()}))
    else:
        print(f"model       {one_line(model)}\n{plan.as_text()}")


def _usable(folder: Path, *, compare_tied: bool) -> "Checkpoint":
    """Check all that the programs which run a model ask of its folder, but for room in memory."""
    import torch  # noqa: PLC0415

    from augur.loading import check_vocabularies, eos_token_ids, read_config  # noqa: PLC0415
    from augur_model import QwenForCausalLM  # noqa: PLC0415
    from augur_tok import Tokenizer  # noqa: PLC0415
    from augur_weights import Checkpoint, check_fit  # noqa: PLC0415

    checkpoint = Checkpoint(folder)
    with torch.device("meta"):
        model = QwenForCausalLM(read_config(checkpoint))
    check_fit(model, checkpoint, compare_tied=compare_tied)
    eos_token_ids(checkpoint)
    check_vocabularies(checkpoint, Tokenizer.from_folder(folder))
    return checkpoint
