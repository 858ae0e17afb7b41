"""Every family at a glance, made from the profiles, for the terminal and for the pages."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from gpuloom.vendors.profile import Profile
from gpuloom.vendors.profilecheck import hooks_of


class FamilyView(msgspec.Struct, frozen=True):
    """One family: what users write, in which units, what is special, and what its node must say."""

    word: str
    name: str
    count: str
    memory: str
    cores: str
    features: tuple[str, ...]
    node: str
    health: str
    plugin: str
    switch: str


def view_family(profile: Profile) -> FamilyView:
    """Sum up one profile."""
    names = profile.resources
    return FamilyView(
        word=profile.word,
        name=profile.name,
        count=names.count,
        memory=f"{names.memory} ({_unit(profile)})" if names.memory else "",
        cores=f"{names.cores} (default {profile.request.default_cores})" if names.cores else "",
        features=tuple(_features(profile)),
        node=_node(profile),
        health=_health(profile),
        plugin=profile.plugin,
        switch=_switch(profile),
    )


def _unit(profile: Profile) -> str:
    factor = max(profile.request.memory_factor, 1)
    return {1: "MiB", 1024: "GiB"}.get(factor, f"{factor} MiB")


def _features(profile: Profile) -> Iterator[str]:
    fit, select = profile.fit, profile.select
    known = (
        ("percentage of memory", bool(profile.resources.memory_percentage)),
        ("by model", select.types is not None),
        ("by id", bool(select.uuids)),
        ("NUMA binding", bool(select.numa_bind)),
        ("linked cards", fit.topology or fit.select in {"networks", "linked-groups", "zones"}),
        ("pairs", profile.traits.in_pairs),
        ("wings", fit.select == "wings"),
        ("runs", fit.select == "runs"),
        ("hardware parts", bool(profile.write.instances)),
        ("templates", bool(profile.traits.templates)),
        ("policies and classes", bool(select.policy)),
        ("one card for the whole pod", bool(fit.same_card)),
        ("quota", "quota" in fit.checks),
        ("node lock", bool(profile.lock.key)),
    )
    return (feature for feature, is_there in known if is_there)


def _node(profile: Profile) -> str:
    cards = profile.cards
    if cards.source == "capacity":
        names = profile.resources
        unit = names.cores if cards.unit == "cores" else names.count
        return f"capacity {unit}, {cards.per_card} for each card" if cards.per_card > 1 else f"capacity {unit}"
    return f"annotation {cards.register}"


def _health(profile: Profile) -> str:
    match profile.health.kind:
        case "handshake":
            return f"handshake {profile.health.handshake}"
        case "capacity":
            return f"capacity {profile.resources.count} above 0"
        case "annotation":
            return "annotation"
    return "always"


def _switch(profile: Profile) -> str:
    if profile.config.flag:
        return f"--{profile.config.flag}"
    if not profile.config.section:
        return "its own file"
    return "" if profile.config.by_default else f"section {profile.config.section} of device-config.yaml"


def write_table(profiles: Iterable[Profile]) -> str:
    """Write the table of the documentation, by word; families that differ in that alone share a row."""
    columns = ("Word", "Family", "Count", "Memory", "Cores", "Features", "Node says", "Alive", "Node plugin", "On by")
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    alike: dict[tuple[str, ...], list[FamilyView]] = defaultdict(list)
    for profile in sorted(profiles, key=lambda one: one.word):
        view = view_family(profile)
        alike[tuple(cell.replace(view.word, "WORD") for cell in _list_cells(view))].append(view)
    for cells, views in alike.items():
        words = ", ".join(f"`{view.word}`" for view in views)
        lines.append(f"| {' | '.join((words, *(cells if len(views) > 1 else _list_cells(views[0]))))} |")
    return "\n".join(lines) + "\n"


def _list_cells(view: FamilyView) -> tuple[str, ...]:
    return (
        view.name,
        f"`{view.count}`",
        _code(view.memory),
        _code(view.cores.replace("(default ", "(")),
        ", ".join(view.features),
        _code(view.node, first=False),
        view.health.partition(" ")[0],
        view.plugin,
        view.switch,
    )


def _code(text: str, *, first: bool = True) -> str:
    """Set the resource or key in a text as code: its first word, or the one with a slash in it."""
    return " ".join(
        _quote(word) if word and ("/" in word or (first and not at)) else word
        for at, word in enumerate(text.split(" "))
    )


def _quote(word: str) -> str:
    return f"`{word.rstrip(',')}`{',' if word.endswith(',') else ''}"


def list_hooks(profile: Profile) -> dict[str, str]:
    """Return the hooks that a profile names, by field."""
    return {field: name for field, name in hooks_of(profile).items() if name}
