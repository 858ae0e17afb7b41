"""Which cards a pod's annotations admit at all, and which a node's administrator has closed (scheduler 6.2, 6.11)."""

from collections.abc import Mapping

from oracle.records import VENDOR, RegisteredCard, Request

USE_TYPE = "nvidia.com/use-gputype"
NOUSE_TYPE = "nvidia.com/nouse-gputype"
USE_UUID = "nvidia.com/use-gpuuuid"
NOUSE_UUID = "nvidia.com/nouse-gpuuuid"
VGPU_MODE = "nvidia.com/vgpu-mode"
CORDON = "hami.io/device-cordon"


def items_of(annotations: Mapping[str, str], key: str) -> list[str]:
    """Return the non-empty trimmed items of a comma list; none when the value is blank or absent."""
    return [item.strip() for item in annotations.get(key, "").split(",") if item.strip()]


def is_blank(annotations: Mapping[str, str], key: str) -> bool:
    """Whether an annotation sets no constraint."""
    return not annotations.get(key, "").strip()


def admits_type(card: RegisteredCard, request: Request, annotations: Mapping[str, str]) -> bool:
    """Test the card's type and mode."""
    return request.type == VENDOR and _admits_model(card.type, annotations) and _admits_mode(card.mode, annotations)


def admits_uuid(card: RegisteredCard, annotations: Mapping[str, str]) -> bool:
    """Test the card's UUID."""
    if not is_blank(annotations, USE_UUID) and card.id not in items_of(annotations, USE_UUID):
        return False
    return card.id not in items_of(annotations, NOUSE_UUID)


def is_cordoned(card: RegisteredCard, node_annotations: Mapping[str, str]) -> bool:
    """Whether new allocations on the card are blocked."""
    return card.id in items_of(node_annotations, CORDON)


def _admits_model(model: str, annotations: Mapping[str, str]) -> bool:
    model = model.lower()
    if not is_blank(annotations, USE_TYPE) and not any(
        item.lower() in model for item in items_of(annotations, USE_TYPE)
    ):
        return False
    return not any(item.lower() in model for item in items_of(annotations, NOUSE_TYPE))


def _admits_mode(mode: str, annotations: Mapping[str, str]) -> bool:
    return VGPU_MODE not in annotations or mode in annotations[VGPU_MODE]
