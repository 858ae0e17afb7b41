"""Writes charts/gpuloom/files/devices.yaml: what the chart must know of the vendors' profiles.

Run it after a change of the profiles; a unit test fails when the file is behind them.
"""

from pathlib import Path
from typing import Any

import yaml

from gpuloom.vendors.catalog import load_default_profiles, load_shipped
from gpuloom.vendors.device_config import write_device_config
from gpuloom.vendors.profile import Profile

FILE = Path(__file__).parents[2] / "charts/gpuloom/files/devices.yaml"
HEAD = """\
# Written by tools/chart/devices.py from the vendors' profiles.
#   sections  the device configuration of every vendor but NVIDIA, whose section the chart makes of its values
#   managed   by section, the keys that name resources which kube-scheduler leaves to gpuloom
#   under     by section, the key below which the chips are listed
#   flags     by section, the flag of the scheduler that switches it on
"""


def render() -> str:
    """Return what the file should hold."""
    others = (profile for profile in load_default_profiles() if profile.config.section != "nvidia")
    managed: dict[str, list[str]] = {}
    under: dict[str, str] = {}
    flags: dict[str, str] = {}
    for family in load_shipped():
        rules = family.config
        managed.setdefault(rules.section, []).extend(_list_managed(family.profiles[0]))
        if rules.under:
            under[rules.section] = rules.under
        if rules.flag:
            flags[rules.section] = rules.flag
    content: dict[str, Any] = {
        "sections": _drop_aliases(write_device_config(others)),
        "managed": managed,
        "under": under,
        "flags": flags,
    }
    return HEAD + yaml.safe_dump(content, default_flow_style=None, width=120)


def _list_managed(profile: Profile) -> list[str]:
    """Return the keys of a family's section that name managed resources.

    Where cards are counted by their cores, the vendor's own plugin offers cores and memory to the kubelet, and
    kube-scheduler counts them too.
    """
    counted_elsewhere = profile.cards.unit != "count"
    wanted = "resources.count" if counted_elsewhere else "resources."
    return [key for key, field in profile.config.keys.items() if field.startswith(wanted)]


def _drop_aliases(sections: dict[str, Any]) -> dict[str, Any]:
    """Leave one key for each field: a user who changes it means the other names of it too."""
    for family in load_shipped():
        first: dict[str, str] = {}
        for key, field in family.config.keys.items():
            if first.setdefault(field, key) != key:
                sections.get(family.config.section, {}).pop(key, None)
    return sections


if __name__ == "__main__":
    FILE.write_text(render())
