"""Would it fit? A form of a few fields or a whole manifest, answered as if the pod was created now."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import msgspec

from gpuloom.serving.aside import BadTextError, ReaderBusyError
from gpuloom.serving.frames import Verb
from gpuloom.vendors.profile import Profile
from gpuloom.web.api import WebApi
from gpuloom.web.dashboard.asked import Asked
from gpuloom.web.dashboard.drawing import draw
from gpuloom.web.dashboard.pages.pods import draw_details
from gpuloom.web.dashboard.regions import DashboardPage, Region
from gpuloom.web.refusals import RefusedError, need_pods
from gpuloom.web.views.explaining import PodError, fit_pod
from gpuloom.web.views.source import Source

LONGEST_MANIFEST = 32_768
FIELDS = ("namespace", "vendor", "cards", "memory", "cores", "manifest")
_PER_CENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The form as somebody filled it in."""

    namespace: str = "default"
    vendor: str = ""
    cards: str = "1"
    memory: str = ""
    cores: str = ""
    manifest: str = ""


class WishError(ValueError):
    """The form cannot be read; the message names the field."""


async def make_form(api: WebApi, asked: Asked, wish: Wish | None = None) -> DashboardPage:
    """Show the form, and the answer to what was filled in."""
    regions: dict[str, Region] = {}
    if wish is not None:
        need_pods(asked.viewer, wish.namespace)
        regions = await _answer(api, asked, wish)
    vendors = {profile.word: profile.resources.count for profile in _order_vendors(api.source)}
    form = draw("fits", "form", wish or Wish(), vendors)
    return DashboardPage(title="Would it fit?", here="/fits", regions={"form": form, **regions}, is_live=False)


def read_wish(fields: Mapping[str, Any]) -> Wish:
    """Read the fields that were sent.

    Raises RefusedError when they are too long.
    """
    sent = {name: str(fields[name]) for name in FIELDS if name in fields}
    if any(len(text) > LONGEST_MANIFEST for text in sent.values()):
        raise RefusedError(413, f"the manifest is longer than {LONGEST_MANIFEST // 1024} KiB: give the pod alone")
    wish = Wish(**{name: text if name == "manifest" else text.strip()[:253] for name, text in sent.items()})
    return wish if wish.namespace else replace(wish, namespace="default")


async def _answer(api: WebApi, asked: Asked, wish: Wish) -> dict[str, Region]:
    try:
        manifest = await _write_manifest(api, wish)
        found = await api.pace.finish(fit_pod(api.source, asked.viewer, manifest, wish.namespace))
    except (PodError, WishError) as error:
        return {"answer": draw("fits", "refusal", str(error))}
    regions: dict[str, Region] = {"answer": draw("fits", "answer", found)}
    if found.explanation is not None:
        regions["summary"] = draw("explanation", "summary", found.explanation)
        regions["details"] = await api.pace.finish(draw_details(found.explanation))
    return regions


def _order_vendors(source: Source) -> list[Profile]:
    """Return the vendors whose cards can be asked for, those of which there are any before the others."""
    state = source.state
    profiles = [profile for profile in state.settings.catalog if profile.resources.count]
    return sorted(profiles, key=lambda profile: not state.cluster[profile.word].table.positions)


async def _write_manifest(api: WebApi, wish: Wish) -> bytes:
    """Write the pod of a form as JSON: its manifest if there is one, else a container with the limits.

    Raises WishError.
    """
    if not wish.manifest.strip():
        return write_pod(wish, _order_vendors(api.source))
    try:
        return await api.source.parts.manifests.read(Verb.MANIFEST, wish.manifest.encode())
    except (BadTextError, ReaderBusyError) as error:
        raise WishError(f"manifest: {error}") from error


def write_pod(wish: Wish, vendors: Iterable[Profile]) -> bytes:
    """Write the pod of a form's fields as JSON: one container with the limits, in the units of the vendor.

    Raises WishError.
    """
    profile = _choose_vendor(wish.vendor, vendors)
    names, whole = profile.resources, profile.cards.cores or _PER_CENT
    # Of cores that are bits of a mask there is no per cent.
    cores = "" if profile.fit.bits else names.cores
    limits = {}
    for label, text, resource, unit in (
        ("cards", wish.cards, names.count, Fraction(1)),
        ("memory", wish.memory, names.memory, Fraction(max(profile.request.memory_factor, 1))),
        ("cores", wish.cores, cores, Fraction(_PER_CENT, whole)),
    ):
        if not text:
            continue
        if not text.isdecimal():
            raise WishError(f"{label}: {text!r} is not a whole number")
        if not resource:
            whose = f"{profile.word} ({names.count})"
            raise WishError(f"{label}: pods that ask for cards of {whose} cannot say it; leave the field empty")
        limits[resource] = str(math.ceil(int(text) / unit))
    container = {"name": "main", "resources": {"limits": limits}}
    return msgspec.json.encode({"kind": "Pod", "metadata": {"name": "pod"}, "spec": {"containers": [container]}})


def _choose_vendor(word: str, vendors: Iterable[Profile]) -> Profile:
    """Return a vendor, the first if none is named."""
    named = [profile for profile in vendors if word in {"", profile.word}]
    if not named:
        raise WishError(f"kind of card: this scheduler places none of {word or 'any vendor'}")
    return named[0]
