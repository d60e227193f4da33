"""A graph drawn from left to right: each node behind those it waits for, long chains and wide levels folded into one box."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon, Rectangle
from matplotlib.path import Path

from .style import DEVICE, DPI, FONT, GRAPH, HOST, INK, QUIET, RECORDED, new_figure, png, title

WIDTH = 960  # px, as are all lengths here
MARGIN, TITLE, GAP = 16, 44, 14
BOX_HEIGHT, ROW_GAP, LANE = 46, 10, 12  # LANE: the room of an edge that passes a level by
BOX_WIDTH, COLUMN_GAP = 158, 22  # of a box at most; between columns
STACK = 4  # how far the sheets behind a folded box stand out
MAX_COLUMNS, MAX_ROWS = 8, 10
KEEP = 3  # columns at either end of a graph that is too long
MAX_INSIDE = 6  # panels of graphs inside

COLOURS = {
    "kernel": DEVICE, "memcpy": DEVICE, "memset": DEVICE, "allocation": DEVICE, "free": DEVICE, "host": HOST,
    "child graph": GRAPH, "conditional": GRAPH, "mixed": DEVICE,
}  # fmt: skip
TINTS = {"kernel": 0.22, "host": 0.18, "child graph": 0.15, "conditional": 0.15, "mixed": 0.12}  # of the colour in a box


@dataclass(frozen=True)
class Box:
    """A node: its kind, which gives the colour, and two lines of text."""

    kind: str
    name: str
    detail: str = ""


@dataclass(frozen=True)
class Picture:
    """A graph to be drawn: nodes, edges between their numbers (each from a lower to a higher one), the nodes of its longest
    chain, and the graphs inside nodes, each with a title."""

    boxes: Sequence[Box]
    edges: Sequence[tuple[int, int]]
    critical: set[int] = field(default_factory=set)
    inside: Sequence[tuple[str, Picture]] = ()


# -- folding ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """What one box of the picture shows: the numbers of the nodes, and how they stand ("one", "chain", "wide", "region")."""

    nodes: tuple[int, ...]
    form: str
    kind: str
    name: str
    detail: str


@dataclass
class Folded:
    """A graph of parts: `edges` between their numbers, `levels` of part numbers from left to right."""

    parts: list[Part]
    edges: set[tuple[int, int]]
    levels: list[list[int]]


def fold(picture: Picture) -> Folded:
    """The parts to draw: all nodes as they are where that fits, else with chains, wide levels and a long middle folded."""
    graph = _graph(picture, [_single(i, box) for i, box in enumerate(picture.boxes)])
    for same in (_look, None):
        if len(graph.levels) > MAX_COLUMNS:
            graph = _graph(picture, _fold_chains(picture, graph, same))
    if max(map(len, graph.levels), default=0) > MAX_ROWS:
        graph = _graph(picture, _fold_levels(picture, graph))
    if len(graph.levels) > MAX_COLUMNS:
        graph = _graph(picture, _fold_middle(picture, graph))
    return graph


def _graph(picture: Picture, parts: list[Part]) -> Folded:
    parts = sorted(parts, key=lambda part: part.nodes[0])
    place = {i: p for p, part in enumerate(parts) for i in part.nodes}
    edges = _without_shortcuts(parts, {(place[a], place[b]) for a, b in picture.edges if place[a] != place[b]})
    before: list[list[int]] = [[] for _ in parts]
    for a, b in edges:
        before[b].append(a)
    depth: dict[int, int] = {}
    todo = list(range(len(parts)))
    while todo:  # a part's first node need not stand behind all that the part waits for
        later = []
        for p in todo:
            if all(b in depth for b in before[p]):
                depth[p] = 1 + max((depth[b] for b in before[p]), default=-1)
            else:
                later.append(p)
        todo = later
    levels: list[list[int]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for p in range(len(parts)):
        levels[depth[p]].append(p)
    return Folded(parts, edges, levels)


def _without_shortcuts(parts: list[Part], edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """The edges, without those from or to a folded part that others lead around to as well: they only say what is said."""
    if all(len(part.nodes) == 1 for part in parts):
        return edges
    after: dict[int, set[int]] = {}
    for a, b in edges:
        after.setdefault(a, set()).add(b)

    def leads_around(a: int, b: int) -> bool:
        seen: set[int] = set()
        todo = [c for c in after[a] if c != b]
        while todo:
            c = todo.pop()
            if c == b:
                return True
            if c not in seen:
                seen.add(c)
                todo += after.get(c, ())
        return False

    folded = [len(part.nodes) > 1 for part in parts]
    return {(a, b) for a, b in edges if not ((folded[a] or folded[b]) and leads_around(a, b))}


def _single(i: int, box: Box) -> Part:
    return Part((i,), "one", box.kind, box.name, box.detail)


def _look(part: Part) -> Hashable:
    return part.form, part.kind, part.name, part.detail, len(part.nodes)


def _fold_chains(picture: Picture, graph: Folded, same: Callable[[Part], Hashable] | None) -> list[Part]:
    """The nodes between the first and the last of each chain (of equal nodes, or of any) become one part."""
    after: list[list[int]] = [[] for _ in graph.parts]
    before: list[list[int]] = [[] for _ in graph.parts]
    for a, b in graph.edges:
        after[a].append(b)
        before[b].append(a)

    def follows(a: int, b: int) -> bool:
        return len(after[a]) == 1 == len(before[b]) and (same is None or same(graph.parts[a]) == same(graph.parts[b]))

    out, seen = [], set()
    for level in graph.levels:
        for p in level:
            if p in seen:
                continue
            run = [p]
            while len(after[run[-1]]) == 1 and follows(run[-1], after[run[-1]][0]):
                run.append(after[run[-1]][0])
            seen.update(run)
            out += [graph.parts[run[0]]]
            middle = [i for q in run[1:-1] for i in graph.parts[q].nodes]
            out += [_merged(picture, middle, "chain")] if len(run) > 3 else [graph.parts[q] for q in run[1:-1]]
            out += [graph.parts[q] for q in run[1:][-1:]]
    return out


def _fold_levels(picture: Picture, graph: Folded) -> list[Part]:
    """In each level that is too wide, equal parts become one; if there are still too many, so do the rarest."""
    out: list[Part] = []
    for level in graph.levels:
        parts = [graph.parts[p] for p in level]
        if len(parts) > MAX_ROWS:
            groups: dict[Hashable, list[Part]] = {}
            for part in parts:
                groups.setdefault(_look(part), []).append(part)
            parts = [_beside(group) for group in groups.values()]
        if len(parts) > MAX_ROWS:
            parts.sort(key=lambda part: -len(part.nodes))
            rest = [i for part in parts[MAX_ROWS - 1 :] for i in part.nodes]
            parts = [*parts[: MAX_ROWS - 1], _merged(picture, rest, "wide")]
        out += parts
    return out


def _beside(group: list[Part]) -> Part:
    """Equal parts of one level as one."""
    first, nodes = group[0], tuple(sorted(i for part in group for i in part.nodes))
    if len(group) == 1:
        return first
    if first.form == "one":
        return Part(nodes, "wide", first.kind, f"{len(group):,} × {first.name}", first.detail)
    return Part(
        nodes, "wide", first.kind, f"{len(group):,} × {len(first.nodes):,} {first.name.split(' ', 2)[-1]}", first.detail
    )


def _fold_middle(picture: Picture, graph: Folded) -> list[Part]:
    """The columns between the first and the last few become one part."""
    middle = [p for level in graph.levels[KEEP:-KEEP] for p in level]
    nodes = sorted(i for p in middle for i in graph.parts[p].nodes)
    kept = [graph.parts[p] for level in [*graph.levels[:KEEP], *graph.levels[-KEEP:]] for p in level]
    return [*kept, _merged(picture, nodes, "chain" if len(middle) == len(graph.levels) - 2 * KEEP else "region")]


def _merged(picture: Picture, nodes: Iterable[int], form: str) -> Part:
    """Nodes as one part: named after what they all are, else counted by name."""
    nodes = tuple(sorted(nodes))
    boxes = [picture.boxes[i] for i in nodes]
    kinds = {box.kind for box in boxes}
    kind = kinds.pop() if len(kinds) == 1 else "mixed"
    if len(set(boxes)) == 1:
        return Part(nodes, form, kind, f"× {len(nodes):,} {boxes[0].name}", boxes[0].detail)
    names = Counter(box.name for box in boxes).most_common()
    if len(names) == 1:
        return Part(nodes, form, kind, f"× {len(nodes):,} {names[0][0]}", "differing launches")
    shown = ", ".join(f"{count:,} {name}" for name, count in names[:2]) + (", …" if len(names) > 2 else "")
    return Part(nodes, form, kind, f"× {len(nodes):,} nodes", shown)


# -- layout -----------------------------------------------------------------------------------------------------------


@dataclass
class Layout:
    """Where the parts stand: `x` of the columns' middles, `y` of parts and of the edges' way points, by their number."""

    graph: Folded
    x: list[float]
    y: list[float]
    column: list[int]
    ways: dict[tuple[int, int], list[int]]  # edge → the points that it passes, its ends included
    box_width: float
    height: float


def lay_out(graph: Folded, width: float) -> Layout:
    """Columns by level, rows so that edges cross little and run straight."""
    columns = len(graph.levels)
    pitch = min(BOX_WIDTH + 2 * COLUMN_GAP, width / max(columns, 1))
    left = (width - pitch * columns) / 2 if columns > 3 else 0.0
    x = [left + pitch * (k + 0.5) for k in range(columns)]
    items = [list(level) for level in graph.levels]
    column = [0] * len(graph.parts)
    for k, level in enumerate(items):
        for p in level:
            column[p] = k
    ways: dict[tuple[int, int], list[int]] = {}
    links: list[tuple[int, int]] = []
    bends = len(graph.edges) <= 60  # a thicket gets no clearer by way points
    for a, b in sorted(graph.edges):
        way = [a]
        for k in range(column[a] + 1, column[b]) if bends else ():
            way.append(len(column))
            column.append(k)
            items[k].append(way[-1])
        way.append(b)
        ways[a, b] = way
        links += itertools.pairwise(way)
    near: list[tuple[list[int], list[int]]] = [([], []) for _ in column]
    for a, b in links:
        near[b][0].append(a)
        near[a][1].append(b)
    size = [BOX_HEIGHT if p < len(graph.parts) else LANE for p in range(len(column))]
    y = [0.0] * len(column)
    for level in items:
        _place(level, y, size, [float(i) for i in range(len(level))], first=True)
    for sweep in range(10):
        side = sweep % 2  # forwards by what lies before, then backwards
        for level in items if side == 0 else reversed(items):
            wanted = [float(np.mean([y[q] for q in near[p][side]])) if near[p][side] else y[p] for p in level]
            order = sorted(range(len(level)), key=lambda i: (wanted[i], y[level[i]]))
            level[:] = [level[i] for i in order]
            _place(level, y, size, [wanted[i] for i in order])
    low = min((y[p] - size[p] / 2 for p in range(len(column))), default=0.0)
    high = max((y[p] + size[p] / 2 for p in range(len(column))), default=0.0)
    y = [value - low for value in y]
    return Layout(graph, x, y, column, ways, pitch - COLUMN_GAP if columns else 0.0, high - low)


def _place(level: list[int], y: list[float], size: list[int], wanted: list[float], first: bool = False) -> None:
    """Puts a column's items in order, as near to where they want to be as their sizes allow."""
    at: list[float] = []
    for i, p in enumerate(level):
        room = (size[level[i - 1]] + size[p]) / 2 + ROW_GAP if i else 0.0
        at.append(max(wanted[i], at[-1] + room) if i and not first else (at[-1] + room if i else wanted[0]))
    shift = float(np.mean(at)) if first else float(np.mean(np.subtract(at, wanted)))
    for p, value in zip(level, at, strict=True):
        y[p] = value - shift if at else 0.0


