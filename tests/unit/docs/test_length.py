"""The pages stay short enough to be read, without the specification, the decisions and what is made from the code."""

from pages.reading import ROOT, count_words

MOST_WORDS = 25_000
GENERATED = {"cli.md"}
PAGES = [path for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in GENERATED]


def test_the_pages_have_fewer_words_than_people_read():
    words = {path.name: count_words(path.read_text(encoding="utf-8")) for path in PAGES}
    longest = ", ".join(f"{name} {words[name]:,}" for name in sorted(words, key=words.__getitem__, reverse=True)[:6])
    total = sum(words.values())
    assert total < MOST_WORDS, (
        f"{total:,} words of at most {MOST_WORDS - 1:,}: cut what is said twice, or link it; the longest are {longest}"
    )


def test_words_are_counted_in_sentences_cells_and_blocks_and_rules_and_bars_are_none():
    page = "# Is it 5 %?\n\n| Case | `a b` |\n|---|---|\n| 86.21 ± 0.41 | … |\n\n```\nmake x # now\n```\n"
    assert count_words(page) == 11
