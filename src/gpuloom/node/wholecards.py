"""Containers that have their cards alone: whether their programs load the limiter (device plugin 10.4). Pure."""

from collections.abc import Mapping, Sequence

import structlog

from gpuloom.model.share import Share
from gpuloom.node.nvml import Gpu
from gpuloom.node.settings import NodeSettings
from gpuloom.wire import keys
from gpuloom.wire.errors import WireError
from gpuloom.wire.fullpods import FullPod
from gpuloom.wire.words import decode_bool

_log = structlog.get_logger(__name__)


def is_limited(pod: FullPod, shares: Sequence[Share], gpus: Mapping[str, Gpu], settings: NodeSettings) -> bool:
    """Whether programs of a container with these shares load the limiter.

    They do, unless node or pod exempt containers that have all memory of each of their cards: nobody else fits there.
    """
    return _limits_whole_cards(pod, settings) or not all(_is_whole(share, gpus, settings) for share in shares)


def _limits_whole_cards(pod: FullPod, settings: NodeSettings) -> bool:
    text = pod.annotations.get(keys.LIMIT_WHOLE_CARDS, "")
    if not text:
        return settings.limit_whole_cards
    try:
        return decode_bool(text)
    except WireError as error:
        _log.warning(
            "annotation cannot be read, the node's flag counts",
            pod=pod.full_name,
            annotation=keys.LIMIT_WHOLE_CARDS,
            error=str(error),
        )
        return settings.limit_whole_cards


def _is_whole(share: Share, gpus: Mapping[str, Gpu], settings: NodeSettings) -> bool:
    """Whether a share is a card with all its memory; one with scaled memory needs the limiter for what it promises."""
    if settings.device_memory_scaling != 1:
        return False
    memory_mib = gpus[share.uuid].memory_mib or settings.preconfigured_memory_mib
    return 0 < memory_mib <= share.memory_mib
