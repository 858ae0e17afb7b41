"""Policies that can be simulated: gpuloom's own, and the published ones to compare with.

Each policy is a class in a file of its own that chooses node and GPUs for one pod (``policy.SimulatedPolicy``). The
table below gives them their names: another one needs its file and its line.
"""

from collections.abc import Mapping
from types import MappingProxyType

from gpuloom.simulation.errors import SimulationError
from gpuloom.simulation.policies.best_fit import BestFit
from gpuloom.simulation.policies.dot_product import DotProduct
from gpuloom.simulation.policies.engine_policy import EnginePolicyMaker
from gpuloom.simulation.policies.fgd import FragmentationGradientDescent
from gpuloom.simulation.policies.fragmentation import Fragmentation
from gpuloom.simulation.policies.gpu_clustering import GpuClustering
from gpuloom.simulation.policies.gpu_packing import GpuPacking
from gpuloom.simulation.policies.policy import PolicyMaker
from gpuloom.simulation.policies.random_choice import RandomChoice

POLICY_MAKERS: Mapping[str, PolicyMaker] = MappingProxyType(
    {
        "binpack": EnginePolicyMaker("binpack"),
        "spread": EnginePolicyMaker("spread"),
        "first-fit": EnginePolicyMaker("first-fit", "first-fit", in_order=True),
        "fragmentation": Fragmentation,
        "Random": RandomChoice,
        "DotProd": DotProduct,
        "GpuClustering": GpuClustering,
        "GpuPacking": GpuPacking,
        "BestFit": BestFit,
        "FGD": FragmentationGradientDescent,
    }
)
"""By name, as people write it; upper and lower case are the same."""

_NAMES = {name.casefold(): name for name in POLICY_MAKERS}


def find_policy(name: str) -> str:
    """Return a policy's name as the table has it.

    Raises SimulationError for a name that is not there.
    """
    known = _NAMES.get(name.strip().casefold())
    if known is None:
        raise SimulationError(f"unknown policy {name.strip()!r}: expected one of {', '.join(POLICY_MAKERS)}")
    return known
