"""Whatever the tokenizers library raises, as an error of ours."""

from collections.abc import Iterator
from contextlib import contextmanager

from augur_tok.errors import TokenizerError


@contextmanager
def library_errors(what: str, advice: str) -> Iterator[None]:
    """Turn what the library raises inside into a TokenizerError: "what (its words). advice".

    It raises bare Exception, and where its Rust code panics a BaseException of its own.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, TokenizerError):
        raise
    except BaseException as error:
        raise TokenizerError(f"{what} ({error}). {advice}") from error
