"""The explorers and predictions: every value gives a picture and a verdict, a failure is shown, the next move works."""

from __future__ import annotations

import dataclasses
import io
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from onelaunch import explore
from onelaunch.charts.launch_overhead import LaunchOverhead, LaunchOverheadChart, Timeline
from onelaunch.charts.saving import BreakEvenChart, BreakEvenView, SpeedUpChart, ordinal
from onelaunch.charts.style import Canvas, decade, microseconds, new_figure, nice_ceiling
from onelaunch.measure.saving import BreakEven, shares_of


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


MEASURING = (explore.launch_overhead, explore.break_even, explore.speed_up)  # those with a kernel count and an API


@pytest.fixture(params=MEASURING, ids=lambda make: make.__name__)
def measuring(request):
    return request.param()


def test_every_api_can_be_chosen(measuring):
    pictures = set()
    for _, api in measuring.api.options:
        measuring.api.value = api
        assert measuring.error == ""
        pictures.add(measuring._image.value)
    assert len(pictures) == len(measuring.api.options) >= 5


@pytest.mark.parametrize("make", MEASURING)
def test_an_api_that_is_not_here_is_refused(make):
    with pytest.raises(ValueError, match="no launch API 'opencl' here; there are cpp, bindings"):
        make(api="opencl")


@pytest.mark.parametrize("make", [explore.launch_overhead, explore.speed_up])
def test_a_kernel_that_has_its_own_duration_is_refused_where_duration_is_set(make):
    with pytest.raises(ValueError, match="no launch API 'ufunc'"):
        make(api="ufunc")


def test_slider_and_number_box_follow_each_other(measuring):
    dial = measuring.launches
    dial.slider.value = 64
    assert dial.box.value == 64
    dial.box.value = 100
    assert dial.slider.value == 100
    before = picture(measuring)
    dial.slider.value = 4096
    assert np.abs(picture(measuring) - before).sum() > 0


