"""What a result was made with: all that can change its bits."""

import platform
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from augur_proof.errors import ProofError
from augur_proof.tolerance import DTYPES, DTypeName

# In a file; all others are text.
_KINDS = {"max_new_tokens": int, "versions": dict, "num_threads": int}


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "torch": torch.__version__}
    for name in ("transformers", "tokenizers"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@dataclass(frozen=True)
class MadeWith:
    """A network's setting, and the machine's: this one's, unless it is said.

    Attributes:
        engine: "transformers" or "augur".
        model: the name or folder, as the user gave it.
        dtype: of weights and logits, such as "float32".
        device: such as "cpu" or "cuda:0".
        attention: "eager", "sdpa", or the name of a candidate.
        max_new_tokens: at most this many tokens were generated for each prompt.
        versions: of Python and of the libraries that compute.
        cpu_capability: the widest vector instructions that torch uses here, such as "AVX2".
        num_threads: torch's.
    """

    engine: str
    model: str
    dtype: DTypeName
    device: str
    attention: str
    max_new_tokens: int
    versions: dict[str, str] = field(default_factory=_versions)
    cpu_capability: str = field(default_factory=torch.backends.cpu.get_cpu_capability)
    num_threads: int = field(default_factory=torch.get_num_threads)

    @classmethod
    def from_json(cls, values: Any) -> "MadeWith":
        """Read back what `to_json` gave.

        Raises:
            ProofError: a key is missing, unknown or of the wrong type.
        """
        names = [one.name for one in fields(cls)]
        if not isinstance(values, dict) or set(values) != set(names):
            raise ProofError(f"made_with is {values!r}, expected the keys {', '.join(names)}")
        for name in names:
            kind = _KINDS.get(name, str)
            if type(values[name]) is not kind:
                found = f"{values[name]!r} ({type(values[name]).__name__})"
                raise ProofError(f"made_with.{name} is {found}, expected {kind.__name__}")
        if values["dtype"] not in DTYPES:
            raise ProofError(
                f"made_with.dtype is {values['dtype']!r}, expected {', '.join(DTYPES)}"
            )
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @property
    def device_type(self) -> str:
        """ "cuda" for "cuda:0"."""
        return self.device.partition(":")[0]

    @property
    def line(self) -> str:
        """For a person, in one line."""
        versions = [f"torch {self.versions.get('torch', '?')}"]
        if self.engine == "transformers":
            versions.insert(0, f"transformers {self.versions.get('transformers', '?')}")
        return ", ".join([self.dtype, self.attention, self.device, *versions])

    def differences(self, other: "MadeWith") -> list[str]:
        """What differs between the machines and may change the last bits of a result."""
        pairs = (
            ("torch", self.versions.get("torch"), other.versions.get("torch")),
            ("CPU instructions", self.cpu_capability, other.cpu_capability),
            ("threads", self.num_threads, other.num_threads),
        )
        return [f"{name} {ours}, then {theirs}" for name, ours, theirs in pairs if ours != theirs]
