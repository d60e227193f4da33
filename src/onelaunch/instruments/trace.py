"""Captures a function line by line: what each line added to the graph, and which line broke the capture."""

from __future__ import annotations

import ast
import functools
import html
import linecache
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onelaunch.device import current

from .explain import Explanation, explain_call
from .handles import CapturedGraph

ACTIVE, INVALIDATED, NONE = "active", "invalidated", "not capturing"
KINDS_UP_TO = 1024  # nodes: beyond, new nodes are counted and not looked at
OUTSIDE = "ran at once, outside the graph"
STALE = "copies at the replay: what it returned is not filled yet"


@dataclass
class TracedLine:
    """One source line that ran: how often, what it added, and the state of the capture after it."""

    file: str
    number: int
    source: str
    depth: int  # 0 in the function itself, 1 in what it calls, …
    function: str
    hits: int = 0
    nodes: int = 0
    kinds: dict[str, int] = field(default_factory=dict)  # of the nodes, as "Kernel"
    status: str = ACTIVE
    outside: bool = False  # it launched something that did not become a node
    stale: bool = False  # it copies to the host, at the replay: what it has returned is not filled
    error: str = ""

    @property
    def added(self) -> str:
        """The nodes in words: "+ 2 Kernel"."""
        if not self.nodes:
            return ""
        return "+ " + (", ".join(f"{n} {kind}" for kind, n in self.kinds.items()) or f"{self.nodes} nodes")


@dataclass(frozen=True)
class Culprit:
    """The line that broke the capture: what it called, why that is illegal, and what mends it."""

    line: TracedLine
    called: str
    explanation: Explanation

    @property
    def why(self) -> str:
        return self.explanation.happened

    @property
    def fix(self) -> str:
        return self.explanation.fix

    def __repr__(self) -> str:
        return (
            f"line {self.line.number}: {self.line.source.strip()}\n  called: {self.called}\n"
            f"  {self.explanation.error}: {self.why}\n  fix: {self.fix}"
        )


@dataclass(frozen=True)
class CaptureTrace:
    """What a function did under capture. `graph` is the captured graph's handle (`cudaGraph_t`), None where there is none."""

    lines: tuple[TracedLine, ...]
    graph: Any
    nodes: int
    culprit: Culprit | None
    error: BaseException | None  # what the function raised, or else what ended the capture

    @property
    def ok(self) -> bool:
        """Whether a graph came of it that holds all that was launched, and nothing was read before its time."""
        return self.graph is not None and self.error is None and not self.outside and not self.stale

    @property
    def outside(self) -> tuple[TracedLine, ...]:
        """The lines whose launches ran at once instead of being captured."""
        return tuple(line for line in self.lines if line.outside)

    @property
    def stale(self) -> tuple[TracedLine, ...]:
        """The lines that handed back host memory which only a replay fills."""
        return tuple(line for line in self.lines if line.stale)

    def __repr__(self) -> str:
        width = max((len(str(line.number)) for line in self.lines), default=1)
        rows = [
            f"{line.number:{width}} {'  ' * line.depth}{line.source.rstrip():50} "
            f"{'×' + str(line.hits) if line.hits > 1 else '':>6} {line.added:14} {_note(line)}".rstrip()
            for line in self.lines
        ]
        return "\n".join([*rows, "", self.summary])

    @property
    def summary(self) -> str:
        """The outcome in a sentence, and the culprit if there is one."""
        if self.culprit is not None:
            return f"the capture failed at {self.culprit!r}"
        if self.error is not None:
            return f"the function failed: {describe(self.error)}"
        text = f"captured: {self.nodes:,} node{'' if self.nodes == 1 else 's'}"
        if self.outside:
            text += f"; not captured: line {', '.join(str(line.number) for line in self.outside)}, which {OUTSIDE}"
        if self.stale:
            text += f"; line {', '.join(str(line.number) for line in self.stale)} {STALE}"
        return text

    def _repr_html_(self) -> str:
        loops = any(line.hits > 1 for line in self.lines)
        culprit = self.culprit.line if self.culprit is not None else None
        rows = "".join(_row(line, line is culprit, loops) for line in self.lines)
        names = ("line", "source", *(["ran"] if loops else []), "added", "capture")
        head = "".join(f'<th style="text-align:left">{name}</th>' for name in names)
        first, *more = (html.escape(line) for line in self.summary.splitlines())
        return f"<table><tr>{head}</tr>{rows}</table><p>{'<br>'.join([f'<b>{first}</b>', *more])}</p>"


