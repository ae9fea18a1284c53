"""The real vocabulary on whole texts and any ids: streamed as decoded, in time, nothing lost."""

import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from augur_tok import Tokenizer, TokenizerError
from tokenizer_texts import TEXTS

# The model's vocabulary is padded past the tokenizer's.
PADDED_VOCABULARY = 151_936

LANGUAGES = {
    "English": "It was the clock that woke her: three o'clock, and the rain hadn't stopped. ",
    "Chinese": "天空为什么是蓝色的？因为空气把蓝光散射得最多，所以我们看到的天空是蓝色的。",
    "Arabic": "لماذا السماء زرقاء؟ لِأَنَّ الهَوَاءَ يُشَتِّتُ الضَّوْءَ الأزرق أكثر من غيره. ",
    "Hebrew, marked": "בְּרֵאשִׁית \u200f(ימין לשמאל)\u200e left to right \u202eand back\u202c ",
    "Hindi and Thai": "आकाश नीला क्यों है? ท้องฟ้าเป็นสีฟ้าเพราะอะไร ",
    "emoji": "👩‍👩‍👧‍👦 🇩🇪🇯🇵 👍🏽 ❤️‍🔥 🏴󠁧󠁢󠁳󠁣󠁴󠁿 1️⃣ ",
    "code": "def f(x: int) -> str:\n\treturn f'{x!r:>10}'  # ∀x\n\n\nif (a && b) { i++; }\r\n",
    "combining marks": "Z̷̢a̴l̵g̶o̸ n" + "\u0303" * 40 + " ắ ḍ̇ ",
    "control characters": "".join(map(chr, range(32))) + "\x7f\x80\x9f\u2028\u200b\ufeff\uffff ",
}


def streamed(tokenizer: Tokenizer, token_ids: list[int]) -> str:
    stream = tokenizer.stream(skip_special_tokens=False)
    return "".join([*(stream.push(token_id) for token_id in token_ids), stream.finish()])


@pytest.mark.real
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_page_in_any_language_is_streamed_as_it_is_decoded_and_encoded(
    tokenizer: Tokenizer, referee: PreTrainedTokenizerBase, language: str
) -> None:
    text = LANGUAGES[language] * 20
    token_ids = tokenizer.encode(text)
    assert token_ids == referee(text)["input_ids"]
    assert tokenizer.decode(token_ids) == unicodedata.normalize("NFC", text)
    assert streamed(tokenizer, token_ids) == unicodedata.normalize("NFC", text)


@pytest.mark.gate
@pytest.mark.real
def test_any_thousand_sequences_of_ids_are_streamed_as_they_are_decoded(
    tokenizer: Tokenizer,
) -> None:
    @settings(max_examples=1_000, deadline=None, derandomize=True, database=None)
    @given(token_ids=st.lists(st.integers(0, PADDED_VOCABULARY - 1), max_size=40))
    def check(token_ids: list[int]) -> None:
        assert streamed(tokenizer, token_ids) == tokenizer.decode(token_ids)

    check()


@pytest.mark.gate
@pytest.mark.real
def test_every_id_of_the_padded_vocabulary_is_streamed_alone_as_it_is_decoded(
    tokenizer: Tokenizer,
) -> None:
    for token_id in range(PADDED_VOCABULARY):
        assert streamed(tokenizer, [token_id]) == tokenizer.decode([token_id])


@pytest.mark.real
@pytest.mark.gate
@pytest.mark.parametrize("language", ["English", "Chinese", "code"])
def test_a_prompt_of_a_megabyte_is_encoded_in_seconds_and_comes_back(
    tokenizer: Tokenizer, language: str
) -> None:
    text = LANGUAGES[language]
    text *= 1_000_000 // len(text.encode())
    start_s = time.process_time()
    token_ids = tokenizer.encode(text)
    restored = tokenizer.decode(token_ids)
    assert time.process_time() - start_s < 20
    assert restored == text


@pytest.mark.real
@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\udc41b", "ok\ud83d"], ids=ascii)
def test_half_a_surrogate_pair_is_refused_wherever_it_stands(
    tokenizer: Tokenizer, text: str
) -> None:
    with pytest.raises(TokenizerError, match="lone surrogate"):
        tokenizer.encode(text)
    with pytest.raises(TokenizerError, match="lone surrogate"):
        tokenizer.encode_chat([{"role": "user", "content": text}])


@pytest.mark.real
def test_a_leading_space_is_streamed(tokenizer: Tokenizer) -> None:
    assert streamed(tokenizer, tokenizer.encode(" hello")) == " hello"


@pytest.mark.real
@pytest.mark.parametrize("text", TEXTS)
def test_streamed_text_is_whole_characters_and_complete(tokenizer: Tokenizer, text: str) -> None:
    stream = tokenizer.stream()
    token_ids = tokenizer.encode(text)
    pieces = [*(stream.push(token_id) for token_id in token_ids), stream.finish()]
    assert "".join(pieces) == tokenizer.decode(token_ids)
    assert "".join(pieces).count("\ufffd") == text.count("\ufffd")


@pytest.mark.real
def test_an_invalid_byte_does_not_stall_the_stream(tokenizer: Tokenizer) -> None:
    stream = tokenizer.stream()
    token_ids = [tokenizer.token_id("ÿ"), *tokenizer.encode(" ok")]
    assert [stream.push(token_id) for token_id in token_ids] == ["\ufffd", " ok"]


@pytest.mark.real
def test_time_grows_in_step_with_a_text_without_spaces(tokenizer: Tokenizer) -> None:
    def cpu_s(length: int) -> float:
        start = time.process_time()
        token_ids = tokenizer.encode("a" * length)
        elapsed = time.process_time() - start
        assert tokenizer.decode(token_ids) == "a" * length
        return elapsed

    # The best of several, taken in turns: the machine's speed may change in between.
    pairs = [(cpu_s(20_000), cpu_s(40_000)) for _ in range(7)]
    assert min(long for _, long in pairs) < 3 * min(short for short, _ in pairs)
