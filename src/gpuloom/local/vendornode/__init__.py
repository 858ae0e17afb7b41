"""Simulated nodes with cards of any family: what its node plugin and the kubelet would write."""

from gpuloom.local.vendornode.machine import VendorMachine, describe_machine
from gpuloom.local.vendornode.node import VendorNode

__all__ = ["VendorMachine", "VendorNode", "describe_machine"]
