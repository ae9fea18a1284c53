"""Lines in: commands are obeyed, everything else is sent."""

import torch

from augur_gen import GenerationError
from augur_model import ModelError
from augur_tok import TokenizerError
from chatting.commands import obey
from chatting.lines import Lines
from chatting.talk import Talk, say
from console import stderr
from engine import PromptError

HINT = "/help lists the commands; Ctrl-C stops an answer; Ctrl-D ends"

_REFUSALS = (PromptError, TokenizerError, GenerationError, ModelError)
_OUT_OF_MEMORY = (MemoryError, torch.OutOfMemoryError)


def run_session(talk: Talk, lines: Lines) -> bool:
    """Talk until the lines end or `/exit`, and tell whether every line was taken.

    What is refused is told, and the next line is taken.
    """
    all_taken = True
    while not talk.is_over:
        try:
            _take(talk, lines.read())
        except EOFError:
            break
        except KeyboardInterrupt:
            if not talk.is_interactive:
                raise
            say(HINT)
        except _REFUSALS as error:
            all_taken = False
            _say_error(str(error))
        except _OUT_OF_MEMORY:
            all_taken = False
            _say_error(
                "out of memory; what was said is kept. /save it, and take a smaller --context"
            )
    return all_taken


def _take(talk: Talk, line: str) -> None:
    if line.startswith("//"):
        talk.send(line[1:])
    elif line.startswith("/"):
        obey(talk, line)
    elif line.strip():
        talk.send(line)


def _say_error(message: str) -> None:
    stderr.print(f"error: {message}", style="red", markup=False)
