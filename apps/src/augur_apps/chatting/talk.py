"""A conversation shown to a person: answers stream to stdout, all else is said on stderr."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from augur.answer import Answer
from augur.conversation import Conversation
from augur.messages import Messages
from augur.options import SEEDS, GenerationOptions
from augur_apps.chatting.ctrl_c import ctrl_c_stops
from augur_apps.chatting.ctrl_d import ctrl_d_waits
from augur_apps.chatting.shown import say, shown
from augur_gen import TextResult


class OutputLostError(Exception):
    """Nothing can be written to stdout any more.

    Attributes:
        error: why.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


_NOTES = {
    None: "stopped; what was said is kept",
    "length": "cut at {max_new_tokens} tokens (--max-new-tokens)",
    "time": "cut after {max_time_s:g} s (--max-time)",
}


@dataclass
class Talk:
    """What the person's lines and commands act on.

    Attributes:
        conversation: messages and model.
        options: how answers are made.
        is_interactive: whether a person is there: Ctrl-C then stops an answer, not the program.
        last_answer: of this conversation, if it was made here.
        file: where the conversation was read from or written to; it may be written there again.
        is_over: whether the person wants to leave.
    """

    conversation: Conversation
    options: GenerationOptions
    is_interactive: bool
    last_answer: Answer | None = None
    file: Path | None = None
    is_over: bool = False

    def send(self, text: str) -> None:
        """Say something, and show the answer.

        Raises:
            OutputLostError: stdout takes no more.
            what `Conversation.ask` raises.
        """
        self._show(self.conversation.ask(text, self.options))

    def retry(self) -> None:
        """Show another answer to the last message, drawn with the next seed.

        Raises:
            OutputLostError: stdout takes no more.
            what `Conversation.retry` raises.
        """
        options = self.options
        last = self.last_answer
        sampling = None if last is None else last.result().generation.sampling
        if sampling is not None and sampling.seed is not None:
            options = options.with_seed((sampling.seed + 1) % len(SEEDS))
        self._show(self.conversation.retry(options), is_retry=True)

    def _show(self, answering: AbstractContextManager[Answer], *, is_retry: bool = False) -> None:
        try:
            with answering as answer, self._keys(answer):
                if answer.dropped:
                    say(_told(answer.dropped))
                if is_retry and self._is_known(answer):
                    say(
                        "nothing is drawn at random without --temperature: expect the same answer "
                        "again"
                    )
                try:
                    _stream(answer)
                finally:
                    if answer.has_begun:  # it belongs to the conversation, whatever broke it off
                        self.last_answer = answer
        except KeyboardInterrupt:
            if not self.is_interactive:
                raise
            what_stays = "conversation is as it was" if is_retry else "message was taken back"
            say(f"stopped before the first token; the {what_stays}")
            return
        note = _note(answer.result(), self.options)
        if note is not None:
            say(note)

    def _is_known(self, answer: Answer) -> bool:
        """Whether the last answer was a whole one to the same prompt, with nothing left to luck."""
        last = self.last_answer
        return (
            last is not None
            and last.result().finish_reason not in (None, "time")
            and last.prompt_token_ids == answer.prompt_token_ids
            and not self.options.is_random
        )

    @contextmanager
    def _keys(self, answer: Answer) -> Iterator[None]:
        if not self.is_interactive:
            yield
            return
        with ctrl_c_stops(answer), ctrl_d_waits():
            yield


def _stream(answer: Answer) -> None:
    is_terminal = sys.stdout.isatty()
    try:
        for piece in answer:
            _write(shown(piece) if is_terminal else piece)
    finally:
        if answer.has_begun:  # whatever comes next, it begins on its own line
            _write("\n")


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        raise OutputLostError(error) from error


def _note(result: TextResult, options: GenerationOptions) -> str | None:
    note = _NOTES.get(result.finish_reason)
    return note and note.format(
        max_new_tokens=options.max_new_tokens, max_time_s=options.max_time_s
    )


def _told(dropped: Messages) -> str:
    lines = [f"the context is full: dropped the {len(dropped)} oldest messages"]
    lines += [f"  {message.role}: {_excerpt(message.content)}" for message in dropped]
    return "\n".join(lines)


def _excerpt(text: str, length: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"
