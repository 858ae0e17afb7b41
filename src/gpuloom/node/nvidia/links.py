"""How cards are connected, as the driver tells it (device plugin 9). Everything here blocks; it belongs on a worker."""

from collections.abc import Sequence
from itertools import permutations
from typing import Any

from gpuloom.node.errors import CardReadError
from gpuloom.node.nvidia.cards import decode_text, find_handle
from gpuloom.node.nvml import Ancestor, Interconnect, NvLink


def read_interconnect(library: Any, uuids: Sequence[str]) -> Interconnect:
    """Return ancestors and enabled links of cards.

    Raises CardReadError for an unknown level, and the library's NVMLError for any answer about a link other than "not
    supported" and "invalid argument".
    """
    handles = {uuid: find_handle(library, uuid) for uuid in uuids}
    ancestors = {
        (one, other): _to_ancestor(library.nvmlDeviceGetTopologyCommonAncestor(handles[one], handles[other]))
        for one, other in permutations(uuids, 2)
    }
    return Interconnect(ancestors, {uuid: _read_links(library, handle) for uuid, handle in handles.items()})


def _to_ancestor(level: int) -> Ancestor:
    try:
        return Ancestor(level)
    except ValueError as error:
        raise CardReadError(
            f"the NVIDIA driver tells of a topology level {level}, which gpuloom does not know"
        ) from error


def _read_links(library: Any, handle: Any) -> tuple[NvLink, ...]:
    links = (_read_link(library, handle, number) for number in range(library.NVML_NVLINK_MAX_LINKS))
    return tuple(link for link in links if link is not None)


def _read_link(library: Any, handle: Any, number: int) -> NvLink | None:
    try:
        if library.nvmlDeviceGetNvLinkState(handle, number) != library.NVML_FEATURE_ENABLED:
            return None
        remote = decode_text(library.nvmlDeviceGetNvLinkRemotePciInfo(handle, number).busId)
        return NvLink(remote, to_switch=_is_switch(library, handle, number))
    except library.NVMLError as error:
        if error.value in {library.NVML_ERROR_NOT_SUPPORTED, library.NVML_ERROR_INVALID_ARGUMENT}:
            return None
        raise


def _is_switch(library: Any, handle: Any, number: int) -> bool:
    try:
        kind = library.nvmlDeviceGetNvLinkRemoteDeviceType(handle, number)
    except library.NVMLError as error:
        # Drivers before 470 lack this question; a link without an answer goes to a card.
        if error.value in {library.NVML_ERROR_NOT_SUPPORTED, library.NVML_ERROR_FUNCTION_NOT_FOUND}:
            return False
        raise
    return bool(kind == library.NVML_NVLINK_DEVICE_TYPE_SWITCH)