def test_a_failure_is_shown_and_the_next_move_works(measuring, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(measuring._comparison, "loop", lambda *a: (_ for _ in ()).throw(RuntimeError("the <GPU> is gone")))
        measuring.launches.value = 8
    assert "RuntimeError: the &lt;GPU&gt; is gone" in measuring._words.value
    assert "RuntimeError: the <GPU> is gone" in measuring.text
    measuring.launches.value = 16
    assert measuring.error == ""
    assert "16 launches" in measuring.text


def test_one_bundle_for_live_and_static_viewers(measuring):
    bundle = measuring._repr_mimebundle_()
    assert set(bundle) >= {"application/vnd.jupyter.widget-view+json", "image/png", "text/plain"}
    assert bundle["text/plain"] == repr(measuring)


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


# -- break-even -------------------------------------------------------------------------------------------------------


@pytest.fixture
def even():
    return explore.break_even()


@pytest.mark.parametrize("replays", [1, 2, 1000, 100_000])
@pytest.mark.parametrize("launches", [1, 2, 512, 4096])
def test_any_count_and_any_replays_give_a_picture_and_a_verdict(even, launches, replays):
    even.launches.value, even.replays.value = launches, replays
    assert even.error == ""
    assert picture(even).shape == (430, 960, 3)
    assert picture(even).std() > 10
    assert even.verdict.startswith(("pays from the ", "never pays: "))
    assert even.provenance.startswith("modelled")
    assert f"{replays:,} replay" in even.text


def test_a_count_of_nothing_becomes_one(even):
    even.launches.value = even.replays.value = 0
    assert (even.launches.value, even.replays.value) == (1, 1)
    assert even.error == ""
    assert "1 launch of the shortest kernel" in even.text
    assert even.text.splitlines()[0].endswith("1 replay")


def costs(capture=40.0, instantiate=30.0, first=20.0, replay=5.0, loop=25.0) -> BreakEven:
    return BreakEven("cpp", 8, capture, instantiate, first, replay, loop, provenance=None)


@given(*[st.integers(0, 300)] * 3, st.integers(0, 40), st.integers(0, 40))
def test_the_break_even_is_the_first_replay_that_is_ahead(capture, instantiate, first, replay, loop):
    found = costs(*map(float, (capture, instantiate, first, replay, loop)))
    if replay >= loop:
        assert found.replays is None
    else:
        totals = ((n, capture + instantiate + first + (n - 1) * replay, n * loop) for n in itertools.count(1))
        assert found.replays == next(n for n, graph, single in totals if graph < single)


def test_a_draw_is_not_yet_ahead_and_tiny_savings_are_counted_exactly():
    assert costs(replay=5.0, loop=25.0).replays == 5  # 90 + 3 * 5 = 105 > 100; 90 + 4 * 5 = 110 < 125
    assert costs(capture=35.0).replays == 5  # four replays: 100 against 100
    assert costs(replay=25.0).replays is None
    tiny = costs(replay=25.0 - 2.0**-30)
    assert tiny.replays == 65 * 2**30 + 2 == round((tiny.once_us - tiny.replay_us) / tiny.saving_us) + 1


def test_the_first_launch_is_the_first_replay(even):
    found = even.measured
    assert found.graph_total_us(1) == found.once_us == found.capture_us + found.instantiate_us + found.first_us
    assert found.graph_total_us(3) == pytest.approx(found.once_us + 2 * found.replay_us)
    assert found.loop_total_us(3) == 3 * found.loop_us


def test_the_phases_are_those_of_the_device(even, device):
    """Each phase grows with the graph; the first launch uploads it and takes longer than a later one."""
    even.launches.value = 64
    small = even.measured
    even.launches.value = 4096
    large = even.measured
    for phase in ("capture_us", "instantiate_us", "first_us", "replay_us", "loop_us"):
        assert getattr(large, phase) > 10 * getattr(small, phase) > 0
    for found in (small, large):
        assert found.first_us > 1.2 * found.replay_us
        assert found.capture_us < found.loop_us
    assert large.provenance == device.provenance


def test_the_verdict_says_from_when_on_it_pays_and_who_is_ahead(even):
    even.launches.value = 1  # one call either way: the graph saves a little each time
    at = even.measured.replays
    assert at > 2
    for replays, ahead in ((at - 1, "the loop"), (at, "the graph"), (50_000, "the graph")):
        even.replays.value = replays
        assert even.verdict.startswith(f"pays from the {ordinal(at)} replay on: capture, instantiation and first launch take")
        assert f"after {replays:,} replays {ahead} is ahead, by" in even.verdict


@pytest.mark.parametrize(
    ("replay_us", "verdict"),
    [
        (30.0, "never pays: a replay takes 30.0 µs, the loop 25.0 µs, so no number of replays repays"),
        (25.0, "never pays"),
        (24.875, "pays from the 522nd replay on"),
        (25 - 2**-13, "pays from the 532,482nd replay on"),  # beyond the axis
    ],
)
def test_a_graph_that_hardly_saves_or_never_does(even, replay_us, verdict):
    even._measured = dataclasses.replace(even.measured, **dataclasses.asdict(costs(replay=replay_us)) | {"provenance": "p"})
    even.redraw()
    assert even.error == ""
    assert even.verdict.startswith(verdict)


def test_the_number_of_replays_is_arithmetic(even, monkeypatch):
    """Moving it measures nothing, so that on a GPU the break-even does not tremble meanwhile; the others measure again."""
    seen = []
    phases = even._comparison.phases
    monkeypatch.setattr(even._comparison, "phases", lambda *a: (seen.append(a), phases(*a))[1])
    before = picture(even)
    even.replays.value = 20
    assert seen == []
    assert np.abs(picture(even) - before).sum() > 0
    even.launches.value = 100
    even.api.value = "core"
    assert seen == [("rawkernel", 100), ("core", 100)]


def test_no_graph_of_nothing_is_measured(even):
    with pytest.raises(ValueError, match="a graph of 0 launches has no phases"):
        even._comparison.phases("rawkernel", 0)


@pytest.mark.parametrize(
    ("n", "text"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (13, "13th"), (21, "21st"), (1112, "1,112th")],
)
def test_ordinals(n, text):
    assert ordinal(n) == text


# -- speed-up ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def gain():
    return explore.speed_up()


@pytest.mark.parametrize("kernel_us", [0.5, 1, 2.8, 20, 500])
@pytest.mark.parametrize("launches", [1, 2, 16, 512, 4096])
def test_any_count_and_duration_give_a_picture_and_a_verdict(gain, launches, kernel_us):
    gain.launches.value, gain.kernel_us.value = launches, kernel_us
    assert gain.error == ""
    assert picture(gain).shape == (620, 960, 3)
    assert picture(gain).std() > 10
    assert gain.verdict.startswith(("host-bound: ", "hardly: ", "no: "))
    assert gain.provenance.startswith("modelled")


@pytest.mark.parametrize("launches", [1, 2, 8, 512, 4096])
def test_the_point_lies_on_the_curve_and_the_curve_below_the_ceiling(gain, launches):
    gain.launches.value = launches
    for kernel_us in (0.5, 2, 20, 500):
        gain.kernel_us.value = kernel_us
        view = gain.view()
        curve = np.interp(kernel_us, view.durations_us, view.speed_up)
        assert view.here == pytest.approx(curve, rel=0.03)
        assert (np.asarray(view.speed_up) <= np.asarray(view.ceiling)).all()
        assert (np.asarray(view.ceiling) >= 1).all()


def test_the_ceiling_of_a_long_loop_is_max_of_host_and_device_over_device(gain):
    slopes = gain._comparison.slopes("rawkernel")
    for kernel_us in (0.5, 2.0, 10.0):
        most = max(slopes.launch_us, kernel_us + slopes.queued_us) / (kernel_us + slopes.node_us)
        assert slopes.ceiling(100_000, kernel_us) == pytest.approx(most, rel=1e-3)
    assert slopes.ceiling(0, 1.0) == 1


def test_the_verdict_says_what_sets_the_floor(gain):
    crossover = gain._comparison.slopes("rawkernel").crossover_us
    for kernel_us, verdict, words in (
        (0.5, "host-bound: a launch costs the host", "so the host sets the floor; a graph lowers it to the GPU's"),
        (crossover, "hardly: a launch costs the host", "so neither waits for the other"),
        (1.4 * crossover, "hardly: GPU-bound: ", "so the kernels set the floor"),
        (100, "no: GPU-bound: ", "1.01× as fast at the most; here 1.01×"),
    ):
        gain.kernel_us.value = round(kernel_us, 1)
        assert gain.verdict.startswith(verdict)
        assert words in gain.verdict
    assert "few" not in gain.verdict
    gain.launches.value = 8
    assert gain.verdict.endswith("(with so few launches, the first call and the last wait count as much)")
    gain.launches.value = 1
    assert gain.verdict.startswith("no: a single launch is a single call either way")


@pytest.mark.parametrize("api", ["cpp", "rawkernel", "numba"])
@pytest.mark.parametrize("launches", [1, 2, 512, 4096])
def test_each_lane_adds_up_to_the_time_of_one_launch(gain, launches, api):
    gain.api.value, gain.launches.value = api, launches
    for kernel_us in (0.5, 20):
        gain.kernel_us.value = kernel_us
        view = gain.view()
        totals = [t for t in view.totals_us for _ in ("host", "GPU")]
        for row, total in zip(view.rows, totals, strict=True):
            assert sum(us for _, us in row.parts) + row.rest[1] == pytest.approx(total, rel=0.01, abs=0.02)
            assert all(us > 0 for _, us in row.parts)
        names = [name for name, _ in view.rows[0].parts]
        assert names == (["CUDA"] if api == "cpp" else ["CUDA", "Python"])
        assert ("Python:" in view.note) == (api != "cpp")


def test_where_there_is_no_cpp_the_hosts_time_stays_whole(gain, device, monkeypatch):
    monkeypatch.setattr(type(device), "apis", ("rawkernel",))
    gain.redraw()
    assert gain.error == ""
    assert [name for name, _ in gain.view().rows[0].parts] == ["call"]
    assert gain.view().note.startswith("gap:")


def test_nothing_launched_has_no_shares(gain):
    with pytest.raises(ValueError, match="nothing was launched"):
        shares_of(gain._comparison, gain._comparison.at("rawkernel", 0, 1.0))


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


def test_the_charts_of_the_saving_redraw_to_the_same_picture(gain):
    views = [
        BreakEvenView(n, "C++", replays, 4.0 * n, 3.0 * n, 2.0 * n, 1.0 * n, 5.0 * n, at)
        for n, replays, at in ((2, 1, 2), (4096, 100_000, None), (2, 1, 2))
    ]
    chart = BreakEvenChart()
    first, second, third = (chart.png(view) for view in views)
    assert first == third == BreakEvenChart().png(views[0])
    assert first != second
    chart, view = SpeedUpChart(), gain.view()
    first = chart.png(view)
    gain.launches.value, gain.kernel_us.value = 1, 500
    assert chart.png(gain.view()) != first
    assert chart.png(view) == first == SpeedUpChart().png(view)


def test_the_labels_of_a_stack_keep_apart():
    """At every setting the four labels of the graph's phases stand apart, and inside the axes."""
    chart = BreakEvenChart()
    for n, replays in itertools.product((1, 64, 4096), (1, 2, 30, 100_000)):
        chart.png(BreakEvenView(n, "C++", replays, 1.4 * n, 1.5 * n, 1.2 * n, 0.7 * n, 4.5 * n, 1))
        boxes = [name.get_window_extent() for name in chart._names]
        assert all(a.y1 <= b.y0 for a, b in itertools.pairwise(boxes))
        assert boxes[0].y0 > chart._stack.bbox.y0
        assert boxes[-1].y1 < chart._stack.bbox.y1
        assert max(box.x1 for box in boxes) < chart._cross.yaxis.get_tightbbox().x0
        left, right = (text.get_window_extent() for text in chart._totals)
        assert not left.overlaps(right)


@pytest.mark.parametrize(("us", "text"), [(0.1, "0.1 µs"), (10, "10 µs"), (1e4, "10 ms"), (1e6, "1 s"), (1e10, "10,000 s")])
def test_ticks_of_time(us, text):
    assert decade(us) == text


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
