"""docs/benchmark.md tells all there is, and its example runs."""

import inspect
import re
from pathlib import Path

import torch

from augur_apps import bench
from augur_bench import LADDER
from augur_bench.rung_choice import all_rungs
from augur_bench.sheets import EXACTNESS, GAIN, GROWTH, PAIRS, SPEED, SUMMARY, THROUGHPUT, WAITING
from augur_bench.work import ModelSize
from augur_bench.worker import run_once
from augur_gen import StopConditions, generate
from augur_model import QwenConfig
from augur_proof import Candidate

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "benchmark.md").read_text(encoding="utf-8")
CPU = torch.device("cpu")


def test_every_option_and_every_rung_is_explained():
    names = [name for name in inspect.signature(bench.main).parameters if name != "json_to"]
    for name in (*names, "json"):
        assert f"--{name.replace('_', '-')}" in PAGE, name
    for name in LADDER:
        assert f"`{name}`" in PAGE


def test_the_example_of_a_rung_of_your_own_runs(tmp_path, tiny_folder):
    (example,) = re.findall(r"```python\n(# my_rungs.py\n.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "my_rungs.py"
    path.write_text(example, encoding="utf-8")
    rung = all_rungs(path)["my-norm"]
    assert rung.parent == "cached"
    ours = rung.open(tiny_folder, CPU, torch.float32)
    run = run_once(ours.new_steps(ours.model, 16), [5, 3, 8, 1], 8, CPU)
    plain = Candidate.load(tiny_folder, dtype=torch.float32).model
    assert run.token_ids == generate(plain, [5, 3, 8, 1], StopConditions(8)).run().token_ids


def test_the_tables_of_the_page_and_of_the_readme_are_those_of_the_program():
    def heading(columns):
        return f"| {' | '.join(column.heading for column in columns)} |".replace("\n", " ")

    for columns in (SPEED, EXACTNESS, GAIN, PAIRS, GROWTH, THROUGHPUT, WAITING):
        assert heading(columns) in PAGE
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert heading(SUMMARY) in readme


def test_the_arithmetic_on_the_page_is_that_of_the_program():
    config = QwenConfig(
        vocab_size=151936,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=32768,
        rms_norm_eps=1e-6,
        rope_theta=1e6,
        attention_bias=True,
        tie_word_embeddings=True,
    )
    size = ModelSize(config)
    num_bytes = size.least_work(35, 32, torch.float32)["decode"].num_bytes
    assert f"{num_bytes / 1e6:,.0f} MB" in PAGE
    assert f"{size.num_read:,} weights" in PAGE
    assert f"2 · {size.num_block_matrices / 1e6:.1f} M" in PAGE


def test_the_pictures_and_links_of_the_page_are_there():
    links = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert len(links) >= 4
    for link in links:
        assert (DOCS / link).is_file(), link
