"""What huggingface_hub reads from the environment works for resolve, too.

Each call is a process of its own, because the environment is read when huggingface_hub is imported.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# torch is left out of these processes: it takes seconds to import, and resolve touches no tensor.
RESOLVE = """
import sys
from unittest.mock import MagicMock
sys.modules["torch"] = MagicMock()
from augur_weights import WeightsError, resolve
try:
    print(resolve(sys.argv[1]))
except WeightsError as error:
    sys.exit(f"error: {error}")
"""


def run_resolve(source: str, **environment: str) -> subprocess.CompletedProcess[str]:
    ambient = {name: text for name, text in os.environ.items() if not name.startswith("HF_")}
    return subprocess.run(
        [sys.executable, "-c", RESOLVE, source],
        env=ambient | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.gate
def test_mirror_cache_folder_offline_mode_and_no_network(
    stand_in: Any, repository_files: dict[str, bytes], needed_files: list[str], tmp_path: Path
) -> None:
    stand_in.add("org/name", repository_files)
    home = {"HF_HOME": str(tmp_path / "home"), "HF_ENDPOINT": stand_in.url}

    fresh = run_resolve("org/name", **home)
    assert fresh.returncode == 0, fresh.stderr
    folder = Path(fresh.stdout.strip())
    assert folder.is_relative_to(tmp_path / "home" / "hub")
    assert stand_in.downloaded() == needed_files
    assert "100%" in fresh.stderr  # the progress bar

    stand_in.requests.clear()
    offline = run_resolve("org/name", HF_HUB_OFFLINE="1", **home)
    assert offline.stdout == fresh.stdout
    assert stand_in.requests == []

    unknown = run_resolve("org/other", HF_HUB_OFFLINE="1", **home)
    assert unknown.returncode == 1
    message = unknown.stderr.strip()
    assert message.startswith('error: Hub model "org/other" (revision "main"): HF_HUB_OFFLINE is')
    assert "Unset it to download" in message
    assert "\n" not in message

    stand_in.stop()
    elsewhere = home | {"HF_HUB_CACHE": str(tmp_path / "other")}
    unreachable = run_resolve("org/name", **elsewhere)
    assert unreachable.returncode == 1
    message = unreachable.stderr.strip()
    assert message.startswith('error: Hub model "org/name" (revision "main"): ' + stand_in.url)
    assert str(tmp_path / "other") in message
    assert "Check the network" in message
    assert "\n" not in message
