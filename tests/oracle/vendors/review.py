"""The webhook for all vendors (scheduler 2, vendors 1.1)."""

import copy
from collections.abc import Mapping

import msgspec

from gpuloom.wire.objects import Pod
from oracle.containers import PodObject, all_containers, is_privileged
from oracle.records import container_kinds
from oracle.settings import Settings
from oracle.vendors.amounts import MutationError, UnusableError
from oracle.vendors.catalogue import Families
from oracle.vendors.quotas import Left, admits
from oracle.webhook import ANY_TEXT, DeniedError, Review, belongs_to_another, claim_pod, strip_owned_keys


def review(pod: PodObject, families: Families, settings: Settings, left: Mapping[str, Left]) -> Review:
    """Answer for a new pod: the rows of scheduler 2.1."""
    before, raw = msgspec.convert(pod, Pod), copy.deepcopy(pod)
    if settings.strip_owned_keys:
        strip_owned_keys(raw)
    if belongs_to_another(before, settings):
        return Review(allowed=True, message="pod already has different scheduler assigned", pod=raw)
    try:
        has = [_mutate(raw, container, families, settings) for container in all_containers(raw)]
        _check_amounts(raw, families, settings)
        if any(has):
            claim_pod(before, raw, settings)
        _check_quotas(raw, families, left, settings)
    except MutationError as error:
        return Review(allowed=False, code=500, message=str(error))
    except DeniedError as error:
        return Review(allowed=False, code=403, reason="Forbidden", message=str(error))
    except UnusableError:
        return Review(allowed=False, code=403, reason="Forbidden", message=ANY_TEXT)
    return Review(allowed=True, pod=raw)


def _mutate(pod: PodObject, container: PodObject, families: Families, settings: Settings) -> bool:
    if is_privileged(container) and settings.privileged_gpu != "deny":
        return False
    asking = [family.mutate(pod, container, settings) for family in families.values()]
    return any(asking)


def _check_amounts(pod: PodObject, families: Families, settings: Settings) -> None:
    for container in all_containers(pod):
        if not is_privileged(container) or settings.privileged_gpu == "deny":
            for family in families.values() if settings.strict_quantities else ():
                family.request(pod, container)


def _check_quotas(pod: PodObject, families: Families, left: Mapping[str, Left], settings: Settings) -> None:
    kinds = container_kinds(msgspec.convert(pod, Pod))
    for family in families.values() if settings.admission_quota else ():
        if not admits(pod, kinds, family, left[family.word]):
            raise DeniedError("exceeding resource quota")
