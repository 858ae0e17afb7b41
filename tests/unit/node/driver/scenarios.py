"""What NVIDIA's library is asked, how it may fail, and a node of two cards that is looked after over it."""

import asyncio
import itertools

import pynvml
import pytest

from gpuloom.node.health import HealthBook, HealthSettings
from gpuloom.node.healthwatch import HealthWatch
from gpuloom.node.inventory import CardInventory
from gpuloom.node.settings import NodeSettings

ROUNDS = 3
"""A driver that fails is believed two more times; in the third round its cards are sick."""
UNSUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
HUGE = 0xFFFFFFFF
ERRORS = (
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_TIMEOUT,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_GPU_IS_LOST,
    pynvml.NVML_ERROR_UNKNOWN,
    4711,
)
READ = {
    "nvmlDeviceGetHandleByIndex_v2": (),
    "nvmlDeviceGetUUID": ("", "\xff\xfe", "GPU-a", "GPU x,:"),
    "nvmlDeviceGetName": ("", "\xff\xfe", "a\nb"),
    "nvmlDeviceGetMemoryInfo": (2**64 - 1,),
    "nvmlDeviceGetPciInfo_v3": ("", "\xff", "no bus"),
    "nvmlDeviceGetMinorNumber": (HUGE,),
    "nvmlDeviceGetMigMode": (7, HUGE),
}
"""Asked of each card in each round, with answers that cannot be true."""
WATCHED = {
    "nvmlDeviceGetHandleByUUID": (),
    "nvmlDeviceGetSupportedEventTypes": (),
    "nvmlDeviceRegisterEvents": (),
}
"""Asked of each card when its errors begin to be watched."""
ASIDE = {
    "nvmlDeviceGetMemoryInfo_v2": (2**64 - 1,),
    "nvmlDeviceGetUtilizationRates": (HUGE,),
    "nvmlDeviceGetComputeRunningProcesses_v3": (HUGE,),
    "nvmlDeviceGetTopologyCommonAncestor": (70, HUGE),
    "nvmlDeviceGetNvLinkState": (HUGE,),
    "nvmlSystemGetDriverVersion": ("\xff",),
    "nvmlDeviceGetNvLinkRemotePciInfo_v2": ("\xff",),
    "nvmlDeviceGetNvLinkRemoteDeviceType": (HUGE,),
}
"""Asked about a card without saying anything about its health."""
DIVIDED = {
    "nvmlDeviceGetMaxMigDeviceCount": (HUGE,),
    "nvmlDeviceGetMigDeviceHandleByIndex": (),
    "nvmlDeviceGetGpuInstanceId": (),
    "nvmlDeviceGetComputeInstanceId": (),
}
"""Asked of a divided card in each round."""
ANSWERS = {("nvmlEventSetWait_v2", pynvml.NVML_ERROR_TIMEOUT)}
"""Errors by name that mean that all is well."""
DIVIDING = {
    "nvmlComputeInstanceDestroy": (),
    "nvmlDeviceCreateGpuInstanceWithPlacement": (),
    "nvmlDeviceGetGpuInstanceById": (),
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2": (HUGE,),
    "nvmlDeviceGetGpuInstanceProfileInfoV": (HUGE,),
    "nvmlDeviceGetGpuInstances": (HUGE,),
    "nvmlDeviceSetMigMode": (),
    "nvmlGpuInstanceCreateComputeInstance": (),
    "nvmlGpuInstanceDestroy": (),
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": (HUGE,),
    "nvmlGpuInstanceGetComputeInstances": (HUGE,),
    "nvmlGpuInstanceGetInfo": (HUGE,),
}
"""Asked while a card is divided."""
EVENTS = ("nvmlEventSetCreate", "nvmlEventSetWait_v2")
"""Asked of the driver to learn of errors."""
WHOLE = {"nvmlDeviceGetCount_v2": (HUGE,)}
"""Asked of the driver in each round."""


ONCE = ("nvmlInitWithFlags", "nvmlShutdown", "nvmlEventSetFree")
"""Asked at a beginning or an end."""


class Node:
    """Two cards, the driver that tells them, and what looks after both; every round takes five seconds."""

    def __init__(self, nvml):
        self.nvml = nvml
        self._now_s = 0.0
        settings, health = NodeSettings(node_name="n1"), HealthSettings()
        book = HealthBook(health)
        self.inventory = CardInventory(nvml, settings, book)
        self._watch = HealthWatch(
            nvml, self.inventory, book, health, sleep=lambda _: asyncio.sleep(0), now=lambda: self._now_s
        )

    async def look(self, rounds=1):
        for _ in range(rounds):
            self._now_s += 5
            await self._watch.look()

    async def recover(self):
        self._now_s += HealthSettings().recovery_s
        await self.look()

    @property
    def offered(self):
        return {card.id for card in self.inventory.cards if card.healthy}


def list_failures(functions, *, optional=()):
    """Return each function with each error that it can return and is not allowed to, all but two of them as slow."""
    quick = {ERRORS[0], UNSUPPORTED}
    return [
        pytest.param(function, error, id=f"{function}-{error}", marks=[] if error in quick else pytest.mark.slow)
        for function, error in itertools.product(functions, (*ERRORS, UNSUPPORTED))
        if (function, error) not in ANSWERS and (error != UNSUPPORTED or function not in optional)
    ]


def list_nonsense(functions):
    return [(function, answer) for function, answers in functions.items() for answer in answers]


OPTIONAL = {"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetMigMode"}
