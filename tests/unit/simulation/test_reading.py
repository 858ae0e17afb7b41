import gzip
import lzma
import re

import pytest

from gpuloom.simulation.errors import SimulationError
from gpuloom.simulation.pods import TracePod, TraceShape
from gpuloom.simulation.reading.traces import read_nodes, read_pods, read_pods_for

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,P100\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np1,4000,1024,1,500,P100\n"


@pytest.fixture
def write(tmp_path):
    def write(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


def test_pods_are_read_from_csv(write):
    assert read_pods(write("p.csv", PODS)) == (TracePod("p1", TraceShape(4000, 1024, 1, 500, "P100")),)


def test_a_list_without_models_accepts_all(write):
    file = write("p.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np1,4000,1024,1,500\n")
    assert read_pods(file)[0].shape.spec == ""


def test_pods_without_gpus_have_no_share_whatever_is_written(write):
    file = write("p.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np1,4000,1024,0,1000\n")
    assert read_pods(file)[0].shape.milli == 0


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_files_may_be_compressed(write, suffix, pack):
    assert len(read_nodes(write(f"n.csv{suffix}", pack(NODES.encode())))) == 1


def test_nodes_are_read_from_yaml_and_may_be_several(write):
    file = write("n.yaml", "- {name: a, cpu_milli: 1000, memory_mib: 1024, gpu: 4, model: L4, count: 3}\n")
    assert [node.name for node in read_nodes(file)] == ["a-1", "a-2", "a-3"]


def test_pods_are_read_from_yaml(write):
    file = write("p.yml", "- name: p1\n  cpu_milli: 4000\n  memory_mib: 1024\n  num_gpu: 1\n  gpu_milli: 500\n")
    assert read_pods(file) == (TracePod("p1", TraceShape(4000, 1024, 1, 500, "")),)


BAD_PODS = {
    "a column is missing": (
        "p.csv",
        "name,cpu_milli\np1,1\n",
        r"p\.csv:1: column memory_mib is missing: expected name",
    ),
    "a number is none": ("p.csv", PODS.replace("4000", "4k"), r"p\.csv:2: cpu_milli is '4k': expected a whole number"),
    "a number is infinite": ("p.csv", PODS.replace("4000", "inf"), r"p\.csv:2: cpu_milli is 'inf'"),
    "a number is negative": ("p.csv", PODS.replace("4000", "-1"), r"p\.csv:2: cpu_milli is '-1': .*from 0 to"),
    "a share is too large": ("p.csv", PODS.replace("500", "1001"), r"gpu_milli is '1001': .*from 1 to 1000"),
    "a field is empty": ("p.csv", PODS.replace("p1", ""), r"p\.csv:2: name is empty"),
    "a field is missing": ("p.csv", PODS + "p2,1\n", r"p\.csv:3: it has 2 fields: expected 6"),
    "there are no pods": (
        "p.csv",
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n",
        r"p\.csv:1: it has no rows: expected",
    ),
    "the file is empty": ("p.csv", "", r"p\.csv:1: column name is missing"),
    "a quote is open": ("p.csv", PODS + 'p2,"1\n', r"p\.csv: unexpected end of data: expected comma-separated"),
    "it is no text": ("p.csv", b"name\n\xff", r"p\.csv:2: expected text in UTF-8"),
    "it is not compressed": ("p.csv.xz", PODS, r"p\.csv\.xz: .*: expected a readable file"),
    "it is cut off": ("p.csv.gz", gzip.compress(PODS.encode())[:30], r"p\.csv\.gz: .*: expected a readable file"),
    "the form is unknown": ("p.txt", PODS, r"p\.txt: expected a name that ends in \.csv"),
    "YAML is broken": ("p.yaml", "- name: [", r"p\.yaml:\d: .*: expected a list in YAML"),
    "YAML is no list": ("p.yaml", "name: p1\n", r"p\.yaml:1: expected a list of items with name"),
    "an item is no mapping": ("p.yaml", "- {name: p}\n- 5\n", r"p\.yaml:1: cpu_milli is missing"),
    "a value is a list": ("p.yaml", "- name: p\n  cpu_milli: [1]\n", r"p\.yaml:2: expected a word and its value"),
    "YAML is empty": ("p.yaml", "", r"p\.yaml:1: it has no rows"),
}


@pytest.mark.parametrize(("name", "content", "said"), BAD_PODS.values(), ids=BAD_PODS)
def test_bad_input_is_told_in_one_line_with_its_place(write, name, content, said):
    with pytest.raises(SimulationError, match=said) as raised:
        read_pods(write(name, content))
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SimulationError, match=r"none\.csv: No such file or directory: expected a readable file"):
        read_nodes(str(tmp_path / "none.csv"))


def test_two_nodes_of_one_name_are_refused(write):
    with pytest.raises(SimulationError, match=r"n\.csv:3: there is another node n1"):
        read_nodes(write("n.csv", NODES + "n1,1,1,1,P100\n"))


def test_nodes_without_a_column_of_names_are_refused(write):
    with pytest.raises(SimulationError, match=r"n\.csv:2: the node has no name: expected sn or name"):
        read_nodes(write("n.csv", NODES.replace("sn,", "node,")))


def test_nodes_without_any_gpu_are_refused(write):
    with pytest.raises(SimulationError, match=r"n\.csv: no node has a GPU"):
        read_nodes(write("n.csv", NODES.replace(",2,P100", ",0,")))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("4000", "64001", "cpu_milli is 64001: expected at most 64000"),
        ("1024", "262145", "memory_mib is 262145: expected at most 262144"),
        ("1,500", "3,1000", "num_gpu is 3: expected at most 2"),
        ("P100\n", "T4\n", "gpu_spec is 'T4': expected some of P100"),
    ],
)
def test_a_pod_that_asks_for_more_than_any_node_has_is_refused(write, old, new, said):
    nodes = read_nodes(write("n.csv", NODES))
    with pytest.raises(SimulationError, match=rf"p\.csv:2: pod p1 fits no node: {said}"):
        read_pods_for(write("p.csv", PODS.replace(old, new)), nodes)


def test_a_pod_whose_wishes_no_node_meets_together_is_noted(write):
    nodes = read_nodes(write("n.csv", NODES + "n2,1000,262144,8,T4\n"))
    pods, note = read_pods_for(write("p.csv", PODS + "p2,4000,1,4,1000,\np3,4000,1,4,1000,\n"), nodes)
    assert len(pods) == 3
    assert re.search(r"p\.csv:3: pod p2 \(and 1 more\) fits no node, however empty", note)


def test_nothing_is_noted_where_all_pods_fit(write):
    assert read_pods_for(write("p.csv", PODS), read_nodes(write("n.csv", NODES))).note == ""
