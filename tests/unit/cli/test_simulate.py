import csv
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from gpuloom.cli.commands import run
from gpuloom.cli.outcomes import ExitCode
from gpuloom.simulation.bound import has_solver

NODES = """\
- {name: big, cpu_milli: 96000, memory_mib: 393216, gpu: 8, model: G2, count: 4}
- {name: small, cpu_milli: 64000, memory_mib: 262144, gpu: 2, model: T4, count: 3}
"""
PODS = """\
- {name: half, cpu_milli: 4000, memory_mib: 8192, num_gpu: 1, gpu_milli: 500, count: 20}
- {name: whole, cpu_milli: 8000, memory_mib: 8192, num_gpu: 1, gpu_milli: 1000, count: 10}
- {name: four, cpu_milli: 16000, memory_mib: 8192, num_gpu: 4, gpu_milli: 1000, gpu_spec: G2, count: 2}
- {name: web, cpu_milli: 2000, memory_mib: 4096, num_gpu: 0, gpu_milli: 0, count: 5}
"""
needs_solver = pytest.mark.skipif(not has_solver(), reason="SciPy is missing")


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "nodes.yaml").write_text(NODES)
    (tmp_path / "pods.yaml").write_text(PODS)
    return ["--nodes", str(tmp_path / "nodes.yaml"), "--pods", str(tmp_path / "pods.yaml")]


def simulate(files: list[str], *more: str) -> ExitCode:
    # One process: what is tested is the command, and processes take a second to start.
    return run(["simulate", *files, "--processes", "1", *more])


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


@pytest.mark.slow
def test_json_tells_runs_and_means(files, capsys):
    assert (
        simulate(files, "--policy", "binpack,FGD", "--seeds", "1-3", "--mode", "B", "--output", "json") == ExitCode.YES
    )
    answer = json.loads(told(capsys))
    assert [(one["policy"], one["mode"], one["seed"]) for one in answer["runs"]] == [
        (policy, "B", seed) for policy in ("binpack", "FGD") for seed in (1, 2, 3)
    ]
    assert answer["runs"][0].keys() == {
        *("policy", "mode", "seed", "A95", "A100", "A130", "U100", "bound_A100"),
        *("failed_cpu_only", "failed_multi_gpu", "decision_ms"),
    }
    assert [(one["policy"], one["seeds"]) for one in answer["mean"]] == [("binpack", 3), ("FGD", 3)]


def test_means_and_deviations_are_those_of_the_runs(files, capsys):
    simulate(files, "--policy", "Random", "--seeds", "1-2", "--output", "json", "--no-bound")
    answer = json.loads(told(capsys))
    first, second = (one["A100"] for one in answer["runs"])
    spread = answer["mean"][0]["A100"]
    assert spread["mean"] == pytest.approx((first + second) / 2, abs=0.006)
    assert spread["sd"] == pytest.approx(abs(first - second) / 2**0.5, abs=0.006)


def test_idle_gpus_follow_from_the_ratio(files, capsys):
    simulate(files, "--policy", "BestFit", "--seeds", "1", "--output", "json", "--no-bound")
    one = json.loads(told(capsys))["runs"][0]
    assert one["U100"] == pytest.approx(38 * (100 - one["A100"]) / 100, abs=0.006)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_the_same_flags_give_the_same_bytes_whatever_the_number_of_processes(files, tmp_path, capsys, form):
    answers = []
    for number, processes in enumerate(("1", "2")):
        plot = tmp_path / f"{number}.svg"
        flags = ("--policy", "binpack,Random", "--seeds", "3,1", "--mode", "B", "--output", form, "--plot", str(plot))
        assert run(["simulate", *files, *flags, "--processes", processes]) == ExitCode.YES
        answers.append((told(capsys), plot.read_bytes()))
    assert answers[0] == answers[1]


def test_times_are_told_only_where_they_are_asked_for(files, capsys):
    simulate(files, "--policy", "BestFit", "--seeds", "1", "--output", "json")
    assert json.loads(told(capsys))["runs"][0]["decision_ms"] == {"mean": None, "p99": None}
    simulate(files, "--policy", "BestFit", "--seeds", "1", "--output", "json", "--times")
    times = json.loads(told(capsys))["runs"][0]["decision_ms"]
    assert 0 < times["mean"] <= times["p99"]


def test_csv_has_a_line_a_run(files, capsys):
    simulate(files, "--policy", "BestFit", "--seeds", "5-6", "--output", "csv")
    rows = list(csv.DictReader(told(capsys).splitlines()))
    assert [(row["policy"], row["seed"]) for row in rows] == [("BestFit", "5"), ("BestFit", "6")]
    assert rows[0].keys() >= {"A95", "A100", "A130", "U100", "failed_cpu_only", "failed_multi_gpu"}


def test_the_table_has_a_line_a_policy(files, capsys):
    simulate(files, "--policy", "bestfit,random", "--seeds", "1-2", "--no-bound")
    lines = told(capsys).splitlines()
    assert [line.split()[0] for line in lines] == ["POLICY", "BestFit", "Random"]


@needs_solver
def test_results_stand_beside_what_no_policy_can_beat(files, capsys):
    simulate(files, "--policy", "BestFit,Random", "--seeds", "1-2", "--output", "json", "--bound")
    assert all(one["A95"] <= one["bound_A100"] <= 100 for one in json.loads(told(capsys))["runs"])


def test_a_picture_has_a_line_a_policy(files, tmp_path, capsys):
    plot = tmp_path / "plot.svg"
    simulate(files, "--policy", "BestFit,Random", "--seeds", "1", "--plot", str(plot))
    lines = ET.fromstring(plot.read_text()).findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2
    assert told(capsys)


