"""The formats mean what they say, byte by byte."""

import torch

from augur_kernels import dequantise_int4, dequantise_int8


def test_a_byte_holds_two_neighbours_the_first_in_its_low_half():
    codes = torch.full((1, 32), 0x88, dtype=torch.uint8)
    codes[0, 0], codes[0, 17] = 0xF0, 0x97
    weight = dequantise_int4(codes, torch.tensor([[0.5, 10.0]]))
    expected = torch.zeros(1, 64)
    expected[0, 0], expected[0, 1] = -4.0, 3.5
    expected[0, 34], expected[0, 35] = -10.0, 10.0
    assert torch.equal(weight, expected)


def test_an_int8_scale_is_a_groups_or_a_rows():
    codes = torch.ones(2, 64, dtype=torch.int8)
    by_group = dequantise_int8(codes, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert by_group[0, 31:33].tolist() == [1.0, 2.0]
    assert by_group[1, 31:33].tolist() == [3.0, 4.0]
    by_row = dequantise_int8(codes, torch.tensor([5.0, 6.0]))
    assert torch.equal(by_row, torch.tensor([[5.0], [6.0]]).expand(2, 64))
