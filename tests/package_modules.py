"""Modules of a package's own tests that the workspace's tests use, too."""

import importlib.util
from pathlib import Path
from types import ModuleType

_FOLDER = Path(__file__).resolve().parents[1] / "packages/augur-weights/tests"


def load(name: str) -> ModuleType:
    """A new copy of a module, by its path: that folder is not on sys.path."""
    spec = importlib.util.spec_from_file_location(name, _FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