@pytest.mark.parametrize(
    ("flags", "gpus"), [((), 38), (("--add-nodes", "G2:8x2"), 54), (("--remove-nodes", "T4:2x2"), 34)]
)
def test_nodes_are_added_and_removed(files, capsys, flags, gpus):
    simulate(files, "--policy", "Random", "--seeds", "2", "--output", "json", "--no-bound", *flags)
    one = json.loads(told(capsys))["runs"][0]
    assert round(one["U100"] / (1 - one["A100"] / 100)) == gpus


def test_typical_pods_may_come_from_another_file(files, tmp_path, capsys):
    (tmp_path / "typical.yaml").write_text("- {name: t, cpu_milli: 1, memory_mib: 1, num_gpu: 1, gpu_milli: 300}\n")
    flags = ("--policy", "FGD", "--seeds", "1", "--output", "csv", "--no-bound")
    simulate(files, *flags)
    simulate(files, *flags, "--workload", str(tmp_path / "typical.yaml"))
    assert told(capsys).count("FGD") == 2


BAD_FLAGS = {
    "a range runs backwards": (("--seeds", "110-101"), "110-101 runs backwards: expected 101-110"),
    "a seed is no number": (("--seeds", "1-x"), "expected numbers and ranges"),
    "a policy is unknown": (("--policy", "best"), "unknown policy 'best': expected one of"),
    "a mode is unknown": (("--mode", "D"), "--mode"),
    "nodes to add cannot be read": (("--add-nodes", "a100:8"), "expected MODEL:GPUSxNODES"),
    "there are fewer nodes to remove": (("--remove-nodes", "G2:8x9"), "there are 4 such nodes to remove"),
    "no GPU would be left": (("--remove-nodes", "G2:8x4,T4:2x3"), "no GPU would be left"),
    "no pod would be left": (("--scale-pods", "0.001"), "leaves no pod"),
    "nodes are avoided in a mode without kube-scheduler": (("--cpu-pods-avoid", "L4:8"), "expected --mode B"),
    "a picture has another form": (("--plot", "plot.png"), "plot.png: expected a name that ends in .svg"),
    "a factor is negative": (("--scale-pods", "-1"), "--scale-pods"),
    "nodes are missing": (("--nodes", "none.csv"), "none.csv: No such file"),
    "the folder of the picture is missing": (("--plot", "none/plot.svg"), "none/plot.svg: it cannot be written"),
}


@pytest.mark.parametrize(("flags", "said"), BAD_FLAGS.values(), ids=BAD_FLAGS)
def test_bad_flags_are_told_in_one_line_and_nothing_is_written(files, tmp_path, capsys, monkeypatch, flags, said):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    given = dict(zip(files[::2], files[1::2], strict=True)) | {"--policy": "BestFit", "--plot": "plot.svg"}
    given |= dict([flags])
    assert run(["simulate", *(word for pair in given.items() for word in pair)]) == ExitCode.USAGE
    answer = capsys.readouterr()
    assert (answer.out, answer.err.count("\n")) == ("", 1)
    assert said in answer.err
    assert sorted(tmp_path.iterdir()) == before


def test_a_workload_without_pods_is_told_with_its_file(files, tmp_path, capsys):
    (tmp_path / "none.yaml").write_text("[]\n")
    assert simulate(files, "--policy", "FGD", "--workload", str(tmp_path / "none.yaml")) == ExitCode.USAGE
    assert "none.yaml:1: it has no rows: expected at least one with name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (
            "{name: third, cpu_milli: 1000, memory_mib: 1024, num_gpu: 1, gpu_milli: 333}",
            (
                "pod third asks for 333 milli of a GPU: expected a multiple of 10, because binpack takes whole per "
                "cents as pods of a cluster ask for them"
            ),
        ),
        (
            "{name: web, cpu_milli: 1000, memory_mib: 1024, num_gpu: 0, gpu_milli: 0}",
            "no pod asks for a GPU: expected at least one with num_gpu of 1 or more",
        ),
    ],
)
def test_pods_that_cannot_be_simulated_are_told_with_their_file(files, tmp_path, capsys, pod, said):
    (tmp_path / "pods.yaml").write_text(f"- {pod}\n")
    assert simulate(files, "--policy", "FGD,binpack") is ExitCode.USAGE
    assert capsys.readouterr().err == f"gpuloom: {tmp_path / 'pods.yaml'}: {said}\n"


def test_published_policies_take_shares_that_are_no_whole_per_cents(files, tmp_path):
    (tmp_path / "pods.yaml").write_text(PODS.replace("500", "333"))
    assert simulate(files, "--policy", "FGD") is ExitCode.YES


def test_a_pod_that_can_never_be_placed_is_told_and_fails(files, tmp_path, capsys):
    with (tmp_path / "pods.yaml").open("a") as file:
        file.write("- {name: odd, cpu_milli: 4000, memory_mib: 8192, num_gpu: 4, gpu_milli: 1000, gpu_spec: T4}\n")
    assert simulate(files, "--policy", "BestFit", "--seeds", "1", "--output", "csv") == ExitCode.YES
    assert "pods.yaml:5: pod odd fits no node" in capsys.readouterr().err


def test_nodes_to_avoid_that_are_not_there_are_told_with_the_file(files, capsys):
    assert simulate(files, "--policy", "FGD", "--mode", "B", "--cpu-pods-avoid", "L4:8") == ExitCode.USAGE
    assert "'L4:8': " in (said := capsys.readouterr().err)
    assert "nodes.yaml has no such node: expected kinds of nodes, of G2:8, T4:2" in said