def _note(line: TracedLine) -> str:
    if line.error:
        return f"! {line.error}"
    if line.outside:
        return f"! {OUTSIDE}"
    if line.stale:
        return f"! {STALE}"
    return "" if line.status == ACTIVE else f"({line.status})"


def _row(line: TracedLine, culprit: bool, loops: bool) -> str:
    source = html.escape("    " * line.depth + line.source.rstrip())
    flagged = line.outside or line.stale
    colour = "background:#D55E00;color:white" if culprit else "background:#F6D58A;color:black" if flagged else ""
    style = f"text-align:left;vertical-align:top;{colour}"
    code = "white-space:pre;background:transparent;color:inherit;font-family:monospace"
    ran = [f"× {line.hits}" if line.hits > 1 else ""] if loops else []
    added = f'<span style="white-space:nowrap">{html.escape(line.added)}</span>'
    cells = (
        str(line.number), f'<span style="{code}">{source}</span>', *ran, added,
        f'<span style="overflow-wrap:anywhere">{html.escape(_note(line) or line.status)}</span>',
    )  # fmt: skip
    return "<tr>" + "".join(f'<td style="{style}">{cell}</td>' for cell in cells) + "</tr>"


# -- the capture ------------------------------------------------------------------------------------------------------


def trace_capture(fn: Callable[[], object], stream: Any, mode: str | None = "global", depth: int = 1) -> CaptureTrace:
    """Runs `fn()` while `stream` captures, and says line by line what it added to the graph and what became of the capture.

    `stream` is a CuPy, Numba or cuda.core stream, or a handle; `mode` is "global", "thread_local", "relaxed", or None for a
    function that begins and ends the capture on that stream itself. Lines of `fn` are reported, and of the functions that it
    calls down to `depth` calls, libraries left out. Nothing that `fn` raises gets out: it is in `error`, and afterwards the
    stream captures no more. Raises TypeError for what cannot be called, ValueError for another mode.
    """
    if not callable(fn):
        raise TypeError(f"trace_capture runs a function, not a {type(fn).__name__}: leave out the ()")
    if mode not in (None, *_MODES):
        raise ValueError(f"mode {mode!r} is not one of {', '.join(_MODES)}, or None")
    watch = _Watch(current(), stream_handle(stream), fn, depth)
    return watch.run(mode)


_MODES = {
    "global": "cudaStreamCaptureModeGlobal",
    "thread_local": "cudaStreamCaptureModeThreadLocal",
    "relaxed": "cudaStreamCaptureModeRelaxed",
}


