"""Dividing a card by MIG, and putting it back: the only step that changes a card."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpuloom.local.selftest.report import SkipStepError, StepFailedError
from gpuloom.model.mig import MigPlacement
from gpuloom.node.errors import CardReadError
from gpuloom.node.nvidia import DriverNvml
from gpuloom.node.nvml import Gpu, Part, PartProfile


@dataclass(frozen=True, slots=True)
class _Divisible:
    """A card that can be divided and that nothing computes on, as it was at the start."""

    gpu: Gpu
    parts: Sequence[Part]
    profile: PartProfile
    placement: MigPlacement


async def try_dividing(nvml: DriverNvml, gpus: Sequence[Gpu]) -> str:
    """Divide one idle card, look at it as the device plugin does, and put it back, also when cancelled.

    Raises SkipStepError without such a card, StepFailedError when something is not as it should be.
    """
    card = await _find_card(nvml, gpus)
    try:
        found = await _divide(nvml, card)
    except CardReadError as error:
        raise StepFailedError(str(error)) from error
    finally:
        await _put_back(nvml, card)
    return f"{found}; the card is as before"


async def _find_card(nvml: DriverNvml, gpus: Sequence[Gpu]) -> _Divisible:
    reasons = []
    for gpu in gpus:
        try:
            reason = await _describe(nvml, gpu)
        except CardReadError as error:
            reason = str(error)
        if isinstance(reason, _Divisible):
            return reason
        reasons.append(reason)
    raise SkipStepError("; ".join(dict.fromkeys(reasons)))


async def _describe(nvml: DriverNvml, gpu: Gpu) -> _Divisible | str:
    """Return where a card can be divided, or why it is left alone."""
    profiles = await nvml.mig.read_profiles(gpu.uuid)
    if not profiles:
        return f"{gpu.name} cannot be divided (MIG)"
    if await nvml.mig.is_busy(gpu.uuid):
        return f"card {gpu.uuid} is in use and stays as it is"
    parts = await nvml.mig.list_parts(gpu.uuid)
    smallest = min(profiles, key=lambda profile: profile.memory_mib)
    free = (place for place in smallest.placements if not any(place.overlaps(part.placement) for part in parts))
    placement = next(free, None)
    if placement is None:
        return f"card {gpu.uuid} has no room for a MIG instance {smallest.name}"
    return _Divisible(gpu, parts, smallest, placement)


async def _divide(nvml: DriverNvml, card: _Divisible) -> str:
    uuid, name = card.gpu.uuid, card.profile.name
    try:
        await nvml.mig.enable(uuid)
    except CardReadError as error:
        raise SkipStepError(str(error)) from error
    made = await nvml.mig.create_part(uuid, name, card.placement)
    now = next((gpu for gpu in await nvml.read_gpus() if gpu.uuid == uuid), None)
    seen = [device for device in now.devices if device.uuid == made.mig_uuid] if now else []
    if not seen or seen[0].gpu_instance_id != made.gpu_instance_id:
        raise StepFailedError(
            f"the MIG instance {made.mig_uuid} was made on card {uuid}, and the card does not show it"
        )
    if seen[0].profile != name:
        raise StepFailedError(f"the MIG instance {made.mig_uuid} is a {seen[0].profile}, {name} was asked for")
    await nvml.probe(made.mig_uuid)
    return f"card {uuid} was divided, its MIG instance {name} is seen and answers"


async def _put_back(nvml: DriverNvml, card: _Divisible) -> None:
    """Take the instance away, and switch MIG off where it was.

    A call that was cancelled may still make the instance: the driver is asked one question after the other, so this
    comes behind that. Raises StepFailedError that says what to do.
    """
    uuid = card.gpu.uuid
    try:
        for part in await nvml.mig.list_parts(uuid):
            if part.placement == card.placement and part not in card.parts:
                await nvml.mig.destroy_part(uuid, part.gpu_instance_id)
        if not card.gpu.can_be_divided:
            await nvml.mig.disable(uuid)
        now = next((gpu for gpu in await nvml.read_gpus() if gpu.uuid == uuid), None)
    except CardReadError as error:
        raise StepFailedError(f"card {uuid} could not be put back: {error}; {_tell_by_hand(card)}") from error
    if now != card.gpu:
        raise StepFailedError(f"card {uuid} is not as before it was divided: {_tell_by_hand(card)}")


def _tell_by_hand(card: _Divisible) -> str:
    uuid, place = card.gpu.uuid, f"{card.placement.start}:{card.placement.size}"
    destroy = f"destroy the instance at {place} that nvidia-smi mig -i {uuid} -lgi lists"
    return destroy if card.gpu.can_be_divided else f"{destroy}, then run nvidia-smi -i {uuid} -mig 0"
