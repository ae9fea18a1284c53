"""Fetch a model, check it, and say where it lies and how large it is."""

from typing import Annotated

import typer

from augur_weights import DEFAULT_MODEL, Checkpoint, resolve
from console import MODEL_HELP, clear_errors, progress_bars
from engine import read_config


def main(
    model: Annotated[
        str,
        typer.Argument(help=MODEL_HELP),
    ] = DEFAULT_MODEL,
) -> None:
    """Fetch MODEL if it is not here yet, and check its files."""
    with clear_errors():
        with progress_bars() as progress:
            folder = resolve(model, progress=progress)
        checkpoint = Checkpoint(folder)
        read_config(checkpoint)
        dtypes = sorted({str(checkpoint.dtype(name)) for name in checkpoint.names})
        print(f"model       {model}")
        print(f"folder      {folder}")
        print(f"parameters  {checkpoint.num_parameters:,} in {len(checkpoint.names)} tensors")
        print(f"weights     {checkpoint.num_bytes:,} bytes, {', '.join(dtypes)}")


if __name__ == "__main__":
    typer.run(main)
