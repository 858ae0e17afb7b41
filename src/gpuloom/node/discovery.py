"""From the driver's cards to the cards that a node registers (device plugin 6). Pure."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from gpuloom.model.card import Card
from gpuloom.node.mig import standing
from gpuloom.node.mig.offers import MigOffer
from gpuloom.node.nvml import Gpu
from gpuloom.node.settings import NodeSettings
from gpuloom.wire.words import INT32_MAX

_UNUSUAL = (
    f"its memory or cores would be nothing, or more than can be registered ({INT32_MAX} MiB or per cent): mend "
    "deviceMemoryScaling, deviceCoreScaling or preConfiguredDeviceMemory"
)
_NO_OFFERS: Mapping[str, MigOffer] = {}


def build_cards(
    gpus: Iterable[Gpu], settings: NodeSettings, offers: Mapping[str, MigOffer] = _NO_OFFERS
) -> tuple[Card, ...]:
    """Return the cards to register and to offer, sorted by index, then UUID, without the filtered ones.

    A card that cannot tell its memory gets ``preconfigured_memory_mib``, or is left out when that is 0; so is one of
    which scaling makes nothing, or more than can be registered. In mode ``mig`` only cards of `offers` are returned,
    with what they can be divided into.
    """
    cards = (_build_card(gpu, settings, offers) for gpu in gpus if is_offered(gpu, settings))
    return tuple(sorted((card for card in cards if card is not None), key=lambda card: (card.index, card.id)))


def build_resources(
    gpus: Iterable[Gpu], settings: NodeSettings, offers: Mapping[str, MigOffer] = _NO_OFFERS
) -> Mapping[str, tuple[Card, ...]]:
    """Return what is offered to the kubelet, by resource; the registered resource is always among them."""
    present = _sort_offered(gpus, settings)
    return {
        settings.resource_name: build_cards(present, settings, offers),
        **standing.build_resources(present, settings),
    }


def explain_omissions(gpus: Iterable[Gpu], settings: NodeSettings) -> Iterator[tuple[str, str]]:
    """Yield the UUID of each card that is left out without being filtered, and why."""
    present = _sort_offered(gpus, settings)
    for gpu in present:
        if not _read_memory(gpu, settings):
            yield gpu.uuid, "it cannot tell its memory: set preConfiguredDeviceMemory to offer it"
        elif not _can_be_registered(*_read_amounts(gpu, settings)):
            yield gpu.uuid, _UNUSUAL
    if settings.mode != "mig":
        yield from standing.explain_omissions(present, settings)


def is_offered(gpu: Gpu, settings: NodeSettings) -> bool:
    """Whether a card is not filtered, by UUID or by index (device plugin 6.3)."""
    return gpu.uuid not in settings.filter_uuids and gpu.index not in settings.filter_indexes


def _sort_offered(gpus: Iterable[Gpu], settings: NodeSettings) -> list[Gpu]:
    return sorted((gpu for gpu in gpus if is_offered(gpu, settings)), key=lambda gpu: (gpu.index, gpu.uuid))


def _read_memory(gpu: Gpu, settings: NodeSettings) -> int:
    return gpu.memory_mib or settings.preconfigured_memory_mib


def _read_amounts(gpu: Gpu, settings: NodeSettings) -> tuple[float, float]:
    """Return MiB and per cent of cores to be shared, not yet cut to whole ones; a card to be divided is not scaled."""
    memory_mib = _read_memory(gpu, settings)
    if settings.mode == "mig":
        return memory_mib, 100
    return memory_mib * settings.device_memory_scaling, settings.device_core_scaling * 100


def _can_be_registered(memory_mib: float, cores: float) -> bool:
    return memory_mib >= 1 and max(memory_mib, cores) <= INT32_MAX


def _build_card(gpu: Gpu, settings: NodeSettings, offers: Mapping[str, MigOffer]) -> Card | None:
    memory_mib, cores = _read_amounts(gpu, settings)
    if not _can_be_registered(memory_mib, cores):
        return None
    card = Card(
        id=gpu.uuid,
        index=gpu.index,
        count=settings.time_slicing.slices.get(settings.resource_name, settings.device_split_count),
        memory_mib=int(memory_mib),
        cores=int(cores),
        model=settings.name_model(gpu.name),
        numa=max(gpu.numa, 0),
        mode=settings.mode,
        healthy=gpu.healthy,
    )
    if settings.mode != "mig":
        # A divided card cannot be shared as a whole.
        return None if gpu.can_be_divided else card
    if (offer := offers.get(gpu.uuid)) is None:
        return None
    return replace(card, count=offer.count, mig_profiles=offer.profiles)
