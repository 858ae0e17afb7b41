"""What `gpuloom vendors` prints."""

from pathlib import Path

import msgspec
import pytest

from gpuloom.cli.commands import run
from gpuloom.cli.outcomes import ExitCode
from gpuloom.vendors.catalog import load_shipped
from gpuloom.vendors.overview import FamilyView, write_table

ROOT = Path(__file__).parents[3]
ACME = ROOT / "docs" / "examples" / "acme.toml"


def list_words(tokens: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    run(["vendors", "--json", *tokens])
    views = msgspec.json.decode(capsys.readouterr().out, type=list[FamilyView])
    return [view.word for view in views]


def test_the_default_families_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    words = list_words([], capsys)
    assert words == sorted(words)
    assert {"NVIDIA", "MLU", "DCU", "Metax-SGPU"} <= set(words)
    assert [word for word in words if word.startswith("Ascend")] == []


def test_all_has_those_that_flags_switch_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert {"Ascend910B3", "Ascend310P", "MR-V100", "BI-V150"} <= set(list_words(["--all"], capsys))


def test_a_folder_of_profiles_is_served_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Acme" in list_words(["--vendor-dir", str(ACME.parent)], capsys)


def test_a_device_configuration_says_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "device-config.yaml"
    file.write_text("cambricon: {resourceCountName: my.org/mlu}\n")
    assert list_words(["--device-config-file", str(file)], capsys) == ["MLU"]
    run(["vendors", "--device-config-file", str(file)])
    assert "my.org/mlu" in capsys.readouterr().out


def test_the_page_has_the_table_of_the_profiles(capsys: pytest.CaptureFixture[str]) -> None:
    table = write_table(profile for family in load_shipped() for profile in family.profiles)
    run(["vendors", "--markdown"])
    assert capsys.readouterr().out == table
    page = (ROOT / "docs" / "vendors.md").read_text(encoding="utf-8")
    assert table in page, "put what `gpuloom vendors --markdown` prints into docs/vendors.md"


def test_the_own_vendor_page_shows_the_check_of_its_example(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert run(["vendors", "check", "docs/examples/acme.toml"]) == ExitCode.YES
    page = (ROOT / "docs" / "own-vendor.md").read_text(encoding="utf-8")
    assert f"$ gpuloom vendors check docs/examples/acme.toml\n{capsys.readouterr().out}```" in page


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"slots"', '"slotz"', "unknown check slotz in fit.checks; did you mean slots?"),
        ("memory_factor", "memory_facter", "memory_factor?"),
        ('mutate = "recognize"', 'mutate = "recognise"', "recognize?"),
        ('"acme.example/card"', '"nvidia.com/gpu"', "nvidia.com/gpu"),
    ],
)
def test_what_is_wrong_is_named(
    old: str, new: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "acme.toml"
    file.write_text(ACME.read_text().replace(old, new))
    assert run(["vendors", "check", str(file)]) == ExitCode.NO
    said = capsys.readouterr().out
    assert said.startswith(str(file))
    assert message in said


def test_a_file_that_is_not_there_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["vendors", "check", "/nowhere.toml"]) == ExitCode.USAGE
    assert "/nowhere.toml" in capsys.readouterr().err
