"""From the driver's cards to the cards that a node registers (device plugin 6). Pure."""

from collections.abc import Iterable

from gpuloom.model.card import Card
from gpuloom.node.nvml import Gpu
from gpuloom.node.settings import NodeSettings

MODE = "hami-core"
_MAKER = "NVIDIA"


def build_cards(gpus: Iterable[Gpu], settings: NodeSettings) -> tuple[Card, ...]:
    """Give the cards to register and to offer, sorted by index, then UUID; filtered ones are neither.

    A card that cannot tell its memory gets ``preconfigured_memory_mib``, or is left out when that is 0.
    """
    cards = (_build_card(gpu, settings) for gpu in gpus if not _is_filtered(gpu, settings))
    return tuple(sorted((card for card in cards if card is not None), key=lambda card: (card.index, card.id)))


def _is_filtered(gpu: Gpu, settings: NodeSettings) -> bool:
    return gpu.uuid in settings.filter_uuids or gpu.index in settings.filter_indexes


def _build_card(gpu: Gpu, settings: NodeSettings) -> Card | None:
    memory_mib = gpu.memory_mib or settings.preconfigured_memory_mib
    if memory_mib <= 0:
        return None
    return Card(
        id=gpu.uuid,
        index=gpu.index,
        count=settings.device_split_count,
        memory_mib=int(memory_mib * settings.device_memory_scaling),
        cores=int(settings.device_core_scaling * 100),
        model=_name_model(gpu.name, settings),
        numa=max(gpu.numa, 0),
        mode=MODE,
        healthy=gpu.healthy,
    )


def _name_model(name: str, settings: NodeSettings) -> str:
    # The csv forms belong to versions that always put the maker in front (wire protocol 2.1.4).
    if settings.register_format == "json" and name.startswith(_MAKER):
        return name
    return f"{_MAKER}-{name}"
