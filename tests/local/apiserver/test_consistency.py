"""What a client may conclude: a list and the events after it are as good as the list of now."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpuloom.local.apiserver.kinds import KINDS, PODS
from gpuloom.local.apiserver.selectors import Selection, parse_selection
from gpuloom.local.apiserver.store import Record, Store
from gpuloom.local.apiserver.watches import Watchers

NAMES = st.sampled_from("abc")
STATES = st.fixed_dictionaries({"label": st.sampled_from("xy"), "node": st.sampled_from(["", "n1", "n2"])})
WRITES = st.lists(st.tuples(NAMES, STATES | st.none()), max_size=30)
SELECTIONS = st.sampled_from(
    [
        Selection(),
        parse_selection(PODS, namespace="ns", label_selector="label=x", field_selector=""),
        parse_selection(PODS, namespace="", label_selector="", field_selector="spec.nodeName=n1"),
        parse_selection(PODS, namespace="", label_selector="label!=x", field_selector="spec.nodeName!=n1"),
        parse_selection(PODS, namespace="", label_selector="", field_selector="metadata.name=a"),
    ]
)
Shown = dict[str, Any]


def _value(name: str, state: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "labels": {"label": state["label"]}}
    return {"metadata": metadata, "spec": {"nodeName": state["node"]}}


def _write(store: Store, name: str, state: dict[str, str] | None) -> None:
    record = store.get(PODS, "ns", name)
    if state is None:
        if record is not None:
            store.remove(record)
    elif record is None:
        store.create(PODS, _value(name, state))
    else:
        store.replace(record, _value(name, state))


def _list(store: Store, selection: Selection) -> Shown:
    records: list[Record] = list(store.collection(PODS).records())
    return {record.name: record.value for record in records if selection.matches(record.value)}


def _apply(shown: Shown, watchers: Watchers, selection: Selection, since: int | None) -> Shown:
    watcher = watchers.open(PODS, selection, since=since, drop=lambda: None)
    for event in watcher.take():
        known = event.record.name in shown
        assert known == (event.type != "ADDED")
        if event.type == "DELETED":
            del shown[event.record.name]
        else:
            shown[event.record.name] = event.record.value
    watchers.end(watcher)
    return shown


@given(before=WRITES, after=WRITES, selection=SELECTIONS)
def test_a_list_and_the_watch_from_its_version_give_the_list_of_now(
    before: list[Any], after: list[Any], selection: Selection
) -> None:
    store = Store(KINDS, history_size=100)
    watchers = Watchers(store, queue_size=100)
    for name, state in before:
        _write(store, name, state)
    shown, version = _list(store, selection), store.revision
    for name, state in after:
        _write(store, name, state)
    assert _apply(shown, watchers, selection, version) == _list(store, selection)


@given(before=WRITES, after=WRITES, selection=SELECTIONS)
def test_an_open_watch_tells_what_a_watch_from_its_version_would_replay(
    before: list[Any], after: list[Any], selection: Selection
) -> None:
    store = Store(KINDS, history_size=100)
    watchers = Watchers(store, queue_size=100)
    for name, state in before:
        _write(store, name, state)
    version = store.revision
    live = watchers.open(PODS, selection, since=version, drop=lambda: None)
    for name, state in after:
        _write(store, name, state)
    replayed = watchers.open(PODS, selection, since=version, drop=lambda: None)
    assert [_line(event) for event in live.take()] == [_line(event) for event in replayed.take()]


def _line(event: Any) -> tuple[str, dict[str, Any]]:
    return event.type, event.record.value


@given(before=WRITES, after=WRITES)
def test_the_past_can_be_listed(before: list[Any], after: list[Any]) -> None:
    store = Store(KINDS, history_size=100)
    for name, state in before:
        _write(store, name, state)
    past, version = _list(store, Selection()), store.revision
    for name, state in after:
        _write(store, name, state)
    assert {record.name: record.value for record in store.at(PODS, version).values()} == past
