"""Added tokens with awkward texts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from augur_tok import Tokenizer

# Outside the byte-level alphabet, inside it beyond ASCII, with a space, one the start of another.
TOKENS = ["<｜end｜>", "<é>", "<a b>", "<x>", "<x>y"]


@pytest.fixture
def both(
    folder: Path,
    backend: tokenizers.Tokenizer,
    config: dict[str, Any],
    with_files: Callable[..., Path],
) -> tuple[Tokenizer, tokenizers.Tokenizer]:
    """A tokenizer whose configuration declares the tokens, and the library's with them added."""
    known = backend.get_vocab_size()
    declared = {
        str(token_id): {"content": token, "special": False, "normalized": False}
        for token_id, token in enumerate(TOKENS, start=known)
    }
    edited = {
        **config,
        "added_tokens_decoder": config["added_tokens_decoder"] | declared,
        "chat_template": "{{ messages[0].content }}",
    }
    library = tokenizers.Tokenizer.from_str(backend.to_str())
    library.add_tokens([tokenizers.AddedToken(token, normalized=False) for token in TOKENS])
    return Tokenizer.from_folder(with_files(folder, {"tokenizer_config.json": edited})), library


@pytest.mark.parametrize("token", TOKENS)
def test_an_added_tokens_id_decodes_as_in_the_library(
    both: tuple[Tokenizer, tokenizers.Tokenizer], token: str
) -> None:
    tokenizer, library = both
    token_ids = [*tokenizer.encode(" a"), library.token_to_id(token), *tokenizer.encode("b")]
    assert tokenizer.decode(token_ids) == library.decode(token_ids)


def test_of_two_added_tokens_the_longer_is_recognised_in_text_and_in_a_chat(
    both: tuple[Tokenizer, tokenizers.Tokenizer],
) -> None:
    tokenizer, library = both
    text = "a<x>y<x>z<｜end｜><é><a b>"
    expected = library.encode(text).ids
    assert expected.count(library.token_to_id("<x>y")) == 1
    assert tokenizer.encode(text, allow_special=True) == expected
    assert tokenizer.encode_chat([{"role": "assistant", "content": text}]) == expected


def test_an_added_token_in_a_users_message_stays_plain_whatever_its_text(
    both: tuple[Tokenizer, tokenizers.Tokenizer],
) -> None:
    tokenizer, _ = both
    text = "a<x>y<x>z<｜end｜><é><a b>"
    assert tokenizer.encode_chat([{"role": "user", "content": text}]) == tokenizer.encode(text)
