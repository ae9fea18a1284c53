"""A table of ops on trial, found by the name that a person types."""

import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path

from augur_model import Ops
from augur_proof.errors import ProofError


def load_ops(spec: str) -> Ops:
    """Import the table that `MODULE:NAME` names.

    Modules of the current folder are found, as with `python -m`.

    Raises:
        ProofError: it cannot be imported, or is no table of ops.
    """
    table, name = named(spec, "an augur_model.Ops")
    if not isinstance(table, Ops):
        raise ProofError(
            f"{spec}: {name} is a {type(table).__name__}, expected an augur_model.Ops; make one "
            "with dataclasses.replace(augur_model.EAGER, rms_norm=...)"
        )
    for field in fields(table):
        if not callable(getattr(table, field.name)):
            raise ProofError(f"{spec}: its {field.name} cannot be called")
    return table


def named(spec: str, expected: str) -> tuple[object, str]:
    """What `MODULE:NAME` names, and the name; what is expected there is for the message.

    Raises:
        ProofError: it cannot be imported, or is not there.
    """
    module_name, colon, name = spec.partition(":")
    if not (module_name and colon and name):
        raise ProofError(f"{spec}: expected MODULE:NAME, such as my_kernels:TABLE")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = import_module(module_name)
    except Exception as error:  # whatever the module does when it is run
        raise ProofError(
            f"{spec}: importing {module_name} failed: {type(error).__name__}: {error}"
        ) from error
    if not hasattr(module, name):
        raise ProofError(f"{spec}: {name} does not exist, expected {expected}")
    return getattr(module, name), name
