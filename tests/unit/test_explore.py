"""The explorers and predictions: every value gives a picture and a verdict, a failure is shown, the next move works."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from onelaunch import explore
from onelaunch.charts.launch_overhead import LaunchOverhead, LaunchOverheadChart, Timeline
from onelaunch.charts.style import Canvas, microseconds, new_figure, nice_ceiling


def picture(explorer) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(explorer._image.value)).convert("RGB")).astype(int)


@pytest.fixture
def overhead():
    return explore.launch_overhead()


@pytest.mark.parametrize("kernel_us", [0, 0.1, 1, 2.8, 20, 500])
@pytest.mark.parametrize("launches", [0, 1, 2, 3, 512, 4096])
def test_any_slider_value_gives_a_picture_and_a_verdict(overhead, launches, kernel_us):
    overhead.launches.value, overhead.kernel_us.value = launches, kernel_us
    assert overhead.error == ""
    assert picture(overhead).shape == (560, 960, 3)
    assert picture(overhead).std() > 10
    assert overhead.verdict
    assert overhead.provenance.startswith("modelled")


def test_the_verdict_turns_where_the_kernel_outlasts_its_launch(overhead):
    crossover = overhead._comparison.slopes("rawkernel").crossover_us
    assert overhead.view().crossover_us == crossover
    for kernel_us, verdict in (
        (0.6 * crossover, "host-bound: the GPU idles"),
        (crossover, "balanced: a kernel, with its start and end, takes about as long as its launch"),
        (1.6 * crossover, "GPU-bound"),
    ):
        overhead.kernel_us.value = round(kernel_us, 1)
        assert overhead.verdict.startswith(verdict)
    overhead.launches.value = 8
    assert overhead.view().crossover_us is None  # too few launches to be bound by anything
    overhead.launches.value = 1
    assert overhead.verdict.startswith("a single launch: one call either way")
    overhead.launches.value = 0
    assert overhead.verdict.startswith("nothing launched")


def test_every_api_can_be_chosen(overhead):
    verdicts = set()
    for _, api in overhead.api.options:
        overhead.api.value = api
        assert overhead.error == ""
        verdicts.add(overhead.verdict)
    assert len(verdicts) == len(overhead.api.options) >= 5


def test_an_api_that_is_not_here_is_refused():
    with pytest.raises(ValueError, match="no launch API 'opencl' here; there are cpp, bindings"):
        explore.launch_overhead(api="opencl")
    with pytest.raises(ValueError, match="no launch API 'ufunc'"):
        explore.launch_overhead(api="ufunc")


def test_slider_and_number_box_follow_each_other(overhead):
    dial = overhead.launches
    dial.slider.value = 64
    assert dial.box.value == 64
    dial.box.value = 100
    assert dial.slider.value == 100
    before = picture(overhead)
    dial.slider.value = 4096
    assert np.abs(picture(overhead) - before).sum() > 0


def test_a_failure_is_shown_and_the_next_move_works(overhead, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(overhead._comparison, "at", lambda *a: (_ for _ in ()).throw(RuntimeError("the <GPU> is gone")))
        overhead.launches.value = 8
    assert "RuntimeError: the &lt;GPU&gt; is gone" in overhead._words.value
    assert "RuntimeError: the <GPU> is gone" in overhead.text
    overhead.launches.value = 16
    assert overhead.error == ""
    assert "16 launches" in overhead.text


def test_one_bundle_for_live_and_static_viewers(overhead):
    bundle = overhead._repr_mimebundle_()
    assert set(bundle) >= {"application/vnd.jupyter.widget-view+json", "image/png", "text/plain"}
    assert bundle["text/plain"] == repr(overhead)


def test_the_first_slider(device):
    first = explore.loop_or_graph()
    assert first.loop_us > 3 * first.replay_us > 0
    assert "as fast: the host launches once instead of 512 times" in first.verdict
    asked = first.loop_us
    for launches, verdict in ((4096, "the graph is"), (1, "a single launch"), (0, "nothing launched")):
        first.launches.value = launches
        assert first.error == ""
        assert first.verdict.startswith(verdict)
    assert first.loop_us == asked  # what the prediction was about


def test_the_decode_budget_is_the_lessons():
    budget = explore.decode_budget()
    assert budget.launches == 480
    assert budget.spent_ms == pytest.approx(2.4)
    assert (
        budget.verdict == "480 launches cost the host 2.40 milliseconds a token: 24 percent of the budget is spent on launching"
    )


def test_the_decode_budget_can_be_overdrawn_and_empty():
    budget = explore.decode_budget(layers=128, kernels_per_layer=64, launch_us=50, target_ms=1)
    assert budget.verdict.startswith("over budget: 8,192 launches")
    assert budget.verdict.endswith("409.6 times the whole target, and no GPU is fast enough to make up for it")
    for dial in (budget.layers, budget.kernels_per_layer, budget.launch_us):
        dial.value = 0
        assert budget.error == ""
    assert budget.verdict.startswith("0 launches cost the host 0.00 milliseconds")
    budget.target_ms.value = 100
    assert budget.error == ""


def test_who_pays_measures_every_api(device):
    pays = explore.who_pays(64)
    assert list(pays.costs) == list(device.apis)
    assert min(pays.costs, key=pays.costs.get) in ("cpp", "core")
    assert max(pays.costs, key=pays.costs.get) == "numba"
    assert pays.verdict == "every launch costs the host more than the kernel costs the GPU; dearest: Numba, array"
    pays.launches.value = 1
    assert pays.error == ""


# -- predictions ------------------------------------------------------------------------------------------------------


def test_a_prediction_stands_beside_the_measured_value():
    guess = explore.predict("How long?", unit="µs")
    assert repr(guess) == "Predict: How long? (µs)"
    assert "no prediction yet" in repr(guess.compare(12.0))
    guess._box.value = "1,000"
    assert guess.guess == 1000
    answer = guess.compare(2500.0)
    assert repr(answer).splitlines() == [
        "How long?", "you: 1,000.0 µs", "measured: 2,500.0 µs", "the measured value is 2.5 times larger",
    ]  # fmt: skip
    assert "2.5 times larger" in answer._repr_html_()
    assert "very close" in repr(guess.compare(1100))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1500", 1500),
        ("1,500", 1500),
        ("1,500.5", 1500.5),
        ("1 500", 1500),
        ("1,5", 1.5),
        ("-2", -2),
        ("1e3", 1000),
        ("12,34", 12.34),
    ],
)
def test_numbers_as_people_type_them(text, number):
    guess = explore.predict("How long?", unit="µs")
    guess._box.value = text
    assert guess.guess == number


@pytest.mark.parametrize("value", ["soon", "", "nan", "inf", "1,2,3"])
def test_what_is_no_number_is_no_prediction(value):
    guess = explore.predict("How long?", unit="µs")
    guess._box.value = "5"
    guess._box.value = value or "?"
    assert guess.guess == 5
    assert "a prediction is a finite number of µs" in guess._said.value


@pytest.mark.parametrize("value", [np.float32(3), np.int64(3), 3, 3.0])
def test_any_number_can_be_compared(value):
    assert "measured: 3.0 µs" in repr(explore.predict("How long?", unit="µs").compare(value))


@pytest.mark.parametrize("value", [None, "3", float("nan")])
def test_only_a_number_can_be_compared(value):
    with pytest.raises(ValueError, match="compare needs a finite number"):
        explore.predict("How long?", unit="µs").compare(value)


@pytest.mark.parametrize(("guess", "measured"), [(0, 5), (-2, 5), (5, 0)])
def test_odd_guesses_are_judged_without_a_fault(guess, measured):
    prediction = explore.predict("How long?", unit="µs")
    prediction.commit(guess)
    assert "off by" in repr(prediction.compare(measured))
    prediction.compare(measured)._repr_html_()


# -- charts -----------------------------------------------------------------------------------------------------------


def test_a_chart_redraws_to_the_same_picture():
    """The kept bitmaps change nothing: going away and coming back gives the same pixels as a fresh chart."""
    views = [
        LaunchOverhead(
            n, us, "C++", Timeline([(0, 4), (4, 8)], [(6, 7), (10, 11)]), Timeline([(0, 2)], [(4, 5), (5, 6)]),
            n * 5, n * 1.0, n * 1.0, [1, 10], [n * 5, n * 10], [n * 1.0, n * 10], 4.0,
        )
        for n, us in ((2, 1.0), (500, 20.0), (2, 1.0))
    ]  # fmt: skip
    chart = LaunchOverheadChart()
    first, second, third = (chart.png(view) for view in views)
    assert first == third == LaunchOverheadChart().png(views[0])
    assert first != second


def test_a_canvas_keeps_few_bitmaps():
    figure = new_figure(100, 80)
    canvas = Canvas(figure, [], [])
    for key in range(50):
        canvas.png(key)
    assert len(canvas._with_axes) == Canvas.KEPT


@pytest.mark.parametrize(
    ("us", "text"),
    [(0.5, "0.5 µs"), (99.97, "100 µs"), (512, "512 µs"), (999.7, "1.00 ms"), (2560, "2.56 ms"), (1.2e6, "1.20 s")],
)
def test_durations_in_words(us, text):
    assert microseconds(us) == text


@pytest.mark.parametrize(("value", "ceiling"), [(1, 1), (1.1, 1.25), (7, 8), (9.99, 10), (0, 0.001), (2100, 2500)])
def test_axes_end_at_a_round_number(value, ceiling):
    assert nice_ceiling(value) == pytest.approx(ceiling)
