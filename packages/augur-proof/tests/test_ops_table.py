"""A table of ops on trial is found by name, or refused with the reason."""

from dataclasses import replace

import pytest

import augur_model
from augur_model import EAGER
from augur_proof import ProofError, load_ops


def test_a_table_is_found_by_module_and_name():
    assert load_ops("augur_model:EAGER") is EAGER


def test_a_module_of_the_current_folder_is_found(tmp_path, monkeypatch):
    source = "from augur_model import EAGER\nTABLE = EAGER\n"
    (tmp_path / "kernels_of_this_folder.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")  # restores sys.path at the end
    assert load_ops("kernels_of_this_folder:TABLE") is EAGER


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("augur_model", "expected MODULE:NAME"),
        (":EAGER", "expected MODULE:NAME"),
        ("augur_model:", "expected MODULE:NAME"),
        ("no_such_kernels:TABLE", "importing no_such_kernels failed: ModuleNotFoundError"),
        ("augur_model:TABLE", "TABLE does not exist, expected an augur_model.Ops"),
        ("augur_model:QwenConfig", "QwenConfig is a type, expected an augur_model.Ops"),
        ("augur_model.ops:swiglu", "swiglu is a function, expected an augur_model.Ops"),
    ],
)
def test_what_is_no_table_is_refused(spec, message):
    with pytest.raises(ProofError, match=message):
        load_ops(spec)


def test_a_table_whose_op_cannot_be_called_is_refused(monkeypatch):
    monkeypatch.setattr(augur_model, "TABLE", replace(EAGER, swiglu=None), raising=False)
    with pytest.raises(ProofError, match="its swiglu cannot be called"):
        load_ops("augur_model:TABLE")
