"""HAMi's recorded answers against the oracle: ``python -m oracle.recorded FILE...`` in the folder of the tests."""

import gzip
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oracle.judgement import Difference, judge
from oracle.replay import Replay


@dataclass(frozen=True, slots=True)
class Finding:
    """One expectation and how the oracle met it: ``difference`` is None when it did."""

    file: str
    line: int
    difference: Difference | None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.difference or 'as recorded'}"


def check_file(path: Path) -> Iterator[Finding]:
    """Replay one file of input and EXPECT lines and judge every expectation."""
    replay, answers = Replay(), dict[str, dict[str, Any]]()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, text in enumerate(lines, 1):
            line = json.loads(text)
            if line["type"] == "EXPECT":
                yield Finding(path.name, number, judge(line, answers[line["of"]]))
            elif (answer := replay.take(line)) is not None and "id" in line:
                answers[line["id"]] = answer


def main(arguments: list[str]) -> int:
    """Check files and print every difference and a sum per file."""
    failed = 0
    for argument in arguments:
        findings = list(check_file(Path(argument)))
        wrong = [finding for finding in findings if finding.difference is not None]
        for finding in wrong[:10]:
            print(finding)
        print(f"{Path(argument).name}: {len(findings) - len(wrong)} of {len(findings)} as recorded")
        failed += len(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
