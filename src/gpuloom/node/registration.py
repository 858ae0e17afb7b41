"""The annotation loop: the node object always says which cards the node has (device plugin 8 and 9)."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import structlog

from gpuloom.kube.client import KubeClient
from gpuloom.kube.errors import ApiError
from gpuloom.kube.recorder import EventRecorder, Subject
from gpuloom.kube.resources import NODES
from gpuloom.node.clock import Sleep, finish_first
from gpuloom.node.errors import CardReadError
from gpuloom.node.inventory import CardInventory
from gpuloom.node.nvml import Nvml
from gpuloom.node.settings import NodeSettings
from gpuloom.node.topology import Asymmetry, PairScores, score_pairs
from gpuloom.wire import keys
from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Node
from gpuloom.wire.pairscores import encode_pair_scores
from gpuloom.wire.register import encode_register
from gpuloom.wire.serves import encode_serves

PERIOD_S = 30.0
RETRY_S = 5.0
COMPONENT = "hami-device-plugin"
VENDOR = "NVIDIA"
"""The word of the vendor whose cards this plugin serves."""
_log = structlog.get_logger(__name__)


class NodeRegistration:
    """What one node says about its cards."""

    def __init__(
        self,
        settings: NodeSettings,
        client: KubeClient,
        inventory: CardInventory,
        nvml: Nvml,
        events: EventRecorder,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._settings = settings
        self._client = client
        self._inventory = inventory
        self._nvml = nvml
        self._events = events
        self._now = now
        self._described = inventory.cards
        self._scores: PairScores = {}
        self._unconnected = ""
        self._asymmetries: tuple[Asymmetry, ...] = ()
        self._reported: tuple[Asymmetry, ...] = ()

    async def tick(self) -> bool:
        """Read cards and node, patch what is missing or differs; return whether anything was patched.

        Raises CardReadError, but writes what is known of the cards before, ApiError, and WireError for a card that
        cannot be written.
        """
        try:
            await self._inventory.refresh()
            is_patched = await self._write(await self._describe())
        except CardReadError:
            # While their driver fails, the kubelet is told that cards are sick, and the scheduler the same.
            if self._inventory.is_read:
                await self._write(self._describe_cards())
            raise
        return is_patched

    async def _write(self, wanted: Mapping[str, str | None]) -> bool:
        """Bring the node's annotations to what is wanted; None is an annotation that must not be there."""
        node = await self._client.get(NODES, self._settings.node_name)
        changes = {key: value for key, value in wanted.items() if node.annotations.get(key) != value}
        self._report_asymmetries(node)
        if not changes:
            return False
        await self._client.patch(NODES, node.name, {"metadata": {"annotations": changes}})
        _log.info("registered", node=node.name, cards=len(self._inventory.cards), annotations=sorted(changes))
        return True

    async def keep(self, *, sleep: Sleep = asyncio.sleep) -> None:
        """Tick every 30 s, 5 s after an error, and whenever the cards change, until cancelled.

        Repairs what others delete or change. Writes nothing while a card is being divided.
        """
        while True:
            period_s = PERIOD_S
            try:
                if self._settings.mig_lock.exists():
                    # Cards are being divided, so the driver's answers hold only for a moment.
                    period_s, self._described = RETRY_S, self._inventory.cards
                else:
                    await self.tick()
            except (ApiError, CardReadError, WireError) as error:
                period_s = RETRY_S
                _log.warning("registration failed", node=self._settings.node_name, error=str(error), retry_s=RETRY_S)
            # Cards may have changed since they were described: writing takes its time.
            change = self._inventory.wait_for_change(self._settings.resource_name, self._described)
            await finish_first(sleep(period_s), change)

    async def _describe(self) -> dict[str, str | None]:
        wanted: dict[str, str | None] = {**self._describe_cards()}
        if self._settings.report_topology:
            wanted[keys.NODE_PAIR_SCORES] = await self._describe_pairs()
        if self._settings.report_handshake:
            wanted[keys.NODE_HANDSHAKE] = encode_reported(self._now())
        return wanted

    def _describe_cards(self) -> dict[str, str]:
        self._described = self._inventory.cards
        wanted = {keys.NODE_REGISTER: encode_register(self._described, self._settings.register_format)}
        if self._settings.pod_uid:
            wanted[keys.NODE_SERVES] = encode_serves({VENDOR}, self._settings.pod_uid)
        return wanted

    async def _describe_pairs(self) -> str | None:
        """Return pair scores: those read before of the same cards if none can be read now, None without such."""
        gpus = self._inventory.gpus
        try:
            interconnect = await self._nvml.read_interconnect([gpu.uuid for gpu in gpus])
        except CardReadError as error:
            # On virtual machines the driver may never tell, and the cards are as good without.
            self._report_unconnected(str(error))
            return encode_pair_scores(self._scores) if self._scores.keys() == {gpu.uuid for gpu in gpus} else None
        self._unconnected = ""
        self._scores, self._asymmetries = score_pairs(gpus, interconnect)
        return encode_pair_scores(self._scores)

    def _report_unconnected(self, reason: str) -> None:
        """Log that nobody says how cards are connected, once for each reason."""
        if reason != self._unconnected:
            _log.warning(
                "cards are registered without new pair scores: how they are connected is not told", error=reason
            )
        self._unconnected = reason

    def _report_asymmetries(self, node: Node) -> None:
        """Report pairs that were not reported before; a pair that went away may be reported again."""
        new = [found for found in self._asymmetries if found not in self._reported]
        self._reported = self._asymmetries
        for found in new:
            self._events.record(
                Subject("Node", "", node.name, node.metadata.uid),
                "Warning",
                "AsymmetricGPUP2PLink",
                f"card {found.one.uuid} sees {found.links} NVLinks to {found.other.uuid}, which sees "
                f"{found.links_back} back: the pair is scored 0; check the links with nvidia-smi nvlink --status",
            )


def encode_reported(moment: datetime) -> str:
    """Return the answer to the scheduler's handshake as HAMi up to 2.7 writes it, in Go's default form of a time."""
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
    return f"Reported {moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"
