"""Definitions and workloads in flashinfer-bench's JSON, so that its users can take them, and back.

A definition fixes the sizes that a model fixes; what varies is an axis. The reference is the plain
op's own source. Layouts and kinds of values have no place there: what is imported is contiguous and
normal. Arguments that may be None have none either: attention is exported causal, linear without
bias.
"""

import inspect
import json
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from augur_model.ops import (
    apply_rope,
    causal_mask,
    eager_attention,
    repeat_kv,
    rms_norm,
    rotate_half,
    swiglu,
)
from augur_proof.errors import ProofError
from augur_proof.kernels.linear import plain_linear
from augur_proof.kernels.op import Workload, dtype_name
from augur_proof.kernels.rms_norm import add_rms_norm
from augur_proof.kernels.token_choice import greedy_token
from augur_proof.tolerance import DTYPES

_TAG = "augur:"
_ROWS = ("batch", "rows", "width")
_HEADS = ("batch", "heads", "queries", "head_dim")
_KEYS = ("batch", "kv_heads", "keys", "head_dim")


class _Form(NamedTuple):
    """How an op is written down: axes of each tensor, None for a number."""

    functions: tuple[Any, ...]
    inputs: Mapping[str, tuple[str, ...] | None]
    outputs: Mapping[str, tuple[str, ...]]
    fixed: tuple[str, ...]
    run: str


_FORMS: Mapping[str, _Form] = {
    "rms_norm": _Form(
        (rms_norm,),
        {"hidden_states": _ROWS, "weight": ("width",), "eps": None},
        {"normed": _ROWS},
        ("width",),
        "rms_norm(hidden_states, weight, eps)",
    ),
    "add_rms_norm": _Form(
        (rms_norm, add_rms_norm),
        {"hidden_states": _ROWS, "residual": _ROWS, "weight": ("width",), "eps": None},
        {"normed": _ROWS, "summed": _ROWS},
        ("width",),
        "add_rms_norm(hidden_states, residual, weight, eps)",
    ),
    "apply_rope": _Form(
        (rotate_half, apply_rope),
        {
            "heads_in": ("batch", "heads", "length", "head_dim"),
            "cos": ("tables", "length", "head_dim"),
            "sin": ("tables", "length", "head_dim"),
        },
        {"rotated": ("batch", "heads", "length", "head_dim")},
        ("heads", "head_dim"),
        "apply_rope(heads_in, cos, sin)",
    ),
    "swiglu": _Form(
        (swiglu,), {"gate": _ROWS, "up": _ROWS}, {"gated": _ROWS}, ("width",), "swiglu(gate, up)"
    ),
    "linear": _Form(
        (plain_linear,),
        {"x": ("batch", "rows", "in"), "weight": ("out", "in")},
        {"product": ("batch", "rows", "out")},
        ("in", "out"),
        "plain_linear(x, weight, None)",
    ),
    "attention": _Form(
        (causal_mask, repeat_kv, eager_attention),
        {"query": _HEADS, "key": _KEYS, "value": _KEYS, "scale": None},
        {"attended": _HEADS},
        ("heads", "kv_heads", "head_dim"),
        "eager_attention(query, key, value, None, scale)",
    ),
    "greedy_token": _Form(
        (greedy_token,),
        {"logits": ("batch", "vocabulary")},
        {"token_ids": ("batch",)},
        ("vocabulary",),
        "greedy_token(logits)",
    ),
}


def exportable(workload: Workload) -> bool:
    """Whether there is a way to write it down."""
    axes = workload.axes
    return workload.op in _FORMS and not axes.get("bias") and not axes.get("kind")


def definition_of(workload: Workload) -> dict[str, Any]:
    """The definition that a workload belongs to."""
    form, axes = _FORMS[workload.op], workload.axes
    dtype = dtype_name(workload.dtype)
    used = {
        axis for shape in (*form.inputs.values(), *form.outputs.values()) for axis in shape or ()
    }
    sizes = "_".join(f"{axis}{axes[axis]}" for axis in form.fixed)
    sources = "\n\n".join(inspect.getsource(function) for function in form.functions)
    head = "import torch\nfrom torch import Tensor\nfrom torch.nn import functional\n\n\n"
    run = f"def run({', '.join(form.inputs)}):\n    return {form.run}\n"
    return {
        "name": f"augur_{workload.op}_{sizes}_{dtype}",
        "op_type": workload.op,
        "description": f"{workload.op} of Qwen models, as augur_model.ops computes it.",
        "tags": [f"{_TAG}{workload.op}"],
        "axes": {
            axis: {"type": "const", "value": axes[axis]} if axis in form.fixed else {"type": "var"}
            for axis in sorted(used)
        },
        "inputs": {
            name: {"shape": shape and list(shape), "dtype": dtype if shape else "float32"}
            for name, shape in form.inputs.items()
        },
        "outputs": {
            name: {"shape": list(shape), "dtype": "int64" if name == "token_ids" else dtype}
            for name, shape in form.outputs.items()
        },
        "constraints": ["heads % kv_heads == 0"] if "kv_heads" in used else [],
        "reference": f"{head}{sources}\n\n{run}",
    }


