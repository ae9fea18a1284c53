"""Who may know whom: the packages stay installable, readable and replaceable one by one."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

CORE = {"augur_weights", "augur_tok", "augur_model", "augur_gen"}

# The whole of what each package may import, beside the standard library and itself.
ALLOWED = {
    "augur_files": set(),
    "augur_weights": {"torch", "huggingface_hub", "gguf", "numpy", "augur_files"},
    # markupsafe is jinja2's own type of text, and comes with it.
    "augur_tok": {"tokenizers", "jinja2", "markupsafe", "augur_files"},
    "augur_model": {"torch"},
    "augur_gen": {"torch", "augur_model"},
    "augur_kernels": {"torch", "triton", "augur_model"},
    "augur": {"torch", "filelock", "llguidance", *CORE},
    "augur_proof": {"torch", "safetensors", "tokenizers", "transformers", *CORE},
    "augur_bench": {"torch", "matplotlib", "augur", "augur_proof", *CORE},
}
# What their pyproject.toml must ask for, extras apart.
DECLARED = {
    "augur_files": set(),
    "augur_weights": {"torch", "huggingface-hub", "augur-files"},
    "augur_tok": {"tokenizers", "jinja2", "augur-files"},
    "augur_model": {"torch"},
    "augur_gen": {"torch", "augur-model"},
    "augur_kernels": {"torch", "augur-model"},
    "augur": {"torch", "filelock", "augur-weights", "augur-tok", "augur-model", "augur-gen"},
    "augur_proof": {
        *("torch", "safetensors", "tokenizers"),
        *("augur-weights", "augur-tok", "augur-model", "augur-gen"),
    },
}
# What only an extra brings, and how the names of the files begin that may import it.
OPTIONAL = {
    "gguf": "gguf_",
    "numpy": "gguf_",
    "llguidance": "grammar",
    "triton": "triton_",
}


def imported_modules(source: str) -> set[str]:
    """Top-level names of all absolute imports, those inside functions included."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


def forbidden_imports(package: str, source: str) -> set[str]:
    return imported_modules(source) - ALLOWED[package] - set(sys.stdlib_module_names) - {package}


def source_files(package: str) -> list[Path]:
    files = sorted((ROOT / "packages").glob(f"*/src/{package}/**/*.py"))
    assert files, f"no sources of {package} found"
    return files


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_the_table_allows(package):
    for path in source_files(package):
        found = forbidden_imports(package, path.read_text(encoding="utf-8"))
        assert not found, f"{path.relative_to(ROOT)} imports {sorted(found)}"


@pytest.mark.parametrize("package", DECLARED)
def test_a_package_declares_exactly_what_the_table_allows(package):
    (folder,) = (path.parents[1] for path in (ROOT / "packages").glob(f"*/src/{package}"))
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.match(r"[\w-]+", entry).group() for entry in project["dependencies"]}
    assert names == DECLARED[package]


@pytest.mark.parametrize("optional", OPTIONAL)
def test_only_files_of_that_name_need_what_an_extra_brings(optional):
    importing = [
        path.name
        for package in ALLOWED
        for path in source_files(package)
        if optional in imported_modules(path.read_text(encoding="utf-8"))
    ]
    assert importing
    assert all(name.startswith(OPTIONAL[optional]) for name in importing), importing


@pytest.mark.parametrize(
    "source",
    [
        "import transformers",
        "from transformers.models import qwen2",
        "def later():\n    import augur_gen",
        "import torch, numpy",
    ],
)
def test_a_forbidden_import_is_found(source):
    assert forbidden_imports("augur_model", source)


def test_allowed_imports_are_let_through():
    assert not forbidden_imports("augur_gen", "import torch\nfrom augur_model.ops import rms_norm")


def test_nothing_that_answers_a_prompt_needs_the_referee():
    sources = [*(ROOT / "packages/augur/src").rglob("*.py"), *source_files("augur_gen")]
    assert len(sources) > 30
    for path in sources:
        assert "transformers" not in imported_modules(path.read_text(encoding="utf-8"))
