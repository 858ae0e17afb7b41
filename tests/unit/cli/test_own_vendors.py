"""A user's own profile: whatever stands in its file, the answer is one line that says what is wrong and where."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuloom.cli.commands import run
from gpuloom.cli.outcomes import ExitCode

ROOT = Path(__file__).parents[3]
ACME = (ROOT / "docs" / "examples" / "acme.toml").read_bytes()
COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "scheduler": lambda folder: ["scheduler", "--kubeconfig", str(folder / "none"), "--vendor-dir", str(folder)],
    "vendors": lambda folder: ["vendors", "--vendor-dir", str(folder)],
    "demo": lambda folder: ["demo", "--once", "--vendor-dir", str(folder)],
}


def changed(old: str, new: str) -> bytes:
    assert old.encode() in ACME
    return ACME.replace(old.encode(), new.encode(), 1)


NONSENSE: dict[str, tuple[bytes, str]] = {
    "unknown key": (changed("plugin =", "plugins ="), "unknown key plugins; did you mean plugin?"),
    "unknown key of a table": (
        changed("memory_factor", "memory_facter"),
        "request.memory_facter; did you mean memory_factor?",
    ),
    "unknown key in a list": (changed("nouse =", "nouze ="), "unknown key select.uuids.nouze; did you mean nouse?"),
    "unknown table": (changed("[health]", "[healht]"), "unknown key healht; did you mean health?"),
    "unknown list of tables": (ACME + b"[[chip]]\nword = 'x'\n", "unknown key chip; did you mean chips?"),
    "unknown word": (
        changed('"annotation"', '"anotation"'),
        "unknown word anotation for health.kind; did you mean annotation?",
    ),
    "unknown check": (changed('"slots"', '"slotz"'), "unknown check slotz in fit.checks; did you mean slots?"),
    "check twice": (changed('"uuid", "slots"', '"slots", "slots"'), "fit.checks names slots twice"),
    "no checks": (re.sub(rb"checks = .*", b"checks = []", ACME), "fit.checks is empty"),
    "unknown hook": (
        changed('"recognize"', '"recognise"'),
        "unknown hook recognise in container.mutate; did you mean recognize?",
    ),
    "hook without its reader": (
        changed("[fit]", "[fit]\nneed = 'slices'"),
        "fit.need needs what cards.reader = 'sliced-cards'",
    ),
    "hook without the hook it works with": (
        changed("[write]", "[write]\nannotate = 'slices'"),
        "hook slices in write.annotate needs what fit.need = 'slices' finds out",
    ),
    "check without its flag": (changed('"full"]', '"bits"]'), "fit.bits = true and the check bits belong together"),
    "divided cards without their checks": (
        changed("[write]", "[write]\ninstances = 'acme.example/parts'"),
        "geometry is not in fit.checks",
    ),
    "unknown switch": (
        changed("[fit]", "[fit]\nsame_card = 'metax'"),
        "unknown word metax for fit.same_card; did you mean metax-same-card?",
    ),
    "unknown mark": (
        changed("{indexes}", "{indices}"),
        "unknown mark {indices} in write.extra of acme.example/card-index; did you mean {indexes}?",
    ),
    "unknown field of a configuration": (
        ACME + b"[config]\nsection = 'acme'\n[config.keys]\ncountName = 'resources.cuont'\n",
        "config.keys.countName sets resources.cuont, which it cannot; did you mean resources.count?",
    ),
    "number for text": (changed('word = "Acme"', "word = 7"), "word cannot be used: expected text, got a whole number"),
    "text for a number": (
        changed("= 1024", '= "1024"'),
        "request.memory_factor cannot be used: expected a whole number, got text",
    ),
    "text for a list": (
        changed("checks = [", 'checks = "health" #'),
        "fit.checks cannot be used: expected a list, got text",
    ),
    "truth for a number": (changed("= 1024", "= true"), "expected a whole number, got true or false"),
    "negative number": (
        changed("= 1024", "= -1"),
        "request.memory_factor cannot be used: expected a whole number >= 0",
    ),
    "number beyond 32 bits": (changed("= 1024", "= 99999999999"), "expected a whole number <= 2147483647"),
    "no count": (changed('count = "acme.example/card"', ""), "resources.count is empty"),
    "empty word": (changed('"Acme"', '""'), "word '' cannot stand on the wire"),
    "word with a separator": (changed('"Acme"', '"Ac,me"'), "word 'Ac,me' cannot stand on the wire"),
    "name that is none": (
        changed("acme.example/card", "Acme card"),
        "resources.count 'Acme card' is no name that Kubernetes takes",
    ),
    "every annotation": (
        changed("[write]", "[write]\nowned_prefixes = ['']"),
        "write.owned_prefixes '' is no annotation up to its number, such as example.com/card-",
    ),
    "two meanings": (
        changed("acme.example/to-allocate", "acme.example/allocated"),
        "write.allocated and write.to_allocate are both",
    ),
    "resource of another": (
        changed("acme.example/memory", "nvidia.com/gpumem"),
        "nvidia.com/gpumem is used by both Acme and NVIDIA",
    ),
    "pod annotation of another": (
        changed('"acme.example/allocated"', '"hami.io/dcu-devices-allocated"'),
        "used by both Acme and DCU",
    ),
    "node annotation of another": (
        changed("acme.example/register", "hami.io/node-handshake"),
        "used by both Acme and NVIDIA",
    ),
    "further annotation of another": (
        changed("acme.example/card-index", "mthreads.com/gpu-index"),
        "used by both Acme and Mthreads",
    ),
    "chosen by what another writes": (
        changed("acme.example/use-card", "hami.io/kunlun-allocated"),
        "used by both Acme and kunlun",
    ),
    "all annotations of another that begin so": (
        changed("[write]", "[write]\nowned_prefixes = ['nvidia.com/use-']"),
        "nvidia.com/use-gpuuuid of NVIDIA begins as write.owned_prefixes nvidia.com/use- of Acme",
    ),
    "annotation of gpuloom": (
        changed("acme.example/card-index", "hami.io/bind-phase"),
        "used by both gpuloom itself and Acme",
    ),
    "the lock as register": (
        changed("acme.example/register", "hami.io/mutex.lock"),
        "used by both gpuloom itself and Acme",
    ),
    "word twice": (ACME + b"[[chips]]\nword = 'x'\n[[chips]]\nword = 'x'\n", "word x is used twice"),
    "chips that are a table": (ACME + b"[chips]\nword = 'x'\n", "chips must be written as [[chips]] tables"),
    "no chips": (b"chips = []\n" + ACME, "chips must be written as [[chips]] tables"),
    "broken TOML": (changed("[fit]", "[fit"), "not a TOML file"),
    "key twice": (changed("name =", "name = 'a'\nname ="), "not a TOML file"),
    "empty file": (b"", "word is missing"),
    "part missing": (changed("checks =", "#"), "fit.checks is missing"),
    "JSON": (b'{"word": "Acme"}', "not a TOML file"),
    "binary": (bytes(range(256)), "not a TOML file"),
    "another encoding": (ACME.decode().encode("utf-16"), "not a TOML file"),
    "endless number": (b"word = " + b"9" * 10_000, "not a TOML file"),
    "nested too deeply": (b"word = " + b"[" * 10_000, "nested too deeply"),
    "nested too deeply by dots": (
        changed("[write.extra]", "[write.extra." + ".".join("a" * 9_000) + "]"),
        "nested too deeply",
    ),
    "huge": (ACME + b"# more\n" * 1_000_000, "larger than 64 KiB"),
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_nonsense_is_one_line_with_the_file_and_what_is_wrong(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, problem = NONSENSE[kind]
    file = tmp_path / "own.toml"
    file.write_bytes(content)
    assert run(["vendors", "check", str(file)]) == ExitCode.NO
    said = capsys.readouterr().out
    assert said.startswith(f"{file}: ")
    assert problem in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_with_one_broken_profile_is_one_line_and_nothing_starts(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.toml").write_bytes(ACME)
    (tmp_path / "b.toml").write_bytes(changed('"slots"', '"slotz"'))
    assert run(COMMANDS[command](tmp_path)) == ExitCode.NO
    said = capsys.readouterr().err
    assert f"{tmp_path / 'b.toml'}: unknown check slotz" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_a_profile_that_cannot_be_read_is_never_left_out_silently(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.toml").write_bytes(ACME)
    (tmp_path / "b.toml").symlink_to(tmp_path / "gone")
    assert run(COMMANDS[command](tmp_path)) == ExitCode.USAGE
    assert capsys.readouterr().err == f"gpuloom: --vendor-dir {tmp_path / 'b.toml'}: No such file or directory\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_clash_names_the_file_that_brought_it(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.toml").write_bytes(changed("acme.example/card", "nvidia.com/gpu"))
    assert run(COMMANDS[command](tmp_path)) == ExitCode.NO
    said = capsys.readouterr().err
    assert said.startswith(f"gpuloom: {tmp_path / 'a.toml'}: resource nvidia.com/gpu is used by both Acme and NVIDIA")


def test_two_files_with_one_word_are_both_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.toml", "b.toml"):
        (tmp_path / name).write_bytes(ACME)
    assert run(COMMANDS["vendors"](tmp_path)) == ExitCode.NO
    said = capsys.readouterr().err
    assert f"{tmp_path / 'a.toml'} and {tmp_path / 'b.toml'}: word Acme is used twice" in said


def test_a_folder_that_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(COMMANDS["vendors"](tmp_path / "none")) == ExitCode.USAGE
    assert "there is no such folder" in capsys.readouterr().err


def test_other_files_of_a_folder_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.toml").write_bytes(ACME)
    (tmp_path / "README.md").write_bytes(b"\xff")
    assert run(COMMANDS["vendors"](tmp_path)) == ExitCode.YES
    assert "Acme" in capsys.readouterr().out
