"""Citations of the specification in code, tests and pages, and what they lead to.

docs/spec/README.md tells people how a citation reads; here the same forms are read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

PAGES = {
    "scheduler": "spec/scheduler.md",
    "binding": "spec/binding.md",
    "wire protocol": "spec/wire-protocol.md",
    "vendors": "spec/vendors.md",
    "device plugin": "spec/device-plugin.md",
    "recording": "spec/recording.md",
    "placement quality": "spec/placement-quality.md",
}
"""How a page is called in a citation, and where it is."""

ROW_PAGES = {
    "B": ("spec/scheduler.md",),
    "D": ("spec/scheduler.md",),
    "V": ("spec/vendors.md",),
    "P": ("spec/device-plugin.md",),
    "T": ("threats.md",),
}
"""By the letter of a row's id the pages that have the row."""

KUBE = "spec/kube.md"

_UNITS = r"(?:s|ms|min|h|seconds?|minutes?|hours?|times|pods?|nodes?|replicas|calls|cards|MiB|GiB|per cent)\b|%"
_NUMBER = rf"\d+(?:\.\d+)*(?![\w.]*\w)(?! ?(?:{_UNITS}))"
_PLACE = rf"{_NUMBER}(?: (?:steps?|rows?) \d+(?:,? and \d+| to \d+)*)?"
_NAMES = "|".join(f"[{name[0].upper()}{name[0]}]{name[1:]}" for name in PAGES)
_PAGED = re.compile(rf"(?<![\w/-])(?P<page>{_NAMES}) (?P<places>{_PLACE}(?:(?:,? and |, | to ){_PLACE})*)")
_ONE_PLACE = re.compile(r"(?P<section>\d+(?:\.\d+)*)(?: (?:steps?|rows?) (?P<rows>\d+(?:,? and \d+| to \d+)*))?")
_ROW = re.compile(r"(?<![\w-])(?P<letter>[BDVPT])-(?P<number>\d\d[a-z]?)(?![\w-])")
_DECISION = re.compile(r"(?<![\w-])[Dd]ecisions?(?: |/)(?P<number>\d{1,3})(?![\d,.]*\d)(?!\w)")
_KUBE = re.compile(r"(?<![\w-])kube (?P<part>reflector (?P<rule>\d+)|client (?P<row>[a-z]+))(?!\w)")
_BARE = re.compile(r"(?<![\w./-])\d{1,2}\.\d{1,2}(?:\.\d)?(?![\w.%]*\w)")
_SAID = re.compile(r'"""(.*?)"""|#([^\n]*)', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Page:
    """What a citation may lead to: numbered headings with the rows of their tables, and rows with an id."""

    sections: dict[str, frozenset[str]]
    ids: frozenset[str]


def read_page(text: str) -> Page:
    """Read a page's headings and rows."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    parts = re.split(r"^#+ (?:(\d+(?:\.\d+)*)\.? )?.*$", text, flags=re.MULTILINE)[1:]
    sections = {
        number: frozenset(re.findall(r"^\| (\w+) \|", part, re.MULTILINE))
        for number, part in zip(parts[::2], parts[1::2], strict=True)
        if number
    }
    return Page(sections, frozenset(re.findall(r"^\| ([A-Z]-\d\d[a-z]?) \|", text, re.MULTILINE)))


@cache
def find_page(path: str) -> Page:
    """Read a page below docs."""
    return read_page((DOCS / path).read_text(encoding="utf-8"))


def list_dead(text: str) -> Iterator[str]:
    """Give the citations in a text that lead nowhere."""
    text = re.sub(r"\s*\n\s*(?:# ?)?", " ", text)
    for found in _PAGED.finditer(text):
        name = found["page"][0].lower() + found["page"][1:]
        for place in _ONE_PLACE.finditer(found["places"]):
            if not _leads(PAGES[name], place):
                yield f"{name} {place[0]}"
    for found in _ROW.finditer(text):
        if any(found[0] not in find_page(path).ids for path in ROW_PAGES[found["letter"]]):
            yield found[0]
    for found in _DECISION.finditer(text):
        if not list((DOCS / "decisions").glob(f"{int(found['number']):03}-*.md")):
            yield found[0]
    for found in _KUBE.finditer(text):
        if not _is_on_kube_page(found):
            yield found[0]


def list_dead_numbers(text: str, paths: tuple[str, ...]) -> Iterator[str]:
    """Give the numbers in comments and docstrings of a text that are no heading of any of some pages.

    So the executable specification cites, which names its page once.
    """
    for docstring, comment in _SAID.findall(text):
        for found in _BARE.finditer(_PAGED.sub("", docstring or comment)):
            if not any(found[0] in find_page(path).sections for path in paths):
                yield found[0]


def _leads(path: str, place: re.Match[str]) -> bool:
    rows = find_page(path).sections.get(place["section"])
    if rows is None:
        return False
    return all(row in rows for row in re.findall(r"\d+", place["rows"] or ""))


def _is_on_kube_page(found: re.Match[str]) -> bool:
    text = (DOCS / KUBE).read_text(encoding="utf-8")
    if found["rule"]:
        return re.search(rf"^{found['rule']}\. ", text, re.MULTILINE) is not None
    return f"\n| {found['row']} |" in text
