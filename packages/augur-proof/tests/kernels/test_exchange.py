"""What is exported is a trace set as flashinfer-bench's schema has it, and comes back as it was."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from augur_proof import ProofError
from augur_proof.kernels import OPS, Workload, export, import_workload, read_workloads
from augur_proof.kernels.exchange import definition_of, exportable, trace_of

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
ALL = [one for op in OPS.values() for dtype in DTYPES for one in op.workloads(dtype)]
WRITTEN = [one for one in ALL if exportable(one)]
FILES = export(ALL)

# The fields of the schema, release 0.1: those that must be, and those that may.
DEFINITION = {"name", "op_type", "axes", "inputs", "outputs", "reference"}
MAY = {"tags", "description", "constraints"}
ELEMENTS = {
    *("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1"),
    *("int64", "int32", "int16", "int8", "bool"),
}


def is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def check_definition(definition: dict[str, Any]) -> None:
    assert DEFINITION <= set(definition) <= DEFINITION | MAY
    assert all(map(is_text, (definition["name"], definition["op_type"], *definition["tags"])))
    for axis in definition["axes"].values():
        assert axis == {"type": "var"} or (axis["type"] == "const" and is_size(axis["value"]))
    inputs, outputs = definition["inputs"], definition["outputs"]
    assert not set(inputs) & set(outputs)
    for tensor in (*inputs.values(), *outputs.values()):
        assert set(tensor) == {"shape", "dtype"}
        assert tensor["dtype"] in ELEMENTS
        assert tensor["shape"] is None or set(tensor["shape"]) <= set(definition["axes"])
    body = ast.parse(definition["reference"]).body
    assert any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in body)
    for constraint in definition["constraints"]:
        ast.parse(constraint, mode="eval")


def check_trace(trace: dict[str, Any], definition: dict[str, Any]) -> None:
    assert trace["definition"] == definition["name"]
    assert trace["solution"] is trace["evaluation"] is None
    workload = trace["workload"]
    assert set(workload) == {"axes", "inputs", "uuid"}
    assert is_text(workload["uuid"])
    varying = {name for name, axis in definition["axes"].items() if axis["type"] == "var"}
    assert set(workload["axes"]) == varying
    assert all(map(is_size, workload["axes"].values()))
    assert list(workload["inputs"]) == list(definition["inputs"])
    for name, given in workload["inputs"].items():
        if definition["inputs"][name]["shape"] is None:
            assert given["type"] == "scalar"
            assert isinstance(given["value"], int | float)
        else:
            assert given == {"type": "random"}


def test_every_definition_and_every_line_has_the_fields_of_the_schema() -> None:
    definitions = {}
    for path, text in FILES.items():
        if path.startswith("definitions/"):
            definition = json.loads(text)
            check_definition(definition)
            definitions[definition["name"]] = definition
    lines = [
        json.loads(line)
        for path, text in FILES.items()
        if path.startswith("workloads/")
        for line in text.splitlines()
    ]
    for line in lines:
        check_trace(line, definitions[line["definition"]])
    assert {line["definition"] for line in lines} == set(definitions)
    assert len({line["workload"]["uuid"] for line in lines}) == len(lines) > 100
    assert {one["op_type"] for one in definitions.values()} == {one.op for one in WRITTEN}


@pytest.mark.parametrize("op", sorted({one.op for one in WRITTEN}))
def test_the_reference_of_a_definition_runs_and_computes_the_op(op: str) -> None:
    workload = min((one for one in WRITTEN if one.op == op), key=lambda one: sum(one.axes.values()))
    names: dict[str, Any] = {}
    exec(definition_of(workload)["reference"], names)
    inputs = OPS[op].draw(workload, torch.Generator().manual_seed(0))
    given = [one for one in inputs if one is not None]  # a bias or a mask, left out
    found, expected = names["run"](*given), OPS[op].plain(*inputs)
    pairs = zip(found, expected, strict=True) if op == "add_rms_norm" else [(found, expected)]
    assert all(torch.equal(*pair) for pair in pairs)


def test_a_workload_comes_back_as_it_was_but_for_layout_and_values(tmp_path: Path) -> None:
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    found = read_workloads(tmp_path)

    def key(one: Workload) -> tuple[Any, ...]:
        axes = {name: size for name, size in one.axes.items() if name != "top"}
        return (one.op, str(one.dtype), *sorted(axes.items()), *sorted(one.scalars.items()))

    assert {key(one) for one in found} == {key(one) for one in WRITTEN}
    assert {one.layout for one in found} == {"contiguous"}
    assert all(
        one.draw(each, torch.Generator()) for one, each in [(OPS[w.op], w) for w in found[:5]]
    )


def test_a_definition_of_somebody_else_is_refused() -> None:
    definition, trace = definition_of(WRITTEN[0]), trace_of(WRITTEN[0])
    with pytest.raises(ProofError, match="no tag augur:OP names an op that is known here"):
        import_workload(definition | {"tags": ["model:other"]}, trace)
    with pytest.raises(ProofError, match="'workload' is missing"):
        import_workload(definition, {})


def test_a_folder_that_holds_none_or_a_broken_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProofError, match="there are no workloads"):
        read_workloads(tmp_path)
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "broken.json").write_text("{", encoding="utf-8")
    with pytest.raises(ProofError, match=r"broken\.json: JSONDecodeError"):
        read_workloads(tmp_path)
