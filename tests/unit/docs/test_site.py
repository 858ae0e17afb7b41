"""The pages make a site: every link leads somewhere, every page is in the contents, nothing comes from other hosts."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CONFIGURATION = ROOT / "mkdocs.yml"
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?P<src>(?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b[^>]*\bhref=["']?(?P<href>(?:https?:)?//[^"'\s>]+)"""
    r"""|url\(["']?(?P<url>(?:https?:)?//[^"')]+)|@import\s+["'](?P<sheet>(?:https?:)?//[^"']+)"""
)


def build(folder: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Build a folder with mkdocs.yml and docs."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(folder / "mkdocs.yml")]
    return subprocess.run(
        [*command, "--site-dir", str(target)],
        capture_output=True, text=True, check=False, timeout=100, env=os.environ | {"NO_COLOR": "1"},
    )  # fmt: skip


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the pages that may be spoiled."""
    shutil.copytree(ROOT / "docs", tmp_path / "copy" / "docs")
    shutil.copy(CONFIGURATION, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    outcome = build(ROOT, target)
    assert outcome.returncode == 0, outcome.stderr
    return target


def list_loaded(site: Path) -> Iterator[str]:
    for path in site.rglob("*"):
        if path.suffix in {".html", ".css"}:
            for found in LOADED.finditer(path.read_text(encoding="utf-8")):
                yield f"{path.name}: {found.group()}"


@pytest.mark.slow
def test_every_page_is_there(site: Path):
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    made = {path.relative_to(site).with_suffix("") for path in site.rglob("*.html")}
    assert {str(page) for page in pages if page.name != "README"} <= {str(page) for page in made}


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_a_page_has_one_title(page: Path):
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1


@pytest.mark.slow
def test_nothing_is_loaded_from_other_hosts(site: Path):
    assert list(list_loaded(site)) == []


BROKEN = {
    "gone": "gone.md",
    "no such part": "reasons.md#no-such-part",
    "no such part here": "#no-such-place",
    "no such picture": "images/no-such.png",
    "outside of the pages": "../src/gpuloom/cli/demo.py",
}


@pytest.mark.slow
def test_links_that_lead_nowhere_are_errors(copied: Path, tmp_path: Path):
    page = copied / "docs" / "index.md"
    links = "".join(f"\n[{what}]({target})\n" for what, target in BROKEN.items())
    page.write_text(page.read_text(encoding="utf-8") + links, encoding="utf-8")
    outcome = build(copied, tmp_path / "site")
    assert outcome.returncode == 1
    assert [target for target in BROKEN.values() if f"'{target}'" not in outcome.stderr] == []


@pytest.mark.slow
def test_a_page_that_nobody_can_find_is_an_error(copied: Path, tmp_path: Path):
    (copied / "docs" / "stray.md").write_text("# Stray\n", encoding="utf-8")
    outcome = build(copied, tmp_path / "site")
    assert (outcome.returncode, "stray.md" in outcome.stderr) == (1, True)


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md"])
def test_links_of_pages_beside_the_site_lead_somewhere(name: str):
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / name).read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_list_of_decisions_is_whole():
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"\]\((\d[^)]+\.md)\)", (folder / "README.md").read_text(encoding="utf-8"))
    assert listed == sorted(path.name for path in folder.glob("[0-9]*.md"))
