"""A conversation shown to a person: answers stream to stdout, all else is said on stderr."""

import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from augur_gen import TextResult
from chatting.answer import Answer
from chatting.conversation import Conversation
from chatting.ctrl_c import ctrl_c_stops
from chatting.messages import Messages
from console import stderr
from generation_options import SEEDS, GenerationOptions

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
            what `Conversation.ask` raises.
        """
        self._show(
            self.conversation.ask(text, self.options),
            "stopped before the first token; the message was taken back",
        )

    def retry(self) -> None:
        """Show another answer to the last message, drawn with the next seed.

        Raises:
            what `Conversation.retry` raises.
        """
        options = self.options
        last = self.last_answer
        sampling = None if last is None else last.result().generation.sampling
        if sampling is not None and sampling.seed is not None:
            options = options.with_seed((sampling.seed + 1) % len(SEEDS))
        self._show(
            self.conversation.retry(options),
            "stopped before the first token; the conversation is as it was",
        )
        if not options.is_random:
            say("nothing is drawn at random without --temperature: expect the same answer again")

    def _show(self, answering: AbstractContextManager[Answer], if_nothing: str) -> None:
        try:
            with answering as answer, self._ctrl_c(answer):
                if answer.dropped:
                    say(_told(answer.dropped))
                _stream(answer)
        except KeyboardInterrupt:
            if not self.is_interactive:
                raise
            say(if_nothing)
            return
        self.last_answer = answer
        note = _note(answer.result(), self.options)
        if note is not None:
            say(note)

    def _ctrl_c(self, answer: Answer) -> AbstractContextManager[None]:
        return ctrl_c_stops(answer) if self.is_interactive else nullcontext()


def say(text: str) -> None:
    """Tell the person something."""
    stderr.print(text, style="dim", markup=False)


def _stream(answer: Answer) -> None:
    try:
        for piece in answer:
            sys.stdout.write(piece)
            sys.stdout.flush()
    finally:
        if answer.has_begun:  # whatever comes next, it begins on its own line
            sys.stdout.write("\n")
            sys.stdout.flush()


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
