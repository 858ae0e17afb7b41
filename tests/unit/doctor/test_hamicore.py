"""What is known to go wrong with versions of HAMi-core, and when the doctor says it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from unit.doctor.judging import judge_changed
from unit.doctor.machinefacts import HEALTHY, SETTINGS

from gpuloom.doctor.checks import UnseenError
from gpuloom.doctor.findings import Severity
from gpuloom.doctor.machine.facts import Library
from gpuloom.doctor.machine.hamicore import judge_known_faults, parse_version, read_known_faults

PAGE = (Path(__file__).parents[3] / "docs" / "doctor.md").read_text()


def judge(version: str, driver: str = "570.86.10") -> set[str]:
    """Return the names of the faults that are told of a version."""
    library = Library(f"/usr/local/vgpu/libvgpu.so.{version}", exists=True, kind="x86_64")
    problems = judge_changed(HEALTHY, judge_known_faults, library=library, kernel_driver=driver)
    return {
        fault.name for fault in read_known_faults() for problem in problems if problem.text.startswith(fault.effect)
    }


@pytest.mark.parametrize("fault", read_known_faults(), ids=lambda fault: fault.name)
def test_a_fault_is_told_of_its_first_version_and_not_of_the_one_that_mends_it(fault):
    assert fault.name in judge(fault.since or "2.4.0")
    assert not fault.before or fault.name not in judge(fault.before)


@pytest.mark.parametrize(("driver", "expected"), [("550.54.15", False), ("570.86.10", True), ("", True)])
def test_a_fault_of_newer_drivers_is_told_where_one_may_be_there(driver, expected):
    assert ("cuda-12.8" in judge("2.5.0", driver)) is expected


def test_versions_are_compared_by_number():
    assert "nccl-crash" in judge("v2.8.1")
    assert "nccl-crash" not in judge("2.10.0")


def test_what_a_newer_version_mends_is_a_warning_and_the_rest_is_a_note():
    library = Library("/usr/local/vgpu/libvgpu.so.2.8.0", exists=True, kind="x86_64")
    problems = judge_changed(HEALTHY, judge_known_faults, library=library)
    told = {problem.severity for problem in problems if "or newer" in problem.remedy}
    assert told == {Severity.WARNING}
    assert {problem.severity for problem in problems} == {Severity.WARNING, Severity.NOTE}


@pytest.mark.parametrize("name", ["libvgpu.so", "libvgpu.so.latest"])
def test_a_library_without_a_version_in_its_name_is_not_judged(name):
    library = Library(f"/usr/local/vgpu/{name}", exists=True, kind="x86_64")
    with pytest.raises(UnseenError, match="does not tell the version"):
        judge_changed(HEALTHY, judge_known_faults, library=library)


def test_divided_cards_do_without_the_library():
    with pytest.raises(UnseenError, match="HAMi-core is not used"):
        judge_changed(HEALTHY, judge_known_faults, settings=replace(SETTINGS, mode="mig"))


def test_every_fault_ends_after_it_began():
    assert all(
        not each.before or parse_version(each.since) < parse_version(each.before) for each in read_known_faults()
    )


def test_the_page_has_the_same_faults_in_the_same_words():
    section = PAGE.partition("### Known faults of HAMi-core")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([\w.-]+) \| (.+) \| (.+) \| (.+) \| (.+) \| (.+) \|$", section, re.MULTILINE)
    assert rows[1:] == [
        (each.name, each.since or "-", each.before or "-", each.effect, each.remedy, each.source)
        for each in read_known_faults()
    ]
