"""The oracle answers as HAMi did, with HAMi's switches."""

from pathlib import Path

import pytest

from oracle.recorded import check_file

ANSWERS = Path(__file__).parents[1] / "data" / "hami-answers"
FILES = sorted([*ANSWERS.glob("nvidia-*.jsonl.gz"), *ANSWERS.glob("webhook-nvidia.jsonl.gz")])


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=[path.name.removesuffix(".jsonl.gz") for path in FILES])
def test_every_recorded_answer_is_reproduced(path: Path):
    findings = list(check_file(path))
    assert findings
    assert [str(finding) for finding in findings if finding.difference is not None] == []


def test_all_recordings_are_there():
    assert len(FILES) == 15
