"""How checks become findings."""

from collections.abc import Iterator
from dataclasses import replace

from gpuloom.doctor.checks import Check, Unseen, require, run_checks, sort_findings
from gpuloom.doctor.findings import Fault, Finding, Problem, Severity

PROBLEM = Problem("card 0", "is lost", Fault.MACHINE, "restart the node")


def complain(_: object) -> Iterator[Problem]:
    yield PROBLEM


def look_away(_: object) -> Iterator[Problem]:
    require(Unseen("no rights"))
    yield PROBLEM


def test_a_problem_becomes_a_finding_with_everything_that_it_says() -> None:
    assert run_checks([Check("cards", "", "fine", complain)], None, "node n1") == [
        Finding("cards", Severity.ERROR, "card 0", "is lost", "machine", "restart the node")
    ]


def test_no_problem_is_told_as_such() -> None:
    assert run_checks([Check("cards", "", "fine", lambda _: ())], None, "node n1") == [
        Finding("cards", Severity.OK, "node n1", "fine")
    ]


def test_a_fact_that_could_not_be_collected_skips_the_check_with_the_reason() -> None:
    assert run_checks([Check("cards", "", "fine", look_away)], None, "node n1") == [
        Finding("cards", Severity.SKIPPED, "node n1", "no rights")
    ]


def test_what_a_judgement_found_before_it_could_not_look_on_is_kept() -> None:
    def complain_and_look_away(_: object) -> Iterator[Problem]:
        yield PROBLEM
        require(Unseen("no rights"))

    findings = run_checks([Check("cards", "", "fine", complain_and_look_away)], None, "node n1")
    assert [finding.severity for finding in findings] == [Severity.ERROR, Severity.SKIPPED]


def test_what_others_wrote_is_one_line_that_no_terminal_obeys() -> None:
    def quote(_: object) -> Iterator[Problem]:
        yield replace(PROBLEM, text="\x1b[31mred\nand " + "long " * 1000)

    (finding,) = run_checks([Check("cards", "", "fine", quote)], None, "node n1")
    assert finding.text.startswith("?[31mred and long long")
    assert len(finding.text) == 1000


def test_bad_things_come_first_and_the_order_of_checks_stays() -> None:
    findings = [Finding(name, severity, "", "") for name, severity in zip("abcde", reversed(Severity), strict=True)]
    assert [finding.check for finding in sort_findings([*findings, *findings])] == list("eeddccbbaa")