def stream_handle(stream: Any) -> int:
    """The number of a stream of any library. Raises TypeError for what is none."""
    if isinstance(stream, int):
        return stream
    for name in ("ptr", "handle", "cuda_stream"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    try:
        return int(stream)
    except TypeError:
        raise TypeError(f"a stream of CuPy, Numba or cuda.core is wanted, not a {type(stream).__name__}") from None


class _Watch:
    """One traced capture."""

    def __init__(self, device: Any, handle: int, fn: Callable, depth: int):
        self.rt, self.handle, self.fn, self.depth = device.cudart, handle, fn, depth
        self.lines: dict[tuple[str, int, int], TracedLine] = {}
        self.frames: list[types.FrameType] = []
        self.running: list[TracedLine] = []  # the line that runs in each traced frame
        self.count = 0
        self.seen: set[int] = set()
        self.adders: dict[int, TracedLine] = {}  # node → the line that added it
        self.status = ACTIVE
        self.broke: TracedLine | None = None
        self.turned: dict[int, TracedLine] = {}

    def run(self, mode: str | None) -> CaptureTrace:
        error: BaseException | None = None
        if mode is not None:
            kind = getattr(self.rt.cudaStreamCaptureMode, _MODES[mode])
            error = self._failed(self.rt.cudaStreamBeginCapture(self.handle, kind))
        graph = None
        if error is None:
            before = sys.gettrace()
            sys.settrace(self._on_call)
            try:
                self.fn()
            except Exception as raised:
                error = _without_frames(raised)
            finally:
                sys.settrace(before)
            self._look()
            for line in self.turned.values():
                line.outside = line.outside or (not (line.nodes or line.error) and line.status == ACTIVE)
            self._flag_raising(error)
            unjoined = self._unjoined()
            graph, ended = self._end()
            error = error or ended
            if ended is not None and self.broke is None and "Unjoined" in str(ended):
                self.broke = unjoined
        culprit = self._culprit(error)
        return CaptureTrace(tuple(self._in_order()), graph, self.count if graph is not None else 0, culprit, error)

    def _failed(self, result: tuple) -> Exception | None:
        """The error of a runtime call; None for success."""
        if not int(result[0]):
            return None
        self.rt.cudaGetLastError()
        return RuntimeError(f"{result[0].name}: {self.rt.cudaGetErrorString(result[0])[1].decode()}")

    def _end(self) -> tuple[Any, Exception | None]:
        """(graph, error): ends the capture if there still is one."""
        error, status = self.rt.cudaStreamIsCapturing(self.handle)[:2]
        if not int(error) and not int(status):
            return None, None
        result = self.rt.cudaStreamEndCapture(self.handle)
        if (failed := self._failed(result)) is not None:
            return None, failed
        graph = result[1]
        return CapturedGraph(self.rt, graph), None

    # -- tracing ------------------------------------------------------------------------------------------------------

    def _on_call(self, frame: types.FrameType, event: str, _: Any) -> Callable | None:
        """The trace function: follows `fn` and, down to `depth`, the functions of the same author that it calls."""
        if event != "call" or not self._is_ours(frame):
            return None
        self.frames.append(frame)
        self.running.append(None)
        return self._on_line

    def _is_ours(self, frame: types.FrameType) -> bool:
        code = frame.f_code
        if not self.frames:
            return code is getattr(self.fn, "__code__", getattr(getattr(self.fn, "__func__", None), "__code__", code))
        if len(self.frames) > self.depth or frame.f_back is not self.frames[-1]:
            return False
        return not _is_library(code.co_filename)

    def _on_line(self, frame: types.FrameType, event: str, argument: Any) -> Callable:
        if event == "line":
            self._look()
            self.running[-1] = self._line(frame)
        elif event == "exception":
            self._look()
            line = self.running[-1]
            if line is not None and not line.error:
                line.error = describe(argument[1] if argument[1] is not None else argument[0])
        elif event == "return":
            self._look()
            self.frames.pop()
            self.running.pop()
        return self._on_line

    def _line(self, frame: types.FrameType) -> TracedLine:
        file, number = frame.f_code.co_filename, _statement_start(frame.f_code.co_filename, frame.f_lineno)
        key = file, number, len(self.frames)
        line = self.lines.get(key)
        if line is None:
            source = linecache.getline(file, number).rstrip("\n")
            line = TracedLine(file, number, source, len(self.frames) - 1, frame.f_code.co_name)
            self.lines[key] = line
        statements = _statements(file).get(number, [])
        again = line.hits and statements and isinstance(statements[0], _HEADS)
        if frame.f_lineno == number and not again:
            line.hits += 1  # the head of a block is come by on the way out as well: once says enough
        self._surely_launches = _launches(file, number, frame, surely=True)
        if again and isinstance(statements[-1], ast.Expr) and _launches(file, number, frame, surely=False):
            self.turned[id(line)] = line  # a loop on one line, which has had a turn
        return line

    _surely_launches = False  # whether the line that runs launches something, as far as its source says

    def _look(self) -> None:
        """What the line that has just run did to the capture."""
        line = next((running for running in reversed(self.running) if running is not None), None)
        added, status = self._added()
        if line is None:
            self.status = status
            return
        for kind, node in added:
            line.nodes += 1
            if kind:
                line.kinds[kind] = line.kinds.get(kind, 0) + 1
            if node:
                self.adders[node] = line
        if self._surely_launches and not added and status == ACTIVE and not line.error:
            line.outside = True
        if any(kind == "Memcpy" for kind, _ in added) and re.search(r"copy_to_host\(|\.get\(|asnumpy\(", line.source):
            line.stale = True
        self._surely_launches = False
        if status == INVALIDATED and self.status == ACTIVE and self.broke is None:
            self.broke = line
        line.status = self.status = status

    def _added(self) -> tuple[list[tuple[str, int]], str]:
        """([(kind, handle) of each new node], the capture's status)."""
        error, status, _, graph, *_ = self.rt.cudaStreamGetCaptureInfo(self.handle)
        if int(error):
            self.rt.cudaGetLastError()
            return [], INVALIDATED if self.status != NONE else NONE
        if int(status) != 1:
            return [], INVALIDATED if int(status) == 2 else NONE
        count = self.rt.cudaGraphGetNodes(graph)[2]
        new = count - self.count
        self.count = count
        if new <= 0:
            return [], ACTIVE
        if count > KINDS_UP_TO:
            return [("", 0)] * new, ACTIVE
        nodes = self.rt.cudaGraphGetNodes(graph, count)[1]
        fresh = [n for n in nodes if int(n) not in self.seen]
        self.seen.update(map(int, nodes))
        return [(self._kind(n), int(n)) for n in fresh], ACTIVE

    def _kind(self, node: Any) -> str:
        return self.rt.cudaGraphNodeGetType(node)[1].name.removeprefix("cudaGraphNodeType")

    # -- what went wrong ----------------------------------------------------------------------------------------------

    def _flag_raising(self, error: BaseException | None) -> None:
        """A CUDA error that the capture survived still names its line."""
        if error is not None and self.broke is None:
            self.broke = next((line for line in reversed(self._in_order()) if line.error), None)

    def _unjoined(self) -> TracedLine | None:
        """The line that added the last node which the capturing stream does not wait for."""
        error, status, _, _, tail, *_ = self.rt.cudaStreamGetCaptureInfo(self.handle)
        if int(error) or int(status) != 1 or self.count > KINDS_UP_TO:
            return None
        covered, todo = set(), list(tail or [])
        while todo:
            node = todo.pop()
            if int(node) not in covered:
                covered.add(int(node))
                count = self.rt.cudaGraphNodeGetDependencies(node)[3]
                todo += self.rt.cudaGraphNodeGetDependencies(node, count)[1] if count else []
        left = [n for n in self.adders if n not in covered]
        return self.adders[left[-1]] if left else None

    def _culprit(self, error: BaseException | None) -> Culprit | None:
        line = self.broke
        if line is None:
            return None
        called = _called(line)
        for text in (_about(line, error), "cudaErrorStreamCaptureUnsupported" if line.status == INVALIDATED else ""):
            try:
                return Culprit(line, called, explain_call(called, text))
            except KeyError:  # an error of another library
                continue
        return None

    def _in_order(self) -> list[TracedLine]:
        return list(self.lines.values())


def _without_frames(error: BaseException) -> BaseException:
    """The error without its tracebacks, whose frames would keep arrays alive."""
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error


def describe(error: BaseException | type) -> str:
    """ "Class: message", the first line of it."""
    if isinstance(error, type):
        return error.__name__
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"


def _about(line: TracedLine, error: BaseException | None) -> str:
    """The text that explains best what went wrong at a line: its own error, before what came of it."""
    if line.error and "Invalidated" not in line.error and "has invalidated" not in line.error:
        return line.error
    if error is not None and "Unjoined" in str(error):
        return str(error)
    return "cudaErrorStreamCaptureUnsupported"


def _called(line: TracedLine) -> str:
    """The call that a line makes, as it is written."""
    statements = _statements(line.file).get(line.number, [])
    if kind := _NAMELESS.get(line.function):
        nodes = [n for s in statements for owner in ast.walk(s) if isinstance(owner, kind) for n in ast.walk(owner)]
    else:
        nodes = list(_expressions(statements))
    calls = [n for n in nodes if isinstance(n, ast.Call)]
    asked = [n for n in nodes if isinstance(n, ast.Attribute) and n.attr == "done"]
    found = asked or calls
    return ast.unparse(found[0]) if found else line.source.strip()


_NAMELESS = {
    "<lambda>": ast.Lambda, "<listcomp>": ast.ListComp, "<setcomp>": ast.SetComp, "<dictcomp>": ast.DictComp,
    "<genexpr>": ast.GeneratorExp,
}  # fmt: skip


# -- source code ------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _parsed(file: str, text: str) -> dict[int, list[ast.stmt]]:
    """First line → the statements that begin there, those inside others behind them."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return {}
    out: dict[int, list[ast.stmt]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            out.setdefault(node.lineno, []).append(node)
    return out


def _statements(file: str) -> dict[int, list[ast.stmt]]:
    return _parsed(file, "".join(linecache.getlines(file)))


def _statement_start(file: str, number: int) -> int:
    """The first line of the statement that a line belongs to."""
    best = number
    for start, nodes in _statements(file).items():
        if start <= number <= max(map(_head_end, nodes)) and (best == number or start > best):
            best = start
    return best


def _head_end(node: ast.stmt) -> int:
    """The last line of a simple statement, or of a compound one's head."""
    body = getattr(node, "body", None)
    return max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno


def _is_library(file: str) -> bool:
    """Whether code is not the user's own: installed packages, the standard library, this package."""
    return file.startswith(("<frozen", *_LIBRARIES)) or "site-packages" in file or "dist-packages" in file


_LIBRARIES = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), str(Path(__file__).parents[1]))


