"""When the nodes of a graph start on the simulated device: chains, branches, joins; and what a launch costs the host."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onelaunch.device.simulated import SimulatedDevice
from onelaunch.sim import gpu as sim_gpu
from onelaunch.sim.costs import Costs
from onelaunch.sim.graph import Graph, Plan
from onelaunch.sim.ops import EmptyOp
from onelaunch.sim.stream import Op


class Timed(Op):
    """Takes `us`, and notes when it starts."""

    kind = "kernel"

    def __init__(self, name: int, us: float, log: list):
        self.name, self.us, self.log = name, us, log

    def duration_us(self, gpu) -> float:
        return self.us

    def run(self, gpu, start: float) -> float:
        self.log.append((self.name, start))
        return super().run(gpu, start)

    def start(self, gpu, start, finish, stream=0) -> None:
        self.log.append((self.name, start))
        super().start(gpu, start, finish, stream)


def graph_of(dependencies: list[list[int]], durations: list[float], empty: set[int] = frozenset()) -> tuple[Graph, list]:
    graph, log, nodes = Graph(), [], []
    for i, (before, us) in enumerate(zip(dependencies, durations, strict=True)):
        nodes.append(graph.add(EmptyOp() if i in empty else Timed(i, us, log), [nodes[j] for j in before]))
    return graph, log


def both_ways(dependencies, durations, empty=frozenset(), root_us: float = 0.5) -> list[tuple[dict, float]]:
    """(when each node started, when the last one ended): all at once, and beside other work."""
    out = []
    for alone in (True, False):
        gpu = sim_gpu.Gpu()
        gpu.create_stream(), gpu.create_stream()
        graph, log = graph_of(dependencies, durations, empty)
        ends: list[float] = []
        if alone:
            ends.append(Plan(graph).run(gpu, 7.0, root_us))
        else:
            Plan(graph).begin(gpu, 7.0, ends.append, root_us)
            while gpu._step():
                pass
        assert len(log) == len(durations) - len(empty)
        assert len(ends) == 1
        out.append((dict(log), ends[0]))
    return out


def chain(n: int) -> list[list[int]]:
    return [[i - 1] if i else [] for i in range(n)]


def branches(width: int, length: int) -> list[list[int]]:
    return [[i - width] if i >= width else [] for i in range(width * length)]


@st.composite
def dags(draw):
    n = draw(st.integers(1, 14))
    dependencies = [sorted(draw(st.sets(st.integers(0, i - 1), max_size=4))) if i else [] for i in range(n)]
    durations = draw(st.lists(st.sampled_from([0.0, 0.7, 1.0, 5.0]), min_size=n, max_size=n))
    empty = draw(st.sets(st.integers(0, n - 1), max_size=3))
    return dependencies, durations, empty


@settings(max_examples=300, deadline=None)
@given(dags(), st.sampled_from([0.0, 0.5, 3.0]))
def test_alone_or_beside_other_work_the_times_are_the_same(dag, root_us):
    dependencies, durations, empty = dag
    alone, beside = both_ways(dependencies, durations, empty, root_us)
    assert alone == beside
    starts, end = alone
    for i, before in enumerate(dependencies):
        for j in before:
            if i in starts and j in starts:
                assert starts[i] >= starts[j] + durations[j]
    assert end == max((starts[i] + durations[i] for i in starts), default=7.0)


def test_in_a_chain_each_node_starts_a_gap_after_the_one_before():
    gap = Costs.load().second_stream_us
    (starts, _), _ = both_ways(chain(6), [1.0] * 6)
    assert [b - a for a, b in itertools.pairwise(starts.values())] == pytest.approx([1 + gap] * 5)


def level_us(width: int, us: float = 0.7, length: int = 64) -> float:
    """What a launch in each of `width` branches takes, when the pace is steady."""
    ends = [both_ways(branches(width, n), [us] * (width * n))[0][1] for n in (length // 2, length)]
    return (ends[1] - ends[0]) / (length // 2)


def test_the_more_branches_the_longer_each_of_their_nodes_takes():
    levels = [level_us(width) for width in (1, 2, 4, 8)]
    assert levels == sorted(levels)
    assert all(level < width * levels[0] for width, level in zip((2, 4, 8), levels[1:], strict=True))
    assert level_us(16) / level_us(8) == pytest.approx(2, rel=0.02)  # from eight on, one after the other
    assert level_us(8, us=50) == pytest.approx(level_us(1, us=50), rel=0.02)  # long kernels are not in each other's way


def test_a_join_takes_longer_the_more_branches_it_waits_for_up_to_eight():
    def join_us(width: int) -> float:
        starts, _ = both_ways([*branches(width, 1), [*range(width)]], [1.0] * (width + 1), root_us=0.0)[0]
        return starts[width] - max(starts[i] for i in range(width))

    waits = [join_us(width) for width in (1, 2, 4, 8)]
    assert waits == sorted(waits)
    assert waits[-1] > waits[0]
    assert join_us(20) == pytest.approx(waits[-1])


def test_an_edge_that_others_imply_takes_no_time():
    """Captures have such: a stream waits for an event that came after its own last node."""
    diamonds = [[], [0], [0], [1, 2], [3], [3], [4, 5]]
    with_more = [[], [0], [0], [1, 2], [3], [2, 3], [0, 2, 4, 5]]
    assert both_ways(with_more, [1.0] * 7) == both_ways(diamonds, [1.0] * 7)


@given(dags())
def test_branches_are_counted_without_what_others_imply(dag):
    dependencies, durations, _ = dag
    above: list[set[int]] = []
    for before in dependencies:
        above.append(set(before).union(*(above[j] for j in before)))
    graph, _ = graph_of(dependencies, durations)
    expected = [sum(not any(j in above[k] for k in before) for j in before) for before in dependencies]
    assert Plan(graph).joined == expected


def test_empty_nodes_take_no_time():
    for width in (1, 3):
        (starts, end), _ = both_ways(branches(width, 20), [0.0] * 20 * width, empty=set(range(20 * width)))
        assert (starts, end) == ({}, 7.0)
    through, _ = both_ways([[], [], [0, 1], [2]], [1.0] * 4, empty={2})[0]
    direct, _ = both_ways([[], [], [0, 1]], [1.0] * 3)[0]
    assert list(through.values()) == list(direct.values())


# -- the host ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def device():
    before = sim_gpu.swap(sim_gpu.Gpu())
    yield SimulatedDevice()
    sim_gpu.swap(before)


def fork_and_join(device, width: int, length: int):
    streams = [device.cp.cuda.Stream(non_blocking=True) for _ in range(width)]
    work = device.work("rawkernel")
    work.prepare(streams)
    origin, *others = streams
    origin.begin_capture()
    mark = origin.record()
    for stream in others:
        stream.wait_event(mark)
    work.issue(width * length, streams)
    for stream in others:
        origin.wait_event(stream.record())
    return origin.end_capture(), origin


def test_each_root_costs_the_host_of_a_launch_the_same(device):
    host = []
    for width in (1, 2, 3):
        graph, stream = fork_and_join(device, width, 4)
        for _ in range(2):
            times = device.time_calls(lambda graph=graph, stream=stream: graph.launch(stream), stream.synchronize)
        host.append(times.host_us)
    assert [b - a for a, b in itertools.pairwise(host)] == pytest.approx([Costs.load().root_us] * 2, abs=0.01)


def test_a_traced_replay_of_branches_takes_as_long_as_another(device):
    graph, stream = fork_and_join(device, 5, 8)
    gpu = sim_gpu.current()
    totals = []
    for traced in (False, False, True):
        gpu.trace = sim_gpu.Trace() if traced else None
        totals.append(device.time_calls(lambda: graph.launch(stream), stream.synchronize).total_us)
    assert len(gpu.trace.device) == 40
    gpu.trace = None
    assert totals[2] == pytest.approx(totals[1], abs=0.01)


def test_a_replay_of_empty_nodes_is_over_when_the_call_returns(device):
    rt = device.cudart
    _, graph = rt.cudaGraphCreate(0)
    behind: list = []
    for _ in range(10):
        _, node = rt.cudaGraphAddEmptyNode(graph, behind, len(behind))
        behind = [node]
    _, executable = rt.cudaGraphInstantiate(graph, 0)
    stream = device.cp.cuda.Stream(non_blocking=True)
    times = device.time_calls(lambda: rt.cudaGraphLaunch(executable, stream.ptr), stream.synchronize)
    costs = Costs.load()
    assert times.total_us == pytest.approx(costs.calls["launch empty graph"] + costs.sync_idle_us)


def test_calls_are_charged_what_they_cost(device):
    gpu, rt, x = sim_gpu.current(), device.cudart, device.cp.zeros(4)
    stream = device.cp.cuda.Stream(non_blocking=True)
    device.cp.cuda.Device().synchronize()
    calls = gpu.costs.calls

    def charged(call) -> float:
        start = gpu.now_us
        error, *_ = call()
        assert int(error) == 0
        return gpu.now_us - start

    within = rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice
    assert charged(lambda: rt.cudaMemsetAsync(x.data.ptr, 0, 8, stream.ptr)) == pytest.approx(calls["cudaMemsetAsync"])
    copy = x.data.ptr, x.data.ptr + 8, 8, within, stream.ptr
    assert charged(lambda: rt.cudaMemcpyAsync(*copy)) == pytest.approx(calls["cudaMemcpyAsync within"])
    assert charged(lambda: rt.cudaMallocAsync(64, stream.ptr)) == pytest.approx(calls["cudaMallocAsync"])


def test_costs_of_an_older_version_are_refused_by_name():
    data = Costs.load().to_json()
    del data["dispatch_us"], data["calls"]
    with pytest.raises(ValueError, match="costs without calls, dispatch_us: fitted by an older version"):
        Costs.from_json(data)
