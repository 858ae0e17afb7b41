"""Draws the pictures of docs/concepts.md: ``.venv/bin/python tools/docs/pictures.py`` writes docs/images/*.svg."""

from collections.abc import Iterable
from html import escape
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
_FILLS = {"plain": "#ffffff", "ours": "#d9ecff", "theirs": "#eeeeee", "pod": "#d8f0d3", "other": "#ffe3c2"}
_ARROW = (
    '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
    'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="#333333"/></marker></defs>'
)


def box(x: int, y: int, width: int, height: int, lines: str, kind: str = "plain") -> str:
    """Draw a box with lines of text in its middle, separated by |."""
    frame = (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{_FILLS[kind]}" '
        'stroke="#333333" stroke-width="1.5"/>'
    )
    rows = lines.split("|")
    top = y + height / 2 - (len(rows) - 1) * 9 + 5
    return frame + "".join(text(x + width // 2, round(top + 18 * row), line) for row, line in enumerate(rows))


def text(x: int, y: int, line: str, anchor: str = "middle") -> str:
    """Write one line; `anchor` says which end of it stands at x: start, middle or end."""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(line)}</text>'


def arrow(x1: int, y1: int, x2: int, y2: int, label: str = "", at: tuple[int, int] | None = None) -> str:
    """Draw an arrow, with its label at its middle or elsewhere."""
    line = f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#333333" stroke-width="1.5" marker-end="url(#tip)"/>'
    where = at or ((x1 + x2) // 2, (y1 + y2) // 2 - 8)
    return line + (text(*where, label) if label else "")


def curve(path: str) -> str:
    """Draw an arrow along a path."""
    return f'<path d="{path}" fill="none" stroke="#333333" stroke-width="1.5" marker-end="url(#tip)"/>'


def write_picture(name: str, width: int, height: int, title: str, parts: Iterable[str]) -> str:
    """Return a picture on white ground."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-labelledby="{name}" font-family="sans-serif" font-size="14" fill="#111111">'
        f'<title id="{name}">{escape(title)}</title>{_ARROW}'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>' + "\n".join(parts) + "</svg>\n"
    )


def draw_way() -> str:
    """The way of a pod from kubectl to a running container."""
    parts = [
        box(20, 30, 130, 56, "you|kubectl apply", "theirs"),
        box(270, 30, 170, 56, "API server", "theirs"),
        box(600, 30, 200, 56, "gpuloom scheduler|webhook", "ours"),
        box(270, 170, 170, 56, "kube-scheduler", "theirs"),
        box(600, 170, 200, 56, "gpuloom scheduler|filter and bind", "ours"),
        box(270, 310, 170, 56, "kubelet", "theirs"),
        box(600, 310, 200, 56, "gpuloom device plugin|Allocate", "ours"),
        box(270, 440, 170, 56, "container with|HAMi-core's limits", "pod"),
        arrow(150, 58, 268, 58, "1 pod"),
        arrow(440, 50, 598, 50, "2 complete it"),
        arrow(355, 86, 355, 168, "3 it waits", (400, 132)),
        arrow(440, 190, 598, 190, "4 which node?"),
        arrow(440, 212, 598, 212, "5 bind it", (519, 230)),
        arrow(660, 168, 442, 80, "6 binding with the cards", (690, 132)),
        arrow(355, 226, 355, 308, "7 it is bound", (408, 272)),
        arrow(440, 338, 598, 338, "8 give me a card"),
        arrow(598, 356, 442, 440, "9 limits, files", (580, 410)),
    ]
    return write_picture("way", 820, 520, "One pod's way from kubectl to its container", parts)


def draw_sharing() -> str:
    """Three pods on one card."""
    parts = [
        text(20, 34, "GPU-5376e657, NVIDIA L4: 23,034 MiB, 100 % of the cores, up to 10 containers", "start"),
        text(20, 84, "memory", "start"),
        box(110, 56, 260, 44, "chat-1: 9,000 MiB", "ours"),
        box(370, 56, 174, 44, "notebook-1: 6,000", "pod"),
        box(544, 56, 116, 44, "batch: 4,000", "other"),
        box(660, 56, 117, 44, "4,034 free"),
        text(20, 154, "cores", "start"),
        box(110, 126, 334, 44, "chat-1: 50 %", "ours"),
        box(444, 126, 167, 44, "notebook-1: 25 %", "pod"),
        box(611, 126, 133, 44, "batch: 20 %", "other"),
        box(744, 126, 33, 44, "5"),
        text(20, 224, "shares", "start"),
        *(
            box(110 + 67 * i, 196, 64, 44, str(i + 1), ("ours", "pod", "other")[i] if i < 3 else "plain")
            for i in range(10)
        ),
        text(
            20,
            280,
            "One more pod does not fit: CardInsufficientMemory (asks 5,000 MiB; 4,034 of 23,034 free).",
            "start",
        ),
    ]
    return write_picture(
        "sharing", 800, 304, "Three pods share the memory, the cores and the places of one card", parts
    )


def draw_lock() -> str:
    """Two binds of one node, one after the other."""
    parts = [
        text(20, 50, "scheduler", "start"),
        text(20, 130, "node lock", "start"),
        text(20, 210, "device plugin", "start"),
        box(130, 24, 120, 44, "bind train-1", "ours"),
        box(260, 24, 250, 44, "bind batch: waits its turn", "theirs"),
        box(520, 24, 120, 44, "bind batch", "other"),
        box(190, 104, 310, 44, "names train-1", "ours"),
        box(560, 104, 220, 44, "names batch", "other"),
        box(330, 184, 170, 44, "Allocate: train-1", "ours"),
        box(660, 184, 120, 44, "Allocate: batch", "other"),
        arrow(200, 68, 200, 102),
        arrow(500, 184, 500, 150),
        arrow(508, 104, 536, 70),
        arrow(590, 68, 590, 102),
        arrow(130, 260, 780, 260),
        text(455, 284, "time: the kubelet does not say for which pod it asks, the lock does"),
    ]
    return write_picture(
        "lock", 800, 304, "The node lock: one pod at a time is handed to a node's device plugin", parts
    )


def draw_reservation() -> str:
    """The states of a reservation."""
    parts = [
        box(30, 120, 140, 60, "nothing"),
        box(330, 120, 150, 60, "assumed|not bound yet", "other"),
        box(640, 120, 150, 60, "confirmed|bound there", "pod"),
        arrow(170, 140, 328, 140, "assume"),
        text(249, 112, "filter chose a node"),
        arrow(480, 150, 638, 150, "confirm"),
        text(559, 122, "the pod is bound"),
        arrow(328, 168, 172, 168, "forget", (249, 188)),
        text(249, 208, "bind failed, pod gone,"),
        text(249, 226, "15 minutes without bind"),
        curve("M715 180 C715 300 100 300 100 184"),
        text(420, 264, "forget"),
        text(420, 294, "the pod has ended or is gone"),
        curve("M370 120 C370 40 440 40 440 116"),
        text(405, 46, "assume again: the old decision counts no more"),
    ]
    return write_picture("reservation", 820, 316, "What becomes of a reservation: assumed, confirmed, forgotten", parts)


PICTURES = {"way": draw_way, "sharing": draw_sharing, "lock": draw_lock, "reservation": draw_reservation}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / f"concept-{name}.svg").write_text(draw(), encoding="utf-8")
