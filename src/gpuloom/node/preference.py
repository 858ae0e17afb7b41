"""Which of the kubelet's free ids are on the cards that the scheduler chose (device plugin 11). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpuloom.model.share import ContainerShares
from gpuloom.node.replicas import physical_id


@dataclass(frozen=True, slots=True)
class PreferenceRequest:
    """What the kubelet asks for one container: `size` of the available ids, all of `required` among them."""

    available: Sequence[str]
    required: Sequence[str]
    size: int


def prefer(requests: Sequence[PreferenceRequest], entries: Sequence[ContainerShares]) -> tuple[tuple[str, ...], ...]:
    """Return for the k-th request the ids of the k-th entry that waits for devices; empty without a preference."""
    waiting = [entry for entry in entries if entry]
    answers = [_choose(request, entry) for request, entry in zip(requests, waiting, strict=False)]
    return (*answers, *(() for _ in requests[len(answers) :]))


def _choose(request: PreferenceRequest, entry: ContainerShares) -> tuple[str, ...]:
    if len(entry) < request.size:
        return ()
    chosen = list(request.required)
    required = list(request.required)
    unused = [replica for replica in request.available if replica not in required]
    for share in entry[: request.size]:
        if match := _find(share.uuid, required):
            required.remove(match)
        elif match := _find(share.uuid, unused):
            unused.remove(match)
            chosen.append(match)
        else:
            return ()
    return tuple(chosen) if len(chosen) == request.size else ()


def _find(uuid: str, replicas: Sequence[str]) -> str | None:
    return next((replica for replica in replicas if physical_id(replica) == uuid), None)
