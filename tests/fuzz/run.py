"""Fuzzes every target for a share of the time and says what was found. Usage: python -m fuzz.run [--seconds 600]."""

import argparse
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fuzz.catalogue import TARGETS
from fuzz.target import Target

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build/fuzz"
CORPUS = Path(__file__).parent / "corpus"
_MEMORY_MIB = 2048
_HANGS_S = 60
_KEPT_BYTES = 2048


@dataclass(frozen=True, slots=True)
class Report:
    """What came of one target: inputs tried, branches reached, findings, and how the process ended."""

    name: str
    runs: int
    coverage: int
    findings: tuple[Path, ...]
    ended: str

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found and the process ended by itself."""
        return not self.findings and not self.ended


def fuzz(target: Target, seconds: int, *, keep: bool) -> Report:
    """Fuzz one target in a process of its own."""
    place = WORK / target.name
    shutil.rmtree(place / "findings", ignore_errors=True)
    seeds, found = place / "seeds", place / "corpus"
    for directory in (seeds, found, CORPUS / target.name):
        directory.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(dict.fromkeys(target.seeds())):
        (seeds / f"{number:03}").write_bytes(seed)
    limits = [f"-rss_limit_mb={_MEMORY_MIB}", f"-timeout={_HANGS_S}", f"-artifact_prefix={place}/"]
    corpora = [str(found), str(CORPUS / target.name), str(seeds)]
    output = _start(target, [*limits, f"-max_total_time={seconds}", "-print_final_stats=1", *corpora], place)
    if keep:
        _start(target, ["-merge=1", f"-max_len={_KEPT_BYTES}", str(CORPUS / target.name), str(found)], place)
    return _read_report(target.name, output, place)


def _start(target: Target, flags: list[str], place: Path) -> str:
    again = place / "again"
    start = [sys.executable, "-m", "fuzz.one", target.name, str(place / "findings"), str(again)]
    again.write_text(f'#!/bin/sh\nexec {shlex.join(start)} "$@"\n')
    again.chmod(0o755)
    # libFuzzer ends its process without cleaning up.
    shutil.rmtree(place / "temporary", ignore_errors=True)
    (place / "temporary").mkdir()
    paths = {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(place / "temporary")}
    done = subprocess.run(
        [*start, *flags],
        cwd=place,
        env=os.environ | paths,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    (place / "log.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    return done.stdout + done.stderr


def _read_report(name: str, output: str, place: Path) -> Report:
    runs = re.search(r"number_of_executed_units:\s+(\d+)", output)
    coverage = re.findall(r"cov: (\d+)", output)
    findings = tuple(sorted((place / "findings").glob("*.txt")))
    killed = re.search(r"ERROR: libFuzzer: .*", output)
    ended = killed or re.search(r"Error: .*|.*Error$", output)
    return Report(
        name,
        int(runs[1]) if runs else 0,
        int(coverage[-1]) if coverage else 0,
        findings,
        "" if runs and not killed else (ended[0] if ended else f"ended early, see {place}/log.txt"),
    )


def main() -> int:
    """Fuzz; return 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600, help="time for all targets together")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at a time")
    parser.add_argument("--targets", nargs="*", default=[one.name for one in TARGETS], help="only these")
    parser.add_argument("--keep", action="store_true", help="add what reached something new to the corpus in the tree")
    asked = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed: make fuzz installs it where it has a wheel (Linux on x86-64)", file=sys.stderr)
        return 2
    chosen = [one for one in TARGETS if one.name in asked.targets]
    share = max(asked.seconds * asked.jobs // len(chosen), 1)
    reports = []
    with ThreadPoolExecutor(asked.jobs) as pool:
        for report in pool.map(lambda one: fuzz(one, share, keep=asked.keep), chosen):
            reports.append(report)
            print(f"{report.name:16}{report.runs:>10} inputs{report.coverage:>8} branches  {_tell(report)}", flush=True)
    print(f"{sum(report.runs for report in reports)} inputs for {len(reports)} decoders, {share} s each")
    for path in (path for report in reports for path in report.findings):
        print(f"\n{path.with_suffix('')}\n{path.read_text(encoding='utf-8')}")
    return 0 if all(report.is_clean for report in reports) else 1


def _tell(report: Report) -> str:
    if report.ended:
        return report.ended
    return f"{len(report.findings)} FINDINGS" if report.findings else "nothing found"


if __name__ == "__main__":
    sys.exit(main())
