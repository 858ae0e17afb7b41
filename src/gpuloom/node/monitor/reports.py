"""A node's report for the scheduler, made of the same snapshot as a scrape."""

from collections.abc import Iterator

import msgspec

from gpuloom.node.monitor.families import ScrapeData
from gpuloom.wire.monitors import MonitorReport, ReportedCard, ReportedPod


def write_report(snapshot: ScrapeData) -> bytes:
    """Write what happens on the node's cards."""
    cards = snapshot.cards.cards if snapshot.cards else ()
    report = MonitorReport(
        cards=tuple(ReportedCard(card.uuid, card.memory_used_bytes, card.gpu_percent) for card in cards),
        pods=tuple(_list_pods(snapshot)),
    )
    return msgspec.json.encode(report)


def _list_pods(snapshot: ScrapeData) -> Iterator[ReportedPod]:
    """Sum up the containers of each pod, card by card."""
    sums: dict[tuple[str, str, str], tuple[int, int]] = {}
    for use in snapshot.round.containers:
        for device in use.devices:
            key = (use.namespace, use.pod, device.uuid)
            memory, busy = sums.get(key, (0, 0))
            sums[key] = (memory + device.total_bytes, busy + device.utilization_percent)
    for key, (memory, busy) in sums.items():
        yield ReportedPod(*key, memory_bytes=memory, busy_percent=busy)
