"""A file of prompts into a file of answers."""

from augur.batch.job import Job, run_batch
from augur_apps.answer_figures import batch_line, progress_words
from augur_apps.console import EXIT_FAILURE, progress_bars, stderr


def answer_file(job: Job) -> None:
    """Answer every line, and tell how far it is and what it came to.

    Raises:
        SystemExit: some prompts have no answer.
    """
    try:
        with progress_bars() as bars:
            outcome = run_batch(
                job, bars, lambda figures: bars.tell("answers", progress_words(figures))
            )
    except KeyboardInterrupt:
        stderr.print(f"{job.output}: not complete; the same command goes on", markup=False)
        raise
    said = f"{job.output}: {outcome.num_answers} answers"
    if outcome.num_new < outcome.num_answers:
        said += f", {outcome.num_answers - outcome.num_new} of them from before"
    if outcome.figures is None:
        said += "; it is complete, nothing was done"
    stderr.print(said, markup=False)
    if outcome.figures is not None:
        stderr.print(batch_line(outcome.figures), style="dim", markup=False)
    if outcome.num_errors:
        stderr.print(
            f"error: {outcome.num_errors} of {outcome.num_answers} prompts could not be answered; "
            'their lines have "error"',
            style="red",
        )
        raise SystemExit(EXIT_FAILURE)
