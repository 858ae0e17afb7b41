"""Holds gpuloom against the driver and the cards of this machine, in a cluster of its own; changes nothing on them.

The scheduler, the device plugin and the kubelet of :mod:`gpuloom.local` run over the real driver. Processes with what a
container would be given, in containers where containerd can be had, take memory and run kernels, and what they see and
take is held against what they were given.
"""

from gpuloom.local.selftest.containerd import AUTO, OFF
from gpuloom.local.selftest.report import Outcome, SelfTestReport, StepResult
from gpuloom.local.selftest.run import CORES_MEASURED_S, SelfTest

__all__ = ["AUTO", "CORES_MEASURED_S", "OFF", "Outcome", "SelfTest", "SelfTestReport", "StepResult"]
