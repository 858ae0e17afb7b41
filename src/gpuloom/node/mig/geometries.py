"""Cards divided in HAMi's older way: a pod names a position in one of the geometries configured for the card's model.

Each position has its place on the card, worked out the same way at every start, so that single instances can be made
and taken back as in the newer way. Source: device plugin 12.2. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence

from gpuloom.model.mig import MOST_SLICES, MigAllocation, MigPlacement
from gpuloom.model.share import Share
from gpuloom.node.nvml import Gpu, PartProfile
from gpuloom.wire.device_config import MigEntry, MigGeometries
from gpuloom.wire.errors import WireError
from gpuloom.wire.mig import decode_mig_instance

Layout = tuple[tuple[str, MigPlacement], ...]
"""Profile and place of each position of a geometry; empty for a geometry that the card cannot have."""


def lay_out_card(gpu: Gpu, known: Sequence[PartProfile], groups: Sequence[MigGeometries]) -> tuple[Layout, ...]:
    """Lay out the geometries of the first group for the card's model, in their order; empty without a group."""
    geometries = next(
        (group.allowed_geometries for group in groups if any(name in gpu.name for name in group.models)), ()
    )
    return tuple(lay_out(geometry, known) for geometry in geometries)


def lay_out(geometry: Iterable[MigEntry], known: Sequence[PartProfile]) -> Layout:
    """Find a place for every instance of a geometry, the larger ones first; positions stay as they are configured."""
    entries = tuple(geometry)
    if sum(entry.count for entry in entries) > MOST_SLICES:
        return ()
    names = [entry.name for entry in entries for _ in range(entry.count)]
    places = {profile.name: profile.placements for profile in known}
    if not names or any(not places.get(name) for name in names):
        return ()
    order = sorted(range(len(names)), key=lambda position: -places[names[position]][0].size)
    found = _place([places[names[position]] for position in order], ())
    by_position = dict(zip(order, found, strict=False))
    return tuple((names[position], by_position[position]) for position in range(len(names))) if found else ()


def claim_positions(
    shares: Iterable[Share], container_index: int, layouts: Mapping[str, Sequence[Layout]]
) -> list[MigAllocation]:
    """Translate the shares of a container, ``GPU-a[geometry-position]``, into instances and their places.

    Raises WireError for a share without such a suffix, or with one that the card's configuration does not know.
    """
    return [_claim(share.uuid, container_index, place, layouts) for place, share in enumerate(shares)]


def _claim(
    uuid: str, container_index: int, device_index: int, layouts: Mapping[str, Sequence[Layout]]
) -> MigAllocation:
    instance = decode_mig_instance(uuid)
    try:
        profile, placement = layouts[instance.gpu_uuid][instance.geometry][instance.position]
    except (KeyError, IndexError) as error:
        raise WireError(
            f"{uuid} is not in knownMigGeometries of this node: scheduler and device plugin must read the same file"
        ) from error
    return MigAllocation(container_index, device_index, instance.gpu_uuid, profile, placement)


def _place(wanted: Sequence[Sequence[MigPlacement]], taken: tuple[MigPlacement, ...]) -> tuple[MigPlacement, ...]:
    """Choose one of each, so that none overlap; the first such choice, empty when there is none."""
    if not wanted:
        return taken
    for place in wanted[0]:
        if not any(place.overlaps(other) for other in taken):
            found = _place(wanted[1:], (*taken, place))
            if found:
                return found
    return ()
