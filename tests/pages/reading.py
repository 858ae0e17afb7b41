"""What stands on pages: the commands that their readers type, and how many words they read."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
PROGRAM = re.compile(
    r"(?:\w+=\S+ )*"
    r"(?:make|gpuloom|kubectl|kubeadm|helm|docker|buildah|source|export|curl|dmesg|nvidia-smi|\.venv/bin/\w+)(?= \S)"
)
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"\s+#.*")
WORD = re.compile(r"\S*[A-Za-z0-9]\S*")
PROMPT = "$ "


def list_commands(text: str) -> Iterator[str]:
    """Give the commands of a page, in its order: lines of its blocks, and code in its sentences; without comments."""
    end = 0
    for block in FENCE.finditer(text):
        yield from _in_sentences(text[end : block.start()])
        yield from _in_block(block["text"])
        end = block.end()
    yield from _in_sentences(text[end:])


def list_all_commands() -> set[str]:
    """Return the commands of all pages."""
    return {command for page in PAGES for command in list_commands(page.read_text(encoding="utf-8"))}


def count_words(text: str) -> int:
    """Count what a reader of a page reads as words: in sentences, cells and blocks, without rules and bars."""
    return len(WORD.findall(text))


def list_shown(page: str) -> Iterator[tuple[str, str]]:
    """Give the commands that a page shows with what they print."""
    for block in FENCE.finditer((ROOT / page).read_text(encoding="utf-8")):
        if block["language"] == "console":
            for shown in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
                command, _, printed = shown.partition("\n")
                yield command, printed


def list_blocks(place: str) -> list[list[str]]:
    """Return the commands of each block below one heading, given as PAGE#HEADING; blocks without any are left out."""
    page, _, heading = place.partition("#")
    text = FENCE.sub(_hide_hashes, (ROOT / page).read_text(encoding="utf-8"))
    found = re.search(rf"^#+ {re.escape(heading)}$\n(?P<text>.*?)(?=^#|\Z)", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise LookupError(f"{page} has no heading {heading!r}")
    blocks = (list(_in_block(block["text"])) for block in FENCE.finditer(found["text"]))
    return [block for block in blocks if block]


def _hide_hashes(block: re.Match[str]) -> str:
    """Put a blank before comments at the beginning of a line, which look like headings."""
    return re.sub("^#", " #", block[0], flags=re.MULTILINE)


def _in_block(text: str) -> Iterator[str]:
    joined = re.sub(r"\\\n\s*", "", text)
    lines = [line.strip() for line in joined.splitlines()]
    typed = [line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)]
    for line in typed or lines:
        if PROGRAM.match(line):
            yield COMMENT.sub("", line)


def _in_sentences(text: str) -> Iterator[str]:
    for code in re.findall(r"`([^`]+)`", text):
        line = " ".join(code.split())
        if PROGRAM.match(line):
            yield line
