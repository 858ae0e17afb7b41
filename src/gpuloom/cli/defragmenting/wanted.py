"""The pod that room is to be made for: of a manifest, or so many whole cards of a model."""

import re
from pathlib import Path

import msgspec

from gpuloom.cli.asking.manifests import Wanted, read_manifests
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.vendors.profile import Profile
from gpuloom.web.views.source import Source

_MODEL_AND_COUNT = re.compile(r"(?P<model>[\w .-]*\w)=(?P<count>[0-9]{1,3})", re.ASCII)
_WHOLE = 100


def read_wanted(text: str, source: Source) -> Wanted:
    """Read ``MODEL=COUNT`` or the name of a manifest's file; ``-`` is standard input.

    Raises CommandError in one line.
    """
    asked = None if Path(text).exists() else _MODEL_AND_COUNT.fullmatch(text)
    if asked is not None:
        return _ask_for_whole_cards(source, asked["model"], int(asked["count"]))
    if text != "-" and not Path(text).exists():
        raise CommandError(f"--for {text}: give the file of a manifest, or MODEL=COUNT such as a100=4", ExitCode.USAGE)
    wanted = read_manifests(text)
    if len(wanted) > 1:
        names = ", ".join(one.name for one in wanted[:3])
        raise CommandError(f"{text} makes several kinds of pods ({names}): give one", ExitCode.USAGE)
    return wanted[0]


def _ask_for_whole_cards(source: Source, model: str, count: int) -> Wanted:
    profile, most = _find_vendor(source, model)
    if not 0 < count <= most:
        raise CommandError(f"--for {model}={count}: no node has more than {most} such cards, ask for 1 to {most}")
    names = profile.resources
    limits = {names.count: str(count)}
    if names.memory_percentage:
        limits[names.memory_percentage] = str(_WHOLE)
    if names.cores:
        limits[names.cores] = str(_WHOLE)
    annotations = {profile.select.types.use: model} if profile.select.types else {}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "wanted", "annotations": annotations},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
    }
    return Wanted(f"{count} whole card{'s' if count > 1 else ''} {model}", "", msgspec.json.encode(pod), 1)


def _find_vendor(source: Source, model: str) -> tuple[Profile, int]:
    """Find whose cards a part of a model's name means, and how many of them a node has at most."""
    most: dict[str, int] = {}
    models: set[str] = set()
    for node in source.state.cluster.nodes:
        for word in source.state.cluster.words_of(node):
            registered = source.state.cluster.registered(node, word)
            cards = registered.cards if registered is not None else ()
            models.update(card.model for card in cards)
            count = sum(model.lower() in card.model.lower() for card in cards)
            if count:
                most[word] = max(most.get(word, 0), count)
    if not most:
        known = ", ".join(sorted(models)[:5]) or "none at all"
        raise CommandError(f"no node has cards of a model {model}; there are: {known}")
    if len(most) > 1:
        raise CommandError(
            f"{model} means cards of {' and '.join(sorted(most))}: give more of the model", ExitCode.USAGE
        )
    ((word, count),) = most.items()
    return source.state.settings.catalog[word], count
