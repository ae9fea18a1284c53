"""What does not fit is one clear error before anything is allocated."""

import importlib
import json
import os
from pathlib import Path

import pytest
import torch

import augur.loading as loading_module
from augur import free_memory
from augur.errors import NoRoomError
from augur.free_memory import free_cpu_memory_bytes, free_memory_bytes, require_memory
from augur.llm import load
from augur.options import GenerationOptions
from augur_proof.tiny_checkpoint import write_tiny_checkpoint
from program_run import run_in_process

CPU = torch.device("cpu")


def write_files(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


MEMINFO = {"proc/meminfo": "MemTotal:  9000 kB\nMemFree:  10 kB\nMemAvailable:    6000 kB\n"}
V2 = "sys/fs/cgroup"
V1 = "sys/fs/cgroup/memory"
# files under the root, and the bytes that are free
MACHINES = {
    "no limits": (MEMINFO, 6_144_000),
    "version 2, at the top of a container": (
        MEMINFO
        | {
            "proc/self/cgroup": "0::/\n",
            f"{V2}/memory.max": "5000000\n",
            f"{V2}/memory.current": "3000000\n",
            f"{V2}/memory.stat": "anon 2500000\ninactive_file 300000\nactive_file 100000\n",
        },
        2_400_000,
    ),
    "version 2, the outer group is tighter": (
        MEMINFO
        | {
            "proc/self/cgroup": "0::/outer/inner\n",
            f"{V2}/outer/memory.max": "2000000\n",
            f"{V2}/outer/memory.current": "1500000\n",
            f"{V2}/outer/inner/memory.max": "5000000\n",
            f"{V2}/outer/inner/memory.current": "1000000\n",
        },
        500_000,
    ),
    "version 2 without a limit": (
        MEMINFO
        | {
            "proc/self/cgroup": "0::/job\n",
            f"{V2}/job/memory.max": "max\n",
            f"{V2}/job/memory.current": "1000\n",
        },
        6_144_000,
    ),
    "version 1 beside an empty version 2": (
        MEMINFO
        | {
            "proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/job\n0::/\n",
            f"{V1}/memory.limit_in_bytes": "9223372036854771712\n",
            f"{V1}/memory.usage_in_bytes": "700000\n",
            f"{V1}/job/memory.limit_in_bytes": "1000000\n",
            f"{V1}/job/memory.usage_in_bytes": "900000\n",
            f"{V1}/job/memory.stat": "inactive_file 1\ntotal_inactive_file 50000\n",
        },
        150_000,
    ),
    "version 1, the path is the host's": (
        MEMINFO
        | {
            "proc/self/cgroup": "4:memory:/docker/0123\n",
            f"{V1}/memory.limit_in_bytes": "1000000\n",
            f"{V1}/memory.usage_in_bytes": "400000\n",
        },
        600_000,
    ),
    "used up": (
        MEMINFO
        | {
            "proc/self/cgroup": "0::/\n",
            f"{V2}/memory.max": "1000\n",
            f"{V2}/memory.current": "1200\n",
        },
        0,
    ),
    "nothing to read": ({}, None),
    "no such line": ({"proc/meminfo": "MemTotal: 9000 kB\nMemAvailable: some\n"}, None),
}


@pytest.mark.parametrize(("files", "expected"), MACHINES.values(), ids=MACHINES.keys())
def test_free_memory_is_the_least_that_anyone_allows(
    tmp_path: Path, files: dict[str, str], expected: int | None
) -> None:
    assert free_cpu_memory_bytes(write_files(tmp_path, files)) == expected


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="reads Linux's /proc")
def test_this_machine_tells_what_is_free() -> None:
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < free_memory_bytes(CPU) < installed


def test_on_a_gpu_what_torch_holds_in_reserve_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1000, 9000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 500)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 300)
    assert free_memory_bytes(torch.device("cuda")) == 1200


def test_what_fits_is_let_through_and_one_byte_more_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(free_memory, "free_memory_bytes", lambda _: 2 * 10**9)
    require_memory("the weights", 2 * 10**9, CPU, "Take less")
    with pytest.raises(NoRoomError) as refusal:
        require_memory("the weights", 2 * 10**9 + 1, CPU, "Take less")
    assert str(refusal.value) == "the weights need 2.00 GB on cpu, and 2.00 GB are free. Take less"


def test_where_nothing_is_known_only_the_absurd_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(free_memory, "free_memory_bytes", lambda _: None)
    require_memory("the weights", 10**14, CPU, "Take less")
    with pytest.raises(NoRoomError, match=r"need 2,000,000\.00 GB on cpu, and no machine has that"):
        require_memory("the weights", 2 * 10**15, CPU, "Take less")


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_checkpoint(tmp_path_factory.mktemp("refusals") / "tiny")


def test_weights_that_do_not_fit_are_refused_before_the_model_is_built(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load(tiny_folder, device="cpu", dtype="float32").model.config
    num_bytes = config.num_parameters * 4
    monkeypatch.setattr(free_memory, "free_memory_bytes", lambda _: num_bytes - 1)
    monkeypatch.setattr(loading_module, "QwenForCausalLM", None)  # to call it would be a TypeError
    done = run_in_process("run_prompt.py", "Why?", "--model", tiny_folder, "--dtype", "float32")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tiny_folder}: {num_bytes // 4:,} parameters in float32 need 0.1 MB" in done.stderr
    assert "are free" in done.stderr
    assert "--dtype of fewer bytes" in done.stderr
    # Half as many bytes do fit.
    with pytest.raises(TypeError):
        load(tiny_folder, device="cpu", dtype="bfloat16")


def test_a_cache_that_does_not_fit_is_refused_before_it_is_made(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = load(tiny_folder, device="cpu", dtype="float32")
    # 2 x 2 layers x 2 key/value heads x 8 x 4 bytes = 256 bytes a token
    monkeypatch.setattr(free_memory, "free_memory_bytes", lambda _: 256 * 100)
    assert engine.generate([1] * 90, GenerationOptions(max_new_tokens=10)).run()
    # The package exports a function under the module's name.
    monkeypatch.setattr(importlib.import_module("augur_gen.generate"), "StaticKVCache", None)
    with pytest.raises(NoRoomError, match=r"keys and values of 101 tokens need 0\.0 MB on cpu"):
        engine.generate([1] * 90, GenerationOptions(max_new_tokens=11))


ABSURD = {
    "terabytes": ({"vocab_size": 2**40}, "parameters in"),
    "more than any machine": ({"intermediate_size": 10**15}, "the sizes come to more than"),
    "layers": ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000, expected at most"),
}


@pytest.mark.parametrize("program", ["run_prompt.py", "download_weights.py"])
@pytest.mark.parametrize("name", ABSURD)
def test_a_config_that_asks_for_the_absurd_is_refused_at_once(
    tmp_path: Path, tiny_folder: Path, name: str, program: str
) -> None:
    changes, said = ABSURD[name]
    folder = tmp_path / "absurd"
    folder.mkdir()
    for path in tiny_folder.iterdir():
        (folder / path.name).symlink_to(path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").unlink()
    (folder / "config.json").write_text(json.dumps(config | changes))
    model = ("Why?", "--model", folder) if program == "run_prompt.py" else (folder,)
    done = run_in_process(program, *model)
    assert (done.returncode, done.stdout) == (2, "")
    assert str(folder) in done.stderr
    if program == "download_weights.py" and name == "terabytes":
        said = "has shape"  # nothing is to be loaded there: the files just do not fit the config
    assert said in done.stderr
