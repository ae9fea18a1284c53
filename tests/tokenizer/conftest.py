"""The real checkpoint's tokenizer, ours and the referee's."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from augur_tok import Tokenizer


@pytest.fixture(scope="session")
def tokenizer(real_checkpoint: Path) -> Tokenizer:
    return Tokenizer.from_folder(real_checkpoint)


@pytest.fixture(scope="session")
def referee(real_checkpoint: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(real_checkpoint)