# -- drawing ----------------------------------------------------------------------------------------------------------


def draw(picture: Picture, heading: str) -> Figure:
    """The graph under its heading, and below it the graphs inside."""
    panels = [("", 0, picture), *_insides(picture, 1)]
    hidden, panels = len(panels) - 1 - MAX_INSIDE, panels[: 1 + MAX_INSIDE]
    layouts = []
    for name, depth, part in panels:
        inset = MARGIN * (1 + depth)
        layouts.append((name, inset, part, lay_out(fold(part), WIDTH - inset - MARGIN - (GAP if name else 0))))
    noted = hidden > 0 or any(_highlights(part, layout) for _, _, part, layout in layouts)
    heights = [(24 + 2 * GAP if name else 0) + max(layout.height, 18) for name, _, _, layout in layouts]
    total = TITLE + sum(heights) + GAP * len(heights) + (22 if noted else 6)
    figure = new_figure(WIDTH, round(total))
    title(figure, 1 - 22 / total).set_text(heading)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(total, 0)
    top = float(TITLE)
    for (name, inset, part, layout), height in zip(layouts, heights, strict=True):
        _draw_panel(axes, name, inset, top, height, part, layout)
        top += height + GAP
    notes = ["thick outlines: the longest chain"] if any(_highlights(p, layout) for _, _, p, layout in layouts) else []
    notes += [f"{hidden} more graphs inside are not drawn"] if hidden > 0 else []
    axes.text(MARGIN, total - 14, " · ".join(notes), fontsize=FONT - 2, color=QUIET, va="center")
    return figure


