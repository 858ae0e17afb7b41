"""Holds gpuloom against the driver and the cards of this machine, in a cluster of its own; changes nothing on them.

The scheduler, the device plugin and the kubelet of :mod:`gpuloom.local` run over the real driver. Processes with what a
container would be given take memory and run kernels, and what they see and take is held against what they were given.
"""

from gpuloom.local.selftest.report import Outcome, SelfTestReport, StepResult
from gpuloom.local.selftest.run import CORES_MEASURED_S, SelfTest

__all__ = ["CORES_MEASURED_S", "Outcome", "SelfTest", "SelfTestReport", "StepResult"]