def trace_of(workload: Workload) -> dict[str, Any]:
    """One line of a workloads file: a trace that has neither a solution nor an evaluation."""
    form, definition = _FORMS[workload.op], definition_of(workload)
    scalars = dict(workload.scalars)
    if "head_dim" in workload.axes:
        scalars["scale"] = workload.axes["head_dim"] ** -0.5
    varying = {
        a: workload.axes[a] for a, kind in definition["axes"].items() if kind["type"] == "var"
    }
    inputs = {
        name: {"type": "random"} if shape else {"type": "scalar", "value": scalars[name]}
        for name, shape in form.inputs.items()
    }
    content = json.dumps([definition["name"], varying, inputs], sort_keys=True)
    return {
        "definition": definition["name"],
        "workload": {
            "axes": varying,
            "inputs": inputs,
            "uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, content)),
        },
        "solution": None,
        "evaluation": None,
    }


def export(workloads: Iterable[Workload]) -> dict[str, str]:
    """Path -> text of the files of a trace set: a definition each, and its workloads, a line each.

    Two workloads that differ in layout or values alone are one there.
    """
    files: dict[str, str] = {}
    lines: dict[str, dict[str, str]] = {}
    for workload in filter(exportable, workloads):
        definition, trace = definition_of(workload), trace_of(workload)
        name = definition["name"]
        files[f"definitions/{workload.op}/{name}.json"] = json.dumps(definition, indent=2) + "\n"
        path = f"workloads/{workload.op}/{name}.jsonl"
        lines.setdefault(path, {})[trace["workload"]["uuid"]] = json.dumps(trace) + "\n"
    return files | {path: "".join(each.values()) for path, each in lines.items()}


def import_workload(definition: Mapping[str, Any], trace: Mapping[str, Any]) -> Workload:
    """A workload of a definition that `export` wrote, or one of its kind.

    Raises:
        ProofError: the definition carries no tag of ours, or something is missing.
    """
    tags = [tag.removeprefix(_TAG) for tag in definition.get("tags", ()) if tag.startswith(_TAG)]
    if not tags or tags[0] not in _FORMS:
        raise ProofError(
            f"definition {definition.get('name')}: no tag {_TAG}OP names an op that is known here, "
            f"expected one of {', '.join(_FORMS)}"
        )
    form = _FORMS[tags[0]]
    try:
        axes = {n: a["value"] for n, a in definition["axes"].items() if a["type"] == "const"}
        axes |= trace["workload"]["axes"]
        first = next(iter(form.inputs))
        dtype = DTYPES[definition["inputs"][first]["dtype"]]
        given = trace["workload"]["inputs"]
        scalars = {n: given[n]["value"] for n, shape in form.inputs.items() if not shape}
    except KeyError as error:
        raise ProofError(f"definition {definition.get('name')}: {error} is missing") from error
    if tags[0] == "attention":
        axes, scalars = axes | {"kind": 0}, {}  # the scale follows from head_dim
    elif tags[0] == "linear":
        axes |= {"bias": 0}
    elif tags[0] == "greedy_token":
        axes |= {"top": 1}
    return Workload(tags[0], dtype, axes, scalars=scalars)


def read_workloads(folder: Path) -> list[Workload]:
    """The workloads of a trace set that `export` wrote, or one of its kind.

    Raises:
        ProofError: a file cannot be read, is no JSON, or `import_workload` refuses it.
    """
    path = folder
    try:
        definitions = {}
        for path in sorted((folder / "definitions").rglob("*.json")):
            definition = json.loads(path.read_text(encoding="utf-8"))
            definitions[definition["name"]] = definition
        found = []
        for path in sorted((folder / "workloads").rglob("*.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines():
                trace = json.loads(line)
                found.append(import_workload(definitions[trace["definition"]], trace))
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, ProofError):
            raise
        raise ProofError(f"{path}: {type(error).__name__}: {error}") from error
    if not found:
        raise ProofError(f"{folder}: there are no workloads, expected workloads/**/*.jsonl")
    return found
