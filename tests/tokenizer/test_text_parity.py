"""The real vocabulary against transformers: texts to ids, ids to texts."""

import random

import pytest
from transformers import PreTrainedTokenizerBase

from augur_tok import Tokenizer
from tokenizer_texts import FIRST_ADDED_ID, TEXTS


def random_ids(seed: int, count: int, *, limit: int) -> list[int]:
    """Ids of which a third are control tokens or beyond the vocabulary, if the limit lets them."""
    rng = random.Random(seed)
    low = [rng.randrange(limit) for _ in range(count)]
    high = [rng.randrange(FIRST_ADDED_ID, limit) for _ in range(count)]
    return [rng.choice((first, first, second)) for first, second in zip(low, high, strict=True)]


@pytest.mark.real
@pytest.mark.parametrize("text", TEXTS)
def test_ids_equal_transformers_with_added_tokens_recognised(
    tokenizer: Tokenizer, referee: PreTrainedTokenizerBase, text: str
) -> None:
    assert tokenizer.encode(text, allow_special=True) == referee(text)["input_ids"]


@pytest.mark.real
@pytest.mark.parametrize("text", TEXTS)
def test_plain_text_equals_transformers_where_it_spells_no_token_and_holds_no_control_id(
    tokenizer: Tokenizer, referee: PreTrainedTokenizerBase, text: str
) -> None:
    token_ids = tokenizer.encode(text)
    assert max(token_ids) < FIRST_ADDED_ID
    if "<|" not in text:
        assert token_ids == referee(text)["input_ids"]


@pytest.mark.real
def test_known_texts_have_their_published_ids(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("->") == [405]
    assert tokenizer.encode("(x):\n") == [2075, 982]
    assert len(tokenizer.encode("12345")) == 5
    assert tokenizer.encode("<|im_end|>") == [27, 91, 318, 6213, 91, 29]
    assert tokenizer.encode("<|im_end|>", allow_special=True) == [151_645]
    assert tokenizer.encode("") == []


@pytest.mark.real
def test_spaces_before_punctuation_survive(tokenizer: Tokenizer) -> None:
    text = "x != y , z ."
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.real
def test_vocabulary_and_named_tokens_equal_transformers(
    tokenizer: Tokenizer, referee: PreTrainedTokenizerBase
) -> None:
    assert tokenizer.vocab_size == len(referee) == 151_665
    assert tokenizer.eos_token_id == referee.eos_token_id == 151_645
    flagged = {
        token.content: token_id
        for token_id, token in referee.added_tokens_decoder.items()
        if token.special
    }
    assert tokenizer.special_tokens == flagged


@pytest.mark.real
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_decoding_any_ids_equals_transformers_at_once_and_streamed(
    tokenizer: Tokenizer, referee: PreTrainedTokenizerBase, seed: int, skip: bool
) -> None:
    # Up to the model's padded vocabulary: the tokenizer does not know the last ids.
    token_ids = random_ids(seed, 300, limit=151_936)
    expected = referee.decode(
        token_ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False
    )
    assert tokenizer.decode(token_ids, skip_special_tokens=skip) == expected
    stream = tokenizer.stream(skip_special_tokens=skip)
    pieces = [stream.push(token_id) for token_id in token_ids]
    assert "".join(pieces) + stream.finish() == expected


@pytest.mark.gate
@pytest.mark.real
def test_every_single_id_decodes_as_in_transformers(
    tokenizer: Tokenizer, referee: PreTrainedTokenizerBase
) -> None:
    backend = referee.backend_tokenizer
    single = [[token_id] for token_id in range(151_936)]
    expected = backend.decode_batch(single, skip_special_tokens=False)
    assert [tokenizer.decode(token_ids) for token_ids in single] == expected
