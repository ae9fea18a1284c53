"""The float32 eager reference: run once, its logits kept in a file for the rungs."""

from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from augur_bench.ladder import REFERENCE
from augur_bench.progress import Say
from augur_bench.reference_logits import Continuation
from augur_bench.settings import Settings


@dataclass(frozen=True)
class Reference:
    """What the rungs are held against.

    Attributes:
        timed: the reference's continuation of the timed prompt.
        checks: its continuations of the other prompts.
        logits: the file of all rows.
        num_rows: of that file.
        vocab_size: width of its rows.
    """

    timed: Continuation
    checks: list[Continuation]
    logits: Path
    num_rows: int
    vocab_size: int

    def compare_arguments(self, own_token_ids: list[int]) -> dict[str, Any]:
        """What a worker is told to compare."""
        return {
            "timed": asdict(self.timed),
            "checks": [asdict(one) for one in self.checks],
            "own_token_ids": own_token_ids,
            "logits": str(self.logits),
            "num_rows": self.num_rows,
            "vocab_size": self.vocab_size,
        }


def make_reference(settings: Settings, capacity: int, say: Say) -> Reference:
    """Continue the timed prompt and the check prompts greedily."""
    workload = settings.workload
    prompts = [workload.prompt_token_ids, *workload.check_prompts]
    counts = [settings.max_new_tokens, *[settings.check_tokens] * len(workload.check_prompts)]
    logits = settings.scratch / "reference-logits.f32"
    with settings.worker(REFERENCE.name) as worker:
        say("reference: loading")
        worker.ask("load", **settings.load_arguments(REFERENCE))
        worker.ask("warm_up", prompt_token_ids=workload.prompt_token_ids, capacity=capacity)
        say("reference: computing the logits to compare with")
        answer = worker.ask(
            "record",
            prompts=prompts,
            num_tokens=counts,
            logits=str(logits),
            vocab_size=settings.vocab_size,
        )
    first_rows = [0, *accumulate(counts)]
    timed, *checks = (
        Continuation(prompt, token_ids, first_row)
        for prompt, token_ids, first_row in zip(
            prompts, answer["token_ids"], first_rows[:-1], strict=True
        )
    )
    return Reference(timed, checks, logits, first_rows[-1], settings.vocab_size)
