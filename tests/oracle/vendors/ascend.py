"""Ascend: templates, soft split, cards of one network, pairs (vendors 4.8)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuloom.wire.quantity import decode_strict_integer
from oracle.containers import PodObject, amount_of, append_env, limit_of, request_of, set_limit, set_request
from oracle.fit import UnfitError, format_reasons
from oracle.records import AllocatedDevice, Request
from oracle.settings import Settings
from oracle.vendors.amounts import MutationError, UnusableError
from oracle.vendors.family import Family, Taken
from oracle.vendors.groups import fill_groups, largest_share
from oracle.vendors.records import Asking, Decided, Device, JsonObject, annotations_of

MODE, SOFT = "huawei.com/vnpu-mode", "hami-core"
NODE_MODE = "hami-vnpu-core"


class Ascend(Family):
    """One chip, as an entry of the device configuration says."""

    quota_as_whole = True
    caps_cores = True

    def __init__(self, config: Mapping[str, Any], *, splits: bool = False) -> None:
        self.config, self.splits = config, splits
        self.word = self.lists = config["commonWord"]
        self.count, self.memory = config["resourceName"], config["resourceMemoryName"]
        self.cores = config.get("resourceCoreName", "")
        self.factor = max(config.get("memoryFactor", 1), 1)
        self.register, self.handshake = f"hami.io/node-register-{self.word}", f"hami.io/node-handshake-{self.word}"
        self.ids = ((f"hami.io/use-{self.word}-uuid", f"hami.io/no-use-{self.word}-uuid"),)
        self.templates = sorted(config.get("templates") or (), key=lambda template: template["memory"])

    def trim(self, memory: int) -> tuple[int, str]:
        """Return the size that is given instead, and its template's name.

        Raises UnusableError when no card has so much.
        """
        for template in self.templates:
            if template["memory"] >= memory:
                return template["memory"], template["name"]
        if memory <= self.config["memoryCapacity"]:
            return self.config["memoryAllocatable"], ""
        raise UnusableError(str(memory))

    def mutate(self, pod: PodObject, container: PodObject, _settings: Settings) -> bool:
        """Write the memory that will be given."""
        found = limit_of(container, self.count)
        if found is None:
            if self.config.get("overwriteEnv"):
                append_env(container, "ASCEND_VISIBLE_DEVICES", "")
            return False
        memory = self.complete_memory(pod, container, decode_strict_integer(found) or 0)
        set_limit(container, self.memory, memory)
        set_request(container, self.memory, memory)
        if self.config.get("runtimeClassName") and pod["spec"].get("runtimeClassName") is None:
            pod["spec"]["runtimeClassName"] = self.config["runtimeClassName"]
        return True

    def complete_memory(self, pod: PodObject, container: PodObject, count: int) -> int:
        """Ask rows 2 to 5 of the webhook's table; return the memory."""
        if self.config.get("superPod"):
            self.complete_pair(container, count)
        soft, whole = _is_soft(pod), int(self.config["memoryAllocatable"])
        if not soft and (decode_strict_integer(amount_of(container, self.cores) or 0) or 0) > 0:
            raise MutationError(f"{self.cores} is only supported in hami-core (soft split) mode")
        found = limit_of(container, self.memory)
        memory = whole if found is None else decode_strict_integer(found) or 0
        if found is not None and not soft:
            try:
                memory = self.trim(memory)[0]
            except UnusableError:
                raise MutationError(f"{self.memory} {found} is invalid") from None
        if count > 1 and not soft and memory != whole:
            raise MutationError("vNPU not supported for multiple devices")
        return memory

    def complete_pair(self, container: PodObject, count: int) -> None:
        """Two dies are one module: one becomes two, other odd numbers are refused."""
        if count == 1:
            set_limit(container, self.count, 2)
            if request_of(container, self.count) is not None:
                set_request(container, self.count, 2)
        elif count % 2:
            raise MutationError(f"{self.word} device request must be 1 or 2*n, got {count}")

    def request(self, pod: PodObject, container: PodObject) -> Request | None:
        """Refuse what no card has so much of."""
        request = super().request(pod, container)
        if request is not None and not _is_soft(pod):
            self.trim(request.memreq)
        return request

    # Fit.

    def fit(self, cards: Sequence[Device], request: Request, asking: Asking) -> Taken:
        """Refuse a node that cannot split softly; trim on it once more, for pods that no webhook saw (decision 012)."""
        supported = annotations_of(asking.node).get(NODE_MODE, "true" if self.splits else "") == "true"
        if _is_soft(asking.pod) and not supported:
            raise UnfitError(f"1/{len(cards)} ModeNotFit")
        if request.memreq and not supported and asking.settings.ascend_round_unseen:
            request = replace(request, memreq=self.trim(request.memreq)[0])
        return (
            self.fit_pairs(cards, request, asking) if self.takes_pairs(request) else super().fit(cards, request, asking)
        )

    def fit_pairs(self, cards: Sequence[Device], request: Request, asking: Asking) -> Taken:
        """Take complete pairs; where they are too few, everything is counted of as many cards as are wanted."""
        taken, reasons = self.collect(cards, request, asking)
        pairs: dict[int, Taken] = {}
        for device, share in taken:
            pairs.setdefault(device.card.index // 2, []).append((device, share))
        chosen = [one for pair in pairs.values() if len(pair) == 2 for one in pair]
        if len(chosen) >= request.nums:
            return chosen[: request.nums]
        reasons["AllocatedCardsInsufficientRequest"] = len(chosen)
        raise UnfitError(format_reasons(reasons, request.nums))

    def total_cores(self, device: Device, asking: Asking) -> int:
        """A softly split card has 100 cores."""
        return 100 if _is_soft(asking.pod) else device.card.devcore

    def compares(self, cards: Sequence[Device], request: Request, _asking: Asking) -> bool:
        """All cards are collected where pairs or networks matter."""
        return self.takes_pairs(request) or self.knows_networks(cards)

    def takes_pairs(self, request: Request) -> bool:
        """Whether only complete pairs serve."""
        return bool(self.config.get("superPod")) and request.nums > 1

    def knows_networks(self, cards: Sequence[Device]) -> bool:
        """Whether every card of the node says on which network it is."""
        return self.word.startswith("Ascend910") and all("NetworkID" in device.info for device in cards)

    def select(self, taken: Taken, request: Request, asking: Asking) -> Taken:
        """Take cards of one network."""
        del asking
        return fill_groups(taken, request.nums, lambda device: device.info["NetworkID"])

    # Score and annotations.

    def score(self, decided: Decided, policy: str, settings: Settings) -> float:
        """Prefer pods whose cards are on one network."""
        if not self.knows_networks(decided.cards):
            return 0.0
        groups = [[decided.card_of(share).info["NetworkID"] for share in shares] for shares in decided.shares if shares]
        return settings.topology_sign(policy) * 10 * sum(map(largest_share, groups))

    def extras(self, decided: Decided) -> dict[str, str]:
        """Tell the plugin every card and its template."""
        entries = [self.entry(decided.pod, share) for shares in decided.shares for share in shares]
        return {"predicate-time": str(decided.time_ns // 10**9), f"huawei.com/{self.word}": json.dumps(entries)}

    def entry(self, pod: PodObject, share: AllocatedDevice) -> JsonObject:
        """Write one share; what is empty is left out."""
        name = "" if _is_soft(pod) else self.trim(share.usedmem)[1]
        entry = {"UUID": share.uuid, "temp": name, "memory": share.usedmem, "core": share.usedcores}
        return {key: value for key, value in entry.items() if value}


def _is_soft(pod: PodObject) -> bool:
    return annotations_of(pod).get(MODE) == SOFT
