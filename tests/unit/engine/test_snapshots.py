"""A snapshot of the card table stays as it was, whatever becomes of the table."""

from builders import card

from gpuloom.engine.table import CardTable, NodeCards


def test_a_node_that_leaves_stays_in_a_snapshot_as_it_was() -> None:
    table = CardTable()
    table.register("n1", NodeCards((card("GPU-0"), card("GPU-1"))))
    position = table.positions["n1"]
    snapshot = table.snapshot()
    table.remove("n1")
    assert snapshot.has_changed(position)
    assert list(snapshot.bench(position).uuids) == ["GPU-0", "GPU-1"]