def _insides(picture: Picture, depth: int) -> Iterable[tuple[str, int, Picture]]:
    for name, inner in picture.inside:
        yield name, depth, inner
        yield from _insides(inner, depth + 1)


def _highlights(picture: Picture, layout: Layout) -> bool:
    """Whether the longest chain needs to be told from the rest."""
    return any(not picture.critical.intersection(part.nodes) for part in layout.graph.parts)


def _draw_panel(axes: Axes, name: str, inset: float, top: float, height: float, picture: Picture, layout: Layout) -> None:
    x0, y0 = inset, top
    if name:
        frame = (inset, top), WIDTH - inset - MARGIN, height
        axes.add_patch(Rectangle(*frame, facecolor="#f7fafc", edgecolor=GRAPH, linewidth=1, linestyle=(0, (4, 2)), zorder=0))
        axes.text(inset + GAP, top + 17, name, fontsize=FONT, color=GRAPH, weight="bold", va="center")
        x0, y0 = inset + GAP / 2, top + 24 + GAP
    if not layout.graph.parts:
        axes.text(x0 + GAP, y0 + 6, "empty", fontsize=FONT, color=QUIET, va="center")
    bold = _highlights(picture, layout)
    critical = {p for p, part in enumerate(layout.graph.parts) if bold and picture.critical.intersection(part.nodes)}
    for edge, way in layout.ways.items():
        thick = critical.issuperset(edge) and layout.column[edge[1]] - layout.column[edge[0]] == 1
        _draw_edge(axes, layout, way, (x0, y0), thick)
    for p, part in enumerate(layout.graph.parts):
        centre = x0 + layout.x[layout.column[p]], y0 + layout.y[p]
        _draw_part(axes, part, centre, layout.box_width, p in critical)


