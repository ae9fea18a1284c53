"""Lines in: commands are obeyed, everything else is sent."""

from augur.errors import ConversationError
from augur.memory import is_out_of_memory
from augur_apps.chatting.commands import obey
from augur_apps.chatting.lines import Lines
from augur_apps.chatting.shown import say, say_error
from augur_apps.chatting.talk import OutputLostError, Talk
from augur_apps.console import EXIT_FAILURE, EXIT_WRONG_INPUT, told
from augur_gen import GenerationError
from augur_model import ModelError
from augur_tok import TokenizerError

HINT = "/help lists the commands; Ctrl-C stops an answer; Ctrl-D ends"

_REFUSALS = (TokenizerError, GenerationError, ModelError)


def run_session(talk: Talk, lines: Lines, *, debug: bool = False) -> int:
    """Talk until the lines end or `/exit`.

    What goes wrong is told, and the next line is taken: what was said must not be lost.

    Args:
        talk: what the lines act on.
        lines: where they come from.
        debug: whether tracebacks are shown.

    Returns:
        The exit status of a program that nobody watched: 1 if a line met a failure of ours, 2 if
        one was refused, 0 if all were taken.

    Raises:
        OSError: stdout, stderr or stdin is lost.
        KeyboardInterrupt: where nobody is there who could go on.
    """
    statuses = {0}
    while not talk.is_over:
        try:
            statuses.add(_status_of(talk, lines.read(), debug=debug))
        except EOFError:
            break
        except ConversationError as error:
            say_error(f"error: {told(error)}", debug=debug)
            statuses.add(EXIT_WRONG_INPUT)
        except KeyboardInterrupt:
            if not talk.is_interactive:
                raise
            say(HINT)
    return min(statuses - {0}, default=0)


def _status_of(talk: Talk, line: str, *, debug: bool) -> int:
    try:
        _take(talk, line)
    except OutputLostError as lost:
        raise lost.error from None
    except _REFUSALS as error:
        say_error(f"error: {told(error)}", debug=debug)
        return EXIT_WRONG_INPUT
    except Exception as error:
        if is_out_of_memory(error):
            what = "out of memory; what was said is kept. /save it, and take a smaller --context"
            say_error(f"error: {what}", debug=debug)
            return EXIT_WRONG_INPUT
        advice = "" if debug else "; to see where, run it with --debug"
        say_error(
            f"internal error: {type(error).__name__}: {error}; what was said is kept{advice}",
            debug=debug,
        )
        return EXIT_FAILURE
    return 0


def _take(talk: Talk, line: str) -> None:
    if line.startswith("//"):
        talk.send(line[1:])
    elif line.startswith("/"):
        obey(talk, line)
    elif line.strip():
        talk.send(line)
