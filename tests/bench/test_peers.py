"""transformers as a rung beside ours."""

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from augur_bench.ladder import PEERS
from augur_bench.worker import run_once
from augur_gen import StopConditions, generate
from augur_proof import Candidate

CPU = torch.device("cpu")
PROMPT = [5, 3, 8, 1]


@pytest.mark.parametrize("name", list(PEERS))
def test_a_peer_generates_what_ours_does(name, tiny_folder):
    peer = PEERS[name]
    assert peer.missing(CPU) is None
    candidate = peer.open(tiny_folder, CPU, torch.float32)
    ours = Candidate.load(tiny_folder, dtype=torch.float32).model
    expected = generate(ours, PROMPT, StopConditions(8)).run().token_ids
    for _ in range(2):  # each sequence starts from nothing
        steps = candidate.new_steps(candidate.model, 16)
        assert run_once(steps, PROMPT, 8, CPU).token_ids == expected


def test_a_peers_weights_are_aligned_outside_the_time_to_load(tiny_folder, tmp_path):
    folder = shutil.copytree(tiny_folder, tmp_path / "odd")
    tensors = load_file(folder / "model.safetensors")
    peer = PEERS["transformers-eager"]

    def odd_addresses(model):
        return {parameter.data_ptr() % 64 for parameter in model.parameters()} - {0}

    for padding in range(0, 64, 8):  # of the header, which the addresses lie behind
        metadata = {"format": "pt", "padding": "x" * padding}
        save_file(tensors, folder / "model.safetensors", metadata=metadata)
        model = peer.open(folder, CPU, torch.float32).model
        if odd_addresses(model):
            break
    else:
        pytest.skip("this release of transformers copies the weights out of the file")
    peer.new_steps(model, 16)
    assert not odd_addresses(model)