def _draw_edge(axes: Axes, layout: Layout, way: list[int], origin: tuple[float, float], thick: bool) -> None:
    half = layout.box_width / 2
    points = [(origin[0] + layout.x[layout.column[p]], origin[1] + layout.y[p]) for p in way]
    ends = [(points[0][0] + half, points[0][1]), (points[-1][0] - half - 5, points[-1][1])]
    stops = [ends[0]]
    for px, py in points[1:-1]:
        stops += [(px - half, py), (px + half, py)]
    stops.append(ends[1])
    vertices, codes = [stops[0]], [Path.MOVETO]
    for k, (a, b) in enumerate(itertools.pairwise(stops)):
        if k % 2:  # straight past a column
            vertices.append(b)
            codes.append(Path.LINETO)
        else:
            bend = (b[0] - a[0]) * 0.5
            vertices += [(a[0] + bend, a[1]), (b[0] - bend, b[1]), b]
            codes += [Path.CURVE4] * 3
    colour, line = (INK, 1.9) if thick else (RECORDED, 1.1)
    axes.add_patch(PathPatch(Path(vertices, codes), facecolor="none", edgecolor=colour, linewidth=line, zorder=1 + thick))
    x, y = ends[1]
    axes.add_patch(
        Polygon([(x + 6, y), (x - 1, y - 3.6), (x - 1, y + 3.6)], facecolor=colour, edgecolor="none", zorder=1 + thick)
    )


