"""Many sequences at once, in each way there is."""

from dataclasses import replace

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from augur_bench import BenchError, Rung, RungFailedError, choose_rungs, result_object
from augur_bench.company import one_by_one
from augur_bench.figures import throughput_figure
from augur_bench.ladder import COMPANY, LADDER
from augur_bench.limits import Limits
from augur_bench.measure import Climb
from augur_bench.report import report_text
from augur_bench.throughput import questions, run_throughput, throughput_rungs
from augur_bench.work import ModelSize
from augur_bench.worker import Worker
from augur_gen import BLOCK_SIZE


@pytest.fixture(scope="session")
def points(result):
    return {(point["num_sequences"], point["rung"]): point for point in result["throughput"]}


def test_every_way_answers_every_number(points):
    assert set(points) == {
        (number, rung) for number in (1, 5) for rung in ("sdpa", "padded", "continuous")
    }


def test_each_way_gives_the_texts_of_one_by_one(points):
    assert all(point["num_same_texts"] == point["num_sequences"] for point in points.values())


def test_rates_and_times_belong_together(points):
    for point in points.values():
        assert point["ttft_s"]["p50"] <= point["ttft_s"]["p95"]
        assert point["between_s"]["p50"] <= point["between_s"]["p95"]
        rate = point["tokens_per_s"]
        assert rate["low"] <= rate["median"] <= rate["high"]
        seconds = point["new_tokens"] / rate["low"]  # of the slowest run
        assert point["ttft_s"]["p95"] < seconds
    assert points[5, "sdpa"]["gain"] == {"median": 1, "low": 1, "high": 1}


def test_memory_is_what_was_taken_beside_what_is_needed(points, make_settings):
    settings = make_settings()
    asked = questions(5, settings)

    def bytes_of(num_tokens):
        return settings.size.cache_bytes(num_tokens, torch.float32)

    longest = max(one.num_tokens for one in asked)
    assert points[5, "sdpa"]["cache_bytes"] == bytes_of(longest)
    assert points[5, "padded"]["cache_bytes"] == bytes_of(5 * longest)
    needed = bytes_of(sum(one.num_tokens - 1 for one in asked))
    assert {points[5, name]["needed_bytes"] for name in ("padded", "continuous")} == {needed}
    # All run at once, and not all are full when the first ends: less than a block of each is lost.
    assert points[5, "continuous"]["cache_bytes"] < needed + bytes_of(5 * BLOCK_SIZE)
    assert points[5, "continuous"]["cache_bytes"] < points[5, "padded"]["cache_bytes"]


def test_questions_differ_in_length_and_begin_differently(make_settings):
    prompts = [list(range(100 * start, 100 * start + 90)) for start in range(9)]
    asked = questions(8, make_settings(prompts=prompts, max_new_tokens=32))
    assert len({len(one.prompt_token_ids) for one in asked}) == 8
    assert {one.num_new_tokens for one in asked} == {32, 28, 24, 20}
    assert len({one.prompt_token_ids[0] for one in asked}) == 8


def test_questions_that_do_not_fit_the_model_are_refused(make_settings):
    settings = make_settings()
    few = ModelSize(replace(settings.size.config, max_position_embeddings=50))
    with pytest.raises(BenchError, match="the longest comes to 63 tokens, but the model has 50"):
        questions(4, replace(settings, size=few))


def test_a_rung_of_a_file_joins_in_and_a_peer_where_it_is_asked_for():
    def faster(*_):
        raise NotImplementedError

    mine = Rung("mine", "", answer_many=faster)
    ours = [LADDER["sdpa"], *COMPANY.values()]
    assert throughput_rungs([LADDER["cached"], LADDER["sdpa"], mine], None) == [*ours, mine]
    *others, peer = throughput_rungs([], "transformers")
    assert (others, peer.name) == (ours, "transformers-sdpa")


def test_they_are_rungs_like_others_when_they_are_named():
    named = choose_rungs("continuous,padded,cached")
    assert [rung.name for rung in named] == ["cached", "padded", "continuous"]
    assert not set(COMPANY) & {rung.name for rung in choose_rungs(None)}


@pytest.mark.usefixtures("workers_here")
def test_one_that_leaves_tokens_out_ends_the_bench(make_settings, monkeypatch):
    def fewer(model, asked, tell):
        return one_by_one(model, [replace(one, num_new_tokens=1) for one in asked], tell)

    monkeypatch.setitem(COMPANY, "padded", replace(COMPANY["padded"], answer_many=fewer))
    settings = make_settings()
    with pytest.raises(RungFailedError, match="padded gave 1 tokens for sequence 1, expected 6"):
        run_throughput([questions(2, settings)], [LADDER["sdpa"], COMPANY["padded"]], settings)


@pytest.mark.usefixtures("workers_here")
def test_one_that_cannot_run_here_is_left_out_and_says_why(make_settings, monkeypatch):
    lacking = replace(COMPANY["padded"], missing=lambda _: "there is no abacus here")
    monkeypatch.setitem(COMPANY, "padded", lacking)
    settings = make_settings()
    rungs = [LADDER["sdpa"], lacking]
    found = run_throughput([questions(2, settings)], rungs, settings)
    assert [point["rung"] for point in found.points] == ["sdpa"]
    assert found.left_out == {"padded": "there is no abacus here"}
    climbed = Climb({"load_average": None, "cpu_count": None}, Limits(None, {}), [], {})
    result = result_object("tiny", settings, climbed, throughput=found)
    assert result["left_out"] == [{"name": "padded", "reason": "there is no abacus here"}]


def test_tokens_are_told_as_they_come(make_settings):
    class Clock:
        now_s = 0.0

        def read(self):
            self.now_s += 1
            return self.now_s

    settings = make_settings()
    worker = Worker(settings, Clock())
    worker.load("sdpa")
    asked = [replace(one, num_new_tokens=2) for one in questions(2, settings)]
    run = worker.answer_many(asked)
    assert run.token_s == [[1, 2], [3, 4]]
    assert run.elapsed_s == 5


def test_the_picture_has_a_line_for_each_way(result):
    figure = throughput_figure(result["throughput"], "some model")
    FigureCanvasAgg(figure).draw()
    rate, wait = figure.axes
    assert [text.get_text() for text in rate.get_legend().get_texts()] == [
        *("sdpa", "padded", "continuous")
    ]
    assert len(wait.lines) == 3
    assert {axes.get_xlabel() for axes in figure.axes} == {"sequences"}


def test_the_page_has_the_table(result):
    page = report_text(result)
    assert "## Many sequences at once" in page
    assert "](throughput.svg)" in page
    assert page.count("| continuous |") == 4  # two numbers, two tables
