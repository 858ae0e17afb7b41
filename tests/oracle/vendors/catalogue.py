"""Which families there are, as the device configuration and two flags say (vendors 0.3, 2.2)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oracle.vendors.amd import Amd
from oracle.vendors.ascend import Ascend
from oracle.vendors.enflame import Enflame, Gcu
from oracle.vendors.family import Family
from oracle.vendors.kunlun import Kunlun, Xpu
from oracle.vendors.metax import MetaxGpu, MetaxSgpu
from oracle.vendors.neuron import AwsNeuron
from oracle.vendors.plain import Biren, Dcu, Iluvatar, IluvatarChip, Mlu, Mthreads, Nvidia
from oracle.vendors.vastai import Vastai

DEFAULT_CONFIG: Mapping[str, Any] = json.loads(
    (Path(__file__).parents[2] / "data" / "device-config.default.json").read_text(encoding="utf-8")
)

Families = Mapping[str, Family]


def make_families(flags: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> Families:
    """Return the families by word, in the order in which they are asked: ascending."""
    config = DEFAULT_CONFIG if config is None else config
    families: list[Family] = [Nvidia(), Mlu(), Dcu(), Mthreads(), MetaxGpu(), Gcu(), Enflame(), Kunlun(), Xpu()]
    families += [AwsNeuron(core_ids=flags.get("neuron-core-ids", True)), Amd(), Vastai(), Biren()]
    families.append(MetaxSgpu(topology_aware=(config.get("metax") or {}).get("sgpuTopologyAware", False)))
    if config.get("iluvatar"):
        families.append(Iluvatar())
    if flags.get("enable-ascend"):
        chips = config["vnpus"]
        families += [Ascend(chip, splits=chips.get("hamiVnpuCore", False)) for chip in chips["configs"]]
    if flags.get("enable-iluvatar"):
        families += [IluvatarChip(chip["commonWord"]) for chip in config["iluvatars"]]
    return {family.word: family for family in sorted(families, key=lambda family: family.word)}
