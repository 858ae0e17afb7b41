"""One name means one class, each folder of the scheduler says what it is for, and the glossary is sorted."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "gpuloom"
SCHEDULER = PACKAGE / "scheduler"
FOLDERS = sorted({path.parent for path in SCHEDULER.rglob("*.py")})
PARTS = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split("\n## ")[1:]

SHARED = {
    "Api": "the dashboard's routes and the local API server's",
    "Ask": "a call of NVIDIA's library, and what an explanation asks",
    "CardUse": "what happens on a card, and what the command line shows of it",
    "Check": "a check of the doctor, and what an explanation says of one rule",
    "Cluster": "the state of one vendor's cards, and a cluster of a kubeconfig file",
    "Container": "a container as Kubernetes has it, and what placement knows of one",
    "CrowdedError": "too many sessions, too many streams, too many large bodies",
    "Extender": "an extender in kube-scheduler's configuration, and the local queue's client of one",
    "Family": "a family of metrics, a file of profiles, and a family's rules",
    "Fault": "a fault of a simulated card, of the local API server, and whose part has to change",
    "Finding": "what the doctor finds, and what the node's audit finds",
    "Installation": "what the doctor collects, and what the command line asks",
    "Kind": "a kind of resource, of mismatch, and of trial",
    "Pace": "a budget of calls, and of work on the event loop",
    "Page": "of a list, of the local API server's records, and of the dashboard",
    "Picture": "what an explanation shows, and what the demo shows",
    "Place": "a card on its node, and where a pod stands in the local queue",
    "Placement": "where a MIG instance lies on its card, in NVIDIA's word, and where a pod's cards lie",
    "Request": "what a container asks of cards, and an HTTP request",
    "Rule": "what a webhook is asked about, and a rule about cards",
    "Scene": "what an explanation is about, and a step of the demo's story",
    "Selection": "which cards a pod accepts, and which objects a list is about, for client and server",
    "ServerError": "a server that cannot start, and a reply of the API server",
    "Snapshot": "the cards at a decision, and the values of one scrape",
    "Terms": "what a vendor's hook is asked, and what a walk over a node's cards depends on",
    "UnreadableError": "a body, and an answer of the API server",
    "User": "of a token, and of a kubeconfig file",
    "Verdict": "of a review, and of the node's feedback",
}
"""Names of several public classes, and what each of these is; none of them is of the scheduler."""

LEAST_LINES, MOST_LINES = 3, 14
"""Of the docstring of a folder; the scheduler's own has a line for each folder besides."""


def list_public_classes() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        if path.stem.endswith(("_pb2", "_pb2_grpc")):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(str(path.relative_to(PACKAGE)))
    return found


def test_no_two_public_classes_have_one_name() -> None:
    shared = {name: sorted(paths) for name, paths in list_public_classes().items() if len(paths) > 1}
    assert {name: paths for name, paths in shared.items() if name not in SHARED} == {}
    assert [path for paths in shared.values() for path in paths if path.startswith("scheduler/")] == []
    assert sorted(SHARED.keys() - shared.keys()) == [], "no longer shared: take it from the list"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_folder_of_the_scheduler_says_what_it_is_for(folder: Path) -> None:
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    assert docstring is not None
    assert LEAST_LINES <= len(docstring.splitlines()) <= MOST_LINES + (len(FOLDERS) if folder == SCHEDULER else 0)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.split()[0])
def test_the_glossary_is_sorted_and_says_one_sentence_of_each_word(part: str) -> None:
    rows = re.findall(r"^\| (?!Word \||---)(.+?) \| (.+) \|$", part, re.MULTILINE)
    words = [word.casefold() for word, _ in rows]
    assert words == sorted(set(words))
    assert [word for word, meaning in rows if not re.fullmatch(r"[^.]+(\.\w[^.]*)*\.", meaning)] == []
