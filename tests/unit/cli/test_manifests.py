"""A file that cannot be read ends in one line that names it, whatever is in it."""

from pathlib import Path

import pytest

from gpuloom.cli.asking.manifests import read_manifests
from gpuloom.cli.outcomes import CommandError

POD = "kind: Pod\nspec: {containers: [{name: main}]}\n"


def read(tmp_path: Path, text: str) -> str:
    path = tmp_path / "pod.yaml"
    path.write_text(text)
    with pytest.raises(CommandError) as refused:
        read_manifests(str(path))
    return str(refused.value)


@pytest.mark.parametrize(
    "value",
    [
        "!!int x",
        "!!bool x",
        "!!timestamp x",
        "2026-02-31",
        '"\\U00110000"',
        "9" * 5000,
        "[" * 5000,
        "{null: 1}",
        "&a [*a]",
    ],
    ids=lambda value: value[:20],
)
def test_a_value_that_yaml_cannot_make_is_told(tmp_path: Path, value: str) -> None:
    assert str(tmp_path / "pod.yaml") in read(tmp_path, f"{POD}metadata:\n  labels: {value}\n")


def test_a_number_of_thousands_of_digits_is_told_wherever_it_stands(tmp_path: Path) -> None:
    number = "0x" + "f" * 6000
    for text in (number, f"kind: {number}\n", f"kind: List\nitems: {number}\n", f"{POD}metadata: {{name: {number}}}\n"):
        assert "pod.yaml" in read(tmp_path, text)


def test_a_list_that_holds_no_list_is_told(tmp_path: Path) -> None:
    assert read(tmp_path, "kind: List\nitems: 7\n").endswith("pod.yaml: the items of a List are no list; correct it")


@pytest.mark.parametrize(
    ("counts", "wanted"),
    [
        ("parallelism: 3, completions: 2", 2),
        ("parallelism: 2, completions: 9", 2),
        ("parallelism: 3", 3),
        ("completions: 5", 1),
    ],
)
def test_a_job_never_runs_more_pods_than_have_yet_to_succeed(tmp_path: Path, counts: str, wanted: int) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(f"kind: Job\nspec: {{{counts}, template: {{spec: {{containers: [{{name: main}}]}}}}}}\n")
    assert [one.replicas for one in read_manifests(str(path))] == [wanted]


def test_a_list_of_one_kind_holds_objects_of_that_kind(tmp_path: Path) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text("kind: PodList\nitems: [{metadata: {name: a}}, {kind: Pod, metadata: {name: b}}]\n")
    assert [one.name for one in read_manifests(str(path))] == ["Pod/a", "Pod/b"]
