"""Where chat templates run: a process with limits, which renders what it is asked to until its end.

A template is a program that came with the weights, from anyone. Here it may loop for ever or fill
the memory, and only this process ends; it has no file and no socket, and can open none.
`template_process` starts it, with jinja2 and nothing else of augur's. A request comes in marshal,
behind its size and limits; out goes a text, or what an error says of the template.
"""

import marshal
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from jinja2 import Template, TemplateSyntaxError

from augur_tok.template_environment import ChatEnvironment, RefusedError
from augur_tok.template_literals import mark_literals

try:
    import resource
except ImportError:  # Windows: there the other process ends what takes too long
    resource = None  # type: ignore[assignment]


def main() -> None:
    """Answers the requests of stdin on stdout, until there are no more."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    own_bytes = _confine()
    while head := requests.read(24):
        size, most_bytes, most_s = (int.from_bytes(head[at : at + 8]) for at in (0, 8, 16))
        _limit(own_bytes + most_bytes, most_s)
        try:
            kind, body = b"T", _rendered(**marshal.loads(requests.read(size)))
        except (Exception, RefusedError) as error:
            kind, body = b"E", _words(error, most_bytes)[:2_000].encode(errors="replace")
        _limit(own_bytes + most_bytes, 0)
        answers.write(kind + len(body).to_bytes(8) + body)
        answers.flush()


def _confine() -> int:
    """From here on nothing can be opened; returns the address space that is in use."""
    with suppress(TypeError):  # what Python and jinja open late, for names and errors, is opened
        ChatEnvironment(99).from_string("{% set é = '\\n' %}{{ é / 0 }}").render()
    if resource is None:
        return 0
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    usage = Path("/proc/self/statm")  # Linux's
    pages = int(usage.read_text(encoding="ascii").split()[0]) if usage.exists() else 0
    for kind, most in ((resource.RLIMIT_NOFILE, 3), (resource.RLIMIT_FSIZE, 0)):
        resource.setrlimit(kind, (most, most))
    return pages * resource.getpagesize()


def _limit(most_bytes: int, most_s: int) -> None:
    """So much address space, and so long of the processor from now on; 0 for no end."""
    if resource is not None:
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        with suppress(ValueError, OSError):  # macOS has no such bound; others, a lower one
            resource.setrlimit(resource.RLIMIT_AS, (most_bytes, hard))
        signal.setitimer(signal.ITIMER_PROF, most_s)  # whose signal ends the process


def _rendered(
    context: dict[str, Any], source: str, named: dict[str, str], special: tuple[str, ...],
    mark: str, now: str, largest: int, steps: int,
) -> bytes:  # fmt: skip
    code = _compiled(source, special, mark)
    environment = ChatEnvironment(largest)
    template = Template.from_code(environment, code, environment.make_globals(None))
    date = datetime.fromisoformat(now)
    sys.settrace(_counter(steps))
    try:
        return template.render({"strftime_now": date.strftime, **named, **context}).encode()
    except UnicodeEncodeError:
        raise RefusedError("writes a lone surrogate, which is no character") from None
    finally:
        sys.settrace(None)


@lru_cache(maxsize=4)
def _compiled(source: str, special: tuple[str, ...], mark: str) -> CodeType:
    environment = ChatEnvironment(0)
    try:
        tree = environment.parsed(source)
        return environment.compile(mark_literals(tree, special, mark) if mark else tree)
    except MemoryError:
        raise
    except Exception as error:  # the compiler lets Python's own errors through, too
        at = f", line {error.lineno}" if isinstance(error, TemplateSyntaxError) else ""
        why = getattr(error, "message", str(error))
        raise RefusedError(f"is not valid Jinja, or uses what augur lacks ({why}{at})") from error


def _counter(steps: int) -> Callable[..., Any]:
    """A trace function that lets a template run so many lines, and calls of whatever it uses."""
    left = iter(range(steps))

    def count(frame: FrameType, *_: object) -> Callable[..., Any] | None:
        if next(left, None) is None:
            raise RefusedError("takes more steps than a chat of this length can need")
        return count if frame.f_code.co_filename == "<template>" else None

    return count


def _words(error: BaseException, most_bytes: int) -> str:
    """What an error says of "the checkpoint's chat template"."""
    if isinstance(error, MemoryError):
        error = RefusedError(f"takes more than {most_bytes // 10**6:,} MB")
    if isinstance(error, RefusedError):
        return f"{error}. Use another checkpoint's tokenizer files, or raw text."
    return f"failed on these messages ({type(error).__name__}): {error}"
