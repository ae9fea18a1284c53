"""The real tokenizer in its other written forms: vocab.json with merges.txt, saved again."""

import json
from pathlib import Path

import pytest
import tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from augur_tok import Tokenizer
from tokenizer_texts import CHATS, TEXTS, TOOLS

Pair = tuple[Tokenizer, PreTrainedTokenizerBase]


@pytest.fixture(scope="module")
def parts(real_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Both tokenizers of the real vocabulary as vocab.json and merges.txt."""
    folder = tmp_path_factory.mktemp("parts")
    whole = tokenizers.Tokenizer.from_file(str(real_checkpoint / "tokenizer.json"))
    whole.model.save(str(folder))
    config = json.loads((real_checkpoint / "tokenizer_config.json").read_text(encoding="utf-8"))
    flags = ("content", "lstrip", "rstrip", "single_word", "normalized", "special")
    config["tokenizer_class"] = "Qwen2Tokenizer"
    config["added_tokens_decoder"] = {
        str(token_id): {flag: getattr(token, flag) for flag in flags}
        for token_id, token in whole.get_added_tokens_decoder().items()
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return Tokenizer.from_folder(folder), AutoTokenizer.from_pretrained(folder)


@pytest.mark.real
@pytest.mark.parametrize("text", TEXTS)
def test_vocab_and_merges_give_transformers_ids_and_those_of_tokenizer_json(
    tokenizer: Tokenizer, parts: Pair, text: str
) -> None:
    of_parts, referee_of_parts = parts
    token_ids = of_parts.encode(text, allow_special=True)
    assert token_ids == referee_of_parts(text)["input_ids"]
    assert token_ids == tokenizer.encode(text, allow_special=True)
    assert of_parts.encode(text) == tokenizer.encode(text)


@pytest.mark.gate
@pytest.mark.real
def test_a_folder_that_transformers_has_saved_gives_the_same_tokenizer(
    tokenizer: Tokenizer, referee: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    referee.save_pretrained(tmp_path)
    saved = Tokenizer.from_folder(tmp_path)
    messages = CHATS["two turns"]
    assert saved.encode_chat(messages, tools=TOOLS) == tokenizer.encode_chat(messages, tools=TOOLS)
    assert saved.special_tokens == tokenizer.special_tokens
    assert saved.eos_token_id == tokenizer.eos_token_id
