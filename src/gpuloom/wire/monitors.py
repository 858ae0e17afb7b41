"""What a node's monitor tells the scheduler, as JSON: how much of its cards is in use, and by which pods.

Whoever reads it holds a node's word in hand: :mod:`gpuloom.web.monitors` decides what of it is believed.
"""

import msgspec

from gpuloom.wire.depth import BAD_JSON, decode
from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Pod, PodStatus

REPORT_PATH = "/metrics/use"
"""Where a monitor serves its report."""
AUDIENCE = "gpuloom-monitor"
"""The audience of tokens that open it; nothing else in a cluster takes them."""
COMPONENT = "hami-monitor"
"""``app.kubernetes.io/component`` of monitors' pods."""
PORT = 9394
"""Where monitors listen."""
MOST_REPORT_BYTES = 256 * 1024
"""So long a report may be: sixteen cards with a hundred pods each."""


class ReportedCard(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A card, as the driver says; what it cannot tell is None."""

    uuid: str
    memory_bytes: int | None = None
    busy_percent: int | None = None


class ReportedPod(msgspec.Struct, frozen=True, rename="camel"):
    """What one pod uses of one card, as its regions say."""

    namespace: str
    name: str
    uuid: str
    memory_bytes: int
    busy_percent: int


class MonitorReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happens on a node's cards."""

    cards: tuple[ReportedCard, ...] = ()
    pods: tuple[ReportedPod, ...] = ()


def read_report(body: bytes) -> MonitorReport:
    """Read a report; raises WireError."""
    try:
        return decode(body, MonitorReport)
    except BAD_JSON as error:
        raise WireError(f"no report of a monitor: {error}") from error


class MonitorPodStatus(PodStatus, frozen=True):
    """``status`` of a monitor's pod."""

    pod_ip: str = msgspec.field(default="", name="podIP")


class MonitorPod(Pod, frozen=True):
    """A monitor's pod with its address."""

    status: MonitorPodStatus = MonitorPodStatus()
