"""Writes charts/gpuloom/files/managed-resources.yaml: which keys of the device configuration name resources.

kube-scheduler must leave those resources to the extender. Run it after a change of the profiles; a unit test fails
when the file is behind them.
"""

from pathlib import Path

from msgspec.structs import fields

from gpuloom.vendors.device_config import apply_device_config
from gpuloom.vendors.profile import load_nvidia
from gpuloom.wire.device_config import NvidiaConfig

FILE = Path(__file__).parents[2] / "charts/gpuloom/files/managed-resources.yaml"
PROBE = "probe.example/resource"
HEAD = "# Keys of the device configuration that name resources of pods. Written by tools/chart/managed_resources.py.\n"


def render() -> str:
    """Return what the file should hold."""
    keys = [
        field.encode_name for field in fields(NvidiaConfig) if field.type is str and _names_resource(field.encode_name)
    ]
    return HEAD + f"nvidia: [{', '.join(keys)}]\n"


def _names_resource(key: str) -> bool:
    """Say whether a name under this key is one of the resources that the scheduler accounts for."""
    profile = apply_device_config(load_nvidia(), {"nvidia": {key: PROBE}}, FILE.name)
    return PROBE in profile.resources.all


if __name__ == "__main__":
    FILE.write_text(render())