_HEADS = ast.With | ast.For | ast.While


def _launches(file: str, number: int, frame: types.FrameType, *, surely: bool) -> bool:
    """Whether a line launches a kernel, as far as its source and the values of its names say; `surely`: each time it runs.

    Launches are `kernel[grid, block, …](…)`, calls of CuPy's functions that compute, and arithmetic with CuPy arrays.
    """
    return any(_is_launch(node, frame) for node in _expressions(_statements(file).get(number, []), surely=surely))


def _expressions(statements: Sequence[ast.stmt], *, surely: bool = False) -> Iterator[ast.AST]:
    """The expressions of statements, without those of further statements inside them; `surely`: without those that need not
    run each time, such as what stands behind `if …:` on one line."""
    for statement in statements:
        if surely and isinstance(statement, ast.For):
            return  # come by again after each turn
        todo: list[ast.AST] = [statement]
        while todo:
            node = todo.pop()
            yield node
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
                continue
            if surely and isinstance(node, _SOMETIMES):
                continue
            todo += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
        if surely and isinstance(statement, ast.If | ast.While | ast.Match):
            return


_SOMETIMES = ast.IfExp | ast.BoolOp | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


COMPUTING = {"fill", "sum", "max", "min", "mean", "copy", "astype", "dot", "sort", "cumsum", "prod", "any", "all", "argmax"}
ARRAY_MODULES = ("cupy", "onelaunch.sim.cupy_face")


