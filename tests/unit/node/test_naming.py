"""Whose names a text about pods may hold."""

from gpuloom.node.knownpods import KnownPod
from gpuloom.node.naming import Names, phrase

WHERE = " (the log of the node's device plugin names every pod)"


def pod(namespace: str, name: str) -> KnownPod:
    return KnownPod(namespace, name, {})


def test_a_text_without_hidden_names_is_told_as_it_is() -> None:
    full, told = phrase(lambda names: names.one(pod("a", "x")), [pod("a", "y")])
    assert full == told == "pod a/x"


def test_a_text_with_a_hidden_name_says_where_it_stands() -> None:
    full, told = phrase(lambda names: names.one(pod("b", "x")), [pod("a", "y")])
    assert (full, told) == ("pod b/x", f"a pod of another namespace{WHERE}")


def test_where_readers_are_of_several_namespaces_nobody_is_named() -> None:
    _, told = phrase(lambda names: names.one(pod("a", "x")), [pod("a", "y"), pod("b", "y")])
    assert told == f"a pod of a namespace that is not told{WHERE}"


def test_where_no_reader_is_known_nobody_is_named() -> None:
    _, told = phrase(lambda names: names.all([pod("a", "x"), pod("a", "y")]), [])
    assert told == f"2 pods of namespaces that are not told{WHERE}"


def test_the_log_names_all_and_whoever_is_told_five() -> None:
    pods = [pod("a", f"x{number}") for number in range(8)]
    assert Names(None).all(pods) == ", ".join(f"a/x{number}" for number in range(8))
    assert Names({"a"}).all(pods) == "a/x0, a/x1, a/x2, a/x3, a/x4 and 3 more"
