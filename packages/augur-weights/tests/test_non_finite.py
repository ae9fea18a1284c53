"""NaN and infinities are found in every float dtype, wherever they are."""

import sys
from pathlib import Path

import pytest
import torch

from augur_weights.non_finite import NonFinite, find_non_finite

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
NAN, INF = float("nan"), float("inf")


def found_in(tensor: torch.Tensor, most: int = 2**20) -> NonFinite | None:
    """Look through a tensor in pieces of ``most`` values."""
    flat = tensor.reshape(-1)
    pieces = (flat[start : start + most] for start in range(0, flat.numel(), most))
    return find_non_finite(pieces, tuple(tensor.shape))


@pytest.mark.parametrize("value", [INF, -INF])
@pytest.mark.parametrize("dtype", [*FLOATS, torch.float8_e5m2], ids=str)
def test_an_infinity_is_found(dtype: torch.dtype, value: float) -> None:
    tensor = torch.ones(3, 4, 5).to(dtype)
    tensor[1, 2, 3] = value
    assert found_in(tensor) == NonFinite(1, (1, 2, 3), value)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float8_e5m2, torch.float8_e4m3fn], ids=str)
def test_a_nan_is_found(dtype: torch.dtype) -> None:
    tensor = torch.ones(3, 4).to(dtype)
    tensor[2, 0] = NAN
    found = found_in(tensor)
    assert found is not None
    assert (found.count, found.first_index) == (1, (2, 0))
    assert found.first_value != found.first_value


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float8_e5m2, torch.float8_e4m3fn], ids=str)
def test_the_largest_and_the_smallest_values_are_finite(dtype: torch.dtype) -> None:
    info = torch.finfo(dtype)
    extremes = torch.tensor([info.max, info.min, info.tiny, -0.0], dtype=torch.float64)
    assert found_in(extremes.to(dtype)) is None


@pytest.mark.parametrize("places", [[0], [6], [7], [20], [7, 8, 13, 14, 20]])
def test_the_first_place_and_the_count_span_the_pieces(places: list[int]) -> None:
    tensor = torch.zeros(21)
    tensor[places] = INF
    first = (places[0] // 3, places[0] % 3)
    assert found_in(tensor.reshape(7, 3), most=7) == NonFinite(len(places), first, INF)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3)])
def test_scalars_and_empty_tensors_are_looked_at(shape: tuple[int, ...]) -> None:
    assert found_in(torch.zeros(shape)) is None


def test_a_scalar_that_is_not_finite_has_no_index() -> None:
    assert found_in(torch.tensor(INF)) == NonFinite(1, (), INF)


def test_whole_numbers_are_finite() -> None:
    assert found_in(torch.arange(5)) is None


def resident_bytes(key: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"the kernel does not tell {key}")


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from Linux's /proc")
def test_a_large_tensor_is_looked_through_in_little_memory() -> None:
    tensor = torch.zeros(2**25)  # 128 MB
    tensor.fill_(1.0)  # zeros are not in memory before they are written to
    tensor[-1] = NAN
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    before = resident_bytes("VmRSS")
    found = found_in(tensor)
    assert resident_bytes("VmHWM") - before < 32e6
    assert found is not None
    assert found.first_index == (2**25 - 1,)
