"""What a card may be divided into: what driver and administrator allow (device plugin 12.4). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpuloom.model.mig import MigProfile
from gpuloom.node.nvml import Gpu, PartProfile
from gpuloom.wire.device_config import MigAllowlist


@dataclass(frozen=True, slots=True)
class MigOffer:
    """The profiles of one card; ``count`` is the largest number of instances that it can hold at once."""

    profiles: tuple[MigProfile, ...]
    count: int


def build_offer(gpu: Gpu, known: Sequence[PartProfile], allowlist: Sequence[MigAllowlist]) -> MigOffer | None:
    """Return what the first allowlist for the card's model allows, None when that is nothing."""
    allowed = next((group.profiles for group in allowlist if any(model in gpu.name for model in group.models)), ())
    chosen = [profile for profile in known if profile.name in allowed]
    if not chosen:
        return None
    whole = max(profile.multiprocessors for profile in known)
    return MigOffer(
        profiles=tuple(
            MigProfile(
                name=profile.name,
                memory_mib=profile.memory_mib,
                cores=-(-100 * profile.multiprocessors // whole),
                slice_count=int(profile.name.partition("g")[0]),
                placements=profile.placements,
            )
            for profile in chosen
        ),
        count=max(profile.most for profile in chosen),
    )
