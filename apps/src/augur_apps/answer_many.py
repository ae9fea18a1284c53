"""Several texts, made together and shown one after another."""

import sys
from collections.abc import Mapping, Sequence

from augur import LLM, GenerationError, TextResult
from augur.text_batch import AskedText, TextBatch
from augur_apps.answer_figures import batch_line, figures_of, tell_figures
from augur_apps.console import EXIT_FAILURE, EXIT_INTERRUPTED, say_error, stderr, told


def answer_many(
    model: str,
    llm: LLM,
    asked: Sequence[AskedText],
    batch: TextBatch,
    *,
    as_json: bool,
) -> None:
    """Print texts in their order, each as it grows or, where it waits for its turn, at once.

    Args:
        model: its name.
        llm: model and tokenizer.
        asked: the prompts, with as many samples each.
        batch: of them, not begun.
        as_json: print an object with the figures of each in place of its text.

    Raises:
        SystemExit: some have no answer, or Ctrl-C came; what there was by then is printed.
    """
    turns = _Turns(model, llm, asked, as_json)
    status = 0
    try:
        for step in batch:
            turns.take(step.pieces, step.ended)
    except KeyboardInterrupt:
        turns.take({}, batch.unfinished())
        status = EXIT_INTERRUPTED
    stderr.print(f"together: {batch_line(batch.figures)}", style="dim", markup=False)
    if status or turns.num_errors:
        raise SystemExit(status or EXIT_FAILURE)


class _Turns:
    """What is printed so far, and what waits."""

    def __init__(self, model: str, llm: LLM, asked: Sequence[AskedText], as_json: bool) -> None:
        self._model, self._llm, self._asked, self._as_json = model, llm, asked, as_json
        self._texts: dict[int, str] = {}
        self._ended: dict[int, TextResult | Exception] = {}
        self._place = 0  # whose turn it is
        self._num_printed: int | None = None  # characters of its text; None before its label
        self.num_errors = 0

    def take(self, pieces: Mapping[int, str], ended: Mapping[int, TextResult | Exception]) -> None:
        """Keep what there is, and print what can be."""
        for place, piece in pieces.items():
            self._texts[place] = self._texts.get(place, "") + piece
        self._ended.update(ended)
        while self._place in self._texts or self._place in self._ended:
            result = self._ended.get(self._place)
            self._print(result.text if isinstance(result, TextResult) else None)
            if result is None:
                return
            self._end(result)
            del self._ended[self._place]
            self._texts.pop(self._place, None)
            self._place, self._num_printed = self._place + 1, None

    def _print(self, whole: str | None) -> None:
        if self._num_printed is None:
            stderr.print(self._label(), style="bold", markup=False)
        text = self._texts.get(self._place, "") if whole is None else whole
        if not self._as_json:
            sys.stdout.write(text[self._num_printed or 0 :])
            sys.stdout.flush()
        self._num_printed = len(text)

    def _end(self, result: TextResult | Exception) -> None:
        if not self._as_json:
            print(flush=True)
        if isinstance(result, Exception):
            if not isinstance(result, GenerationError):
                raise result
            self.num_errors += 1
            say_error(f"{self._label()}: {told(result)}")
            return
        asked = self._asked[self._place // self._asked[0].num_samples]
        token_ids, most = list(asked.token_ids), asked.options.max_new_tokens
        tell_figures(figures_of(self._model, self._llm, token_ids, result, most), self._as_json)

    def _label(self) -> str:
        """What the text is called whose turn it is: "prompt 2 of 3, sample 1 of 2"."""
        num_samples = self._asked[0].num_samples
        prompt, sample = divmod(self._place, num_samples)
        words = []
        if len(self._asked) > 1:
            words.append(f"prompt {prompt + 1} of {len(self._asked)}")
        if num_samples > 1:
            words.append(f"sample {sample + 1} of {num_samples}")
        return ", ".join(words)
