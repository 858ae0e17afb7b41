"""The pictures of docs/concepts.md are those that the script draws, and nothing in them lies outside."""

import re
import runpy
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[3]
PICTURES = runpy.run_path(str(ROOT / "tools" / "docs" / "pictures.py"))["PICTURES"]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_is_as_the_script_draws_it(name: str):
    file = ROOT / "docs" / "images" / f"concept-{name}.svg"
    assert file.read_text(encoding="utf-8") == PICTURES[name](), "run .venv/bin/python tools/docs/pictures.py"


@pytest.mark.parametrize("name", PICTURES)
def test_every_box_lies_inside(name: str):
    picture = ET.fromstring(PICTURES[name]())
    width, height = int(picture.attrib["width"]), int(picture.attrib["height"])
    edges = [
        [int(box.attrib[key]) for key in ("x", "width", "y", "height")]
        for box in picture.iter(f"{SVG}rect")
        if "x" in box.attrib
    ]
    assert edges != []
    assert [edge for edge in edges if sum(edge[:2]) > width or sum(edge[2:]) > height] == []


def test_the_page_shows_every_picture():
    page = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"images/concept-(\w+)\.svg", page)) == sorted(PICTURES)