def _draw_part(axes: Axes, part: Part, centre: tuple[float, float], width: float, thick: bool) -> None:
    colour = COLOURS.get(part.kind, QUIET)
    face = _tint(colour, TINTS.get(part.kind, 0.06))
    edge, line = (INK, 2.2) if thick else (colour, 1.3)
    dx, dy = {"chain": (STACK, 0), "wide": (0, STACK), "region": (STACK, STACK)}.get(part.form, (0, 0))
    left, top = centre[0] - width / 2, centre[1] - BOX_HEIGHT / 2
    box_width, box_height = width - 2 * dx, BOX_HEIGHT - 2 * dy
    for sheet in (2, 1, 0) if dx or dy else (0,):
        look = {"facecolor": face, "edgecolor": edge if sheet == 0 else colour, "linewidth": line if sheet == 0 else 0.9}
        corner = left + sheet * dx, top + sheet * dy
        axes.add_patch(
            FancyBboxPatch(
                corner, box_width, box_height, boxstyle="round,pad=0,rounding_size=5", zorder=3 + (2 - sheet) * 0.1, **look
            )
        )
    middle = left + box_width / 2
    room = box_width - 7
    numbers = next((t for t in _numbers(part) if _width(axes, t, FONT - 3.5, "normal") <= room), "")
    lines = [(numbers, FONT - 3.5, "normal", QUIET), (part.name, FONT - 0.5, "bold", INK)]
    lines += [(part.detail, FONT - 2.2, "normal", INK)] if part.detail else []
    spots = (0.19, 0.5, 0.82) if part.detail else (0.24, 0.62)
    for (text, size, weight, shade), spot in zip(lines, spots, strict=True):
        size, text = _fit(axes, text, size, weight, room)
        axes.text(
            middle, top + box_height * spot, text, fontsize=size, weight=weight, color=shade, ha="center",
            va="center_baseline", zorder=5, parse_math=False,
        )  # fmt: skip


def _numbers(part: Part) -> list[str]:
    """Which nodes a box stands for, where they have consecutive numbers, and how they stand: in full, or shorter."""
    first, last = part.nodes[0], part.nodes[-1]
    if len(part.nodes) == 1:
        return [f"[{first}]"]
    form = {"chain": "in a chain", "wide": "side by side"}.get(part.form, "in several levels")
    if last - first + 1 > len(part.nodes):
        return [form]
    return [f"[{first} … {last}] {form}", f"[{first} … {last}]", f"[{first} …"]


def _fit(axes: Axes, text: str, size: float, weight: str, room: float) -> tuple[float, str]:
    """The size, down to 7 points, in which a text fits; what still does not fit loses its end."""
    least = min(size, 7.0)
    while _width(axes, text, size, weight) > room and size > least:
        size = max(least, size - 0.5)
    if _width(axes, text, size, weight) > room:
        while len(text) > 1 and _width(axes, text + "…", size, weight) > room:
            text = text[:-1]
        text += "…"
    return size, text


def _width(axes: Axes, text: str, size: float, weight: str) -> float:
    from matplotlib.font_manager import FontProperties

    renderer = axes.figure.canvas.get_renderer()
    return renderer.get_text_width_height_descent(text, FontProperties(size=size, weight=weight), False)[0]


def _tint(colour: str, share: float) -> tuple[float, float, float]:
    return tuple(1 - share + share * c for c in to_rgb(colour))


__all__ = ["DPI", "WIDTH", "Box", "Folded", "Part", "Picture", "draw", "fold", "png"]
