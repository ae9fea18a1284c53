"""A kernel on trial, found by the name that a person types."""

import inspect
from collections.abc import Mapping
from dataclasses import fields

from augur_model import Ops
from augur_proof.errors import ProofError
from augur_proof.kernels.op import Kernel, Op
from augur_proof.ops_table import named


def load_kernels(spec: str, ops: Mapping[str, Op], op: str | None = None) -> dict[str, Kernel]:
    """The kernels that `MODULE:NAME` names, by the op that each replaces.

    It may be a function, and then the op must be said; an `augur_model.Ops`, or a mapping of names
    of ops to functions, of which all are taken, or the one that is said.

    Raises:
        ProofError: it cannot be imported or called with the op's arguments, or the op is not known.
    """
    known = f"expected one of {', '.join(ops)}"
    if op is not None and op not in ops:
        raise ProofError(f"--op {op}: no such op, {known}")
    found, name = named(spec, "a function, or a table of them")
    if isinstance(found, Ops):
        kernels = {field.name: getattr(found, field.name) for field in fields(found)}
    elif isinstance(found, Mapping):
        kernels = dict(found)
    elif op is None:
        raise ProofError(f"{spec}: say with --op which op {name} replaces, {known}")
    else:
        kernels = {op: found}
    if op is not None and op not in kernels:
        raise ProofError(f"{spec}: {name} has no {op}; it has {', '.join(map(str, kernels))}")
    chosen = kernels if op is None else {op: kernels[op]}
    for each, kernel in chosen.items():
        if each not in ops:
            raise ProofError(f"{spec}: {name} has an entry {each}, which is no op; {known}")
        _check_callable(spec, kernel, ops[each])
    return chosen


def _check_callable(spec: str, kernel: object, op: Op) -> None:
    if not callable(kernel):
        raise ProofError(f"{spec}: {op.name} is a {type(kernel).__name__}, expected a function")
    try:
        signature = inspect.signature(kernel)
    except ValueError:
        return  # some functions of compiled modules tell nothing of themselves
    try:
        signature.bind(*op.arguments)
    except TypeError as error:
        raise ProofError(
            f"{spec}: it takes {signature}, and {op.name} is called as "
            f"{op.name}({', '.join(op.arguments)}): {error}"
        ) from error
