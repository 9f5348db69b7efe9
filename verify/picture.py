"""A captured graph as an SVG picture: a row for each step from the inputs, an arrow for each use."""

from __future__ import annotations

from collections.abc import Collection
from html import escape
from pathlib import Path

from torch.fx import GraphModule, Node

from verify.program_text import note

HEIGHT, GAP, ROW, LETTER, MARGIN = 38, 16, 70, 7, 12
COLOURS = {"placeholder": "#e8eef7", "output": "#e8eef7"}
PLAIN, MARKED = "#ffffff", "#ffd9d2"


def svg(gm: GraphModule, title: str = "", marked: Collection[str] = ()) -> str:
    """The picture as text. ``marked``: names of nodes that are coloured."""
    rows = _rows(gm)
    widths = {n: LETTER * max(len(t) for t in _texts(n)) + 2 * MARGIN for row in rows for n in row}
    whole = max([LETTER * len(title), *(sum(widths[n] + GAP for n in row) for row in rows)], default=0) + 2 * MARGIN
    places: dict[Node, tuple[int, int]] = {}
    for k, row in enumerate(rows):
        x = (whole - sum(widths[n] + GAP for n in row)) // 2
        for node in row:
            places[node] = (x, 30 + k * ROW)
            x += widths[node] + GAP
    parts = [_arrow(places[u], widths[u], places[n], widths[n]) for n in places for u in n.all_input_nodes]
    parts += [_box(n, places[n], widths[n], n.name in marked) for n in places]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{30 + len(rows) * ROW}" font-family="monospace" font-size="11">'
    arrow = '<defs><marker id="a" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path d="M0,0 L8,4 L0,8 z"/></marker></defs>'
    return "\n".join([head, arrow, f'<text x="{MARGIN}" y="18">{escape(title)}</text>', *parts, "</svg>"]) + "\n"


def draw(gm: GraphModule, path: Path, title: str = "", marked: Collection[str] = ()) -> None:
    """Write the picture to ``path``."""
    path.write_text(svg(gm, title, marked))


def _rows(gm: GraphModule) -> list[list[Node]]:
    depth: dict[Node, int] = {}
    for node in gm.graph.nodes:
        depth[node] = 1 + max((depth[u] for u in node.all_input_nodes), default=-1)
    rows: list[list[Node]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node, k in depth.items():
        rows[k].append(node)
    return rows


def _texts(node: Node) -> tuple[str, str]:
    called = str(getattr(node.target, "__name__", node.target))
    name = {"placeholder": node.name, "output": "return"}.get(node.op, f"{node.name} = {called}")
    plain = [repr(a) for a in node.args if not isinstance(a, Node) and node.op != "output" and not _has_node(a)]
    return name, ", ".join(filter(None, [note(node), *plain]))[:60]


def _has_node(given: object) -> bool:
    return isinstance(given, (list, tuple)) and any(isinstance(g, Node) or _has_node(g) for g in given)


def _box(node: Node, place: tuple[int, int], width: int, marked: bool) -> str:
    x, y = place
    colour = MARKED if marked else COLOURS.get(node.op, PLAIN)
    first, second = _texts(node)
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{HEIGHT}" rx="4" fill="{colour}" stroke="#555"/>'
        f'<text x="{x + MARGIN}" y="{y + 15}">{escape(first)}</text><text x="{x + MARGIN}" y="{y + 30}" fill="#666">{escape(second)}</text>'
    )


def _arrow(start: tuple[int, int], width: int, end: tuple[int, int], end_width: int) -> str:
    return (
        f'<line x1="{start[0] + width // 2}" y1="{start[1] + HEIGHT}" x2="{end[0] + end_width // 2}" y2="{end[1]}" '
        'stroke="#555" marker-end="url(#a)"/>'
    )