def _is_launch(node: ast.AST, frame: types.FrameType) -> bool:
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Subscript):
            return hasattr(_value(node.func.value, frame), "py_func")
        function = _value(node.func, frame)
        if type(function).__name__ in ("ufunc", "ElementwiseKernel", "ReductionKernel", "RawKernel"):
            return True
        return isinstance(node.func, ast.Attribute) and node.func.attr in COMPUTING and _is_array(node.func.value, frame)
    if isinstance(node, ast.AugAssign):
        return _is_array(node.target, frame)
    if isinstance(node, ast.BinOp):
        return _is_array(node.left, frame) or _is_array(node.right, frame)
    if isinstance(node, ast.Assign):
        return any(isinstance(t, ast.Subscript) and _is_array(t.value, frame) for t in node.targets)
    return False


def _is_array(node: ast.AST, frame: types.FrameType) -> bool:
    if isinstance(node, ast.Subscript):
        return _is_array(node.value, frame)
    kind = type(_value(node, frame))
    return kind.__name__ == "ndarray" and kind.__module__.startswith(ARRAY_MODULES)


def _value(node: ast.AST, frame: types.FrameType) -> Any:
    """What a name, or an attribute of a module, stands for; None for anything that would have to be computed."""
    if isinstance(node, ast.Name):
        for scope in (frame.f_locals, frame.f_globals):
            if node.id in scope:
                return scope[node.id]
        return None
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, frame)
        return getattr(owner, node.attr, None) if isinstance(owner, types.ModuleType) else None
    return None
