"""The process in which chat templates run, from outside: started, asked, ended.

Steps, sizes and memory are counted, so that a template is taken or refused alike on every machine.
Time is the last bound; the clock's is the only one that Windows has, and macOS bounds no memory.
"""

import marshal
import os
import signal
import subprocess
import sys
import threading
import weakref
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from augur_tok.errors import ChatTemplateError

# What a template may take, and so much more for each byte of the chat that it is handed.
STEPS, STEPS_EACH = 300_000, 20  # lines of the template, and calls of anything
LARGEST, LARGEST_EACH = 100_000, 10  # characters of a text and of all that is written, or items
BYTES, BYTES_EACH = 200_000_000, 60  # of memory, beside what Python and jinja have
SECONDS, BYTES_A_SECOND = 3, 100_000  # of the processor
OUT_OF_TIME = -getattr(signal, "SIGPROF", 0)  # the status of a process that took longer
BY_THE_CLOCK = 4 if OUT_OF_TIME else 1  # times as long

Child = subprocess.Popen[bytes]
START = (
    "import sys, types; package = types.ModuleType('augur_tok'); package.__path__ = sys.argv[1:2]; "
    "sys.modules['augur_tok'] = package; sys.path[:0] = sys.argv[2:]; "
    "from augur_tok.template_child import main; main()"
)


class TemplateProcess:
    """One process, which starts when it is first asked and ends with this object or with Python.

    Any thread may ask: one is answered after another. After a fork, the new process has its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None

    def render(self, context: dict[str, Any], **request: Any) -> str:
        """The text that a template writes, of a chat by whose length its bounds go.

        Raises:
            ChatTemplateError: the template is refused or fails, or there is no process for it.
        """
        if self._owner != os.getpid():
            self.__init__()  # type: ignore[misc]
        given = len(marshal.dumps(context, 2))  # without references: by the value alone
        request |= {"context": context, "steps": STEPS + STEPS_EACH * given}
        request["largest"] = LARGEST + LARGEST_EACH * given
        most_bytes, most_s = BYTES + BYTES_EACH * given, SECONDS + given // BYTES_A_SECOND
        with self._lock:
            is_text, answer = self._answer(marshal.dumps(request, 2), most_bytes, most_s)
        if not is_text:
            raise ChatTemplateError(f"the checkpoint's chat template {answer}")
        return answer

    def _answer(self, request: bytes, most_bytes: int, most_s: int) -> tuple[bool, str]:
        process = self._running()
        timer = threading.Timer(most_s * BY_THE_CLOCK, process.kill)
        timer.daemon = True
        timer.start()
        try:
            head = (len(request), most_bytes, most_s)
            _write(process.stdin, b"".join(number.to_bytes(8) for number in head) + request)
            kind, size = _read(process.stdout, 1), int.from_bytes(_read(process.stdout, 8))
            body = _read(process.stdout, min(size, most_bytes))
            return kind == b"T", body.decode(errors="replace")
        except (OSError, EOFError):
            status = self._end()
        except BaseException:  # Ctrl-C, say: the rest of the answer would be taken for the next
            self._end()
            raise
        finally:
            timer.cancel()
        late = f"takes longer than {most_s} s of the processor"
        what = late if status == OUT_OF_TIME else f"ended its process ({status})"
        return False, f"{what}. Use another checkpoint's tokenizer files, or raw text."

    def _running(self) -> Child:
        if self._process is None or self._process.poll() is not None:
            self._process = _started()
            self._end = weakref.finalize(self, _end, self._process, self._owner)
        return self._process


def _started() -> Child:
    found = (find_spec(name) for name in ("jinja2", "markupsafe"))
    paths = [str(Path(spec.origin).parents[1]) for spec in found if spec and spec.origin]
    try:
        if not sys.executable or getattr(sys, "frozen", False):
            raise OSError(f"sys.executable is {sys.executable!r}, expected a Python")
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", START, str(Path(__file__).parent), *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a terminal's Ctrl-C is for the other process
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except OSError as error:
        what = f"a chat template runs in a process of its own, and none can be started ({error})"
        raise ChatTemplateError(f"{what}. Use raw text.") from error


def _end(process: Child, owner: int) -> int | None:
    if owner != os.getpid():
        return None  # after a fork it is the other one's
    with process:  # which closes the pipes and waits
        process.kill()
    return process.returncode


def _write(pipe: Any, data: bytes) -> None:
    view = memoryview(data)
    while view:  # past Python's buffer: a fork would copy what is left in it, and write it again
        view = view[os.write(pipe.fileno(), view) :]


def _read(pipe: Any, size: int) -> bytes:
    if len(data := pipe.read(size)) < size:
        raise EOFError
    return bytes(data)
