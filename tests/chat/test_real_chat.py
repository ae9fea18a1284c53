"""Five turns with the default model's real weights, template and tokenizer."""

from collections.abc import Callable
from pathlib import Path

import pytest

from augur.conversation import Conversation
from augur.llm import LLM
from augur.options import GenerationOptions
from chat_turns import ask, fed_lengths, fresh_answers

pytestmark = [pytest.mark.real, pytest.mark.gate]

TEXTS = (
    "What is the capital of France?",
    "And of Italy?",
    "What is 2 + 2?",
    "Write it as a word.",
    "Say goodbye in French.",
)
OPTIONS = GenerationOptions(max_new_tokens=8)

# Fed at once or one by one, the same tokens give logits that differ by up to 3e-5 in float32.
REAL_GAP = 1e-2


def test_five_turns_equal_five_fresh_runs_and_feed_only_what_is_new(
    real_checkpoint: Path, load_engine: Callable[[Path], LLM]
):
    engine = load_engine(real_checkpoint)
    fresh = fresh_answers(engine, TEXTS, OPTIONS, REAL_GAP)
    conversation = Conversation(engine, 512)
    new = engine.tokenizer.encode
    was_cut = False
    for turn, (text, expected) in enumerate(zip(TEXTS, fresh, strict=True)):
        with fed_lengths(engine.model) as lengths:
            answer = ask(conversation, text, OPTIONS)
        assert answer.result().token_ids == expected.token_ids, turn
        assert lengths[1:] == [1] * (len(expected.token_ids) - 1)
        if turn:
            end = f"<|im_end|>\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
            assert lengths[0] == len(new(end, allow_special=True)) + was_cut
        was_cut = expected.finish_reason == "length"
