"""What kubelet and scheduler see of a card's errors, over real sockets."""

from dataclasses import replace

import pytest

from gpuloom.node.health import HealthSettings
from gpuloom.node.simulated import Fault
from gpuloom.wire.register import decode_register

REGISTER = "hami.io/node-nvidia-register"


@pytest.fixture
def settings(settings):
    return replace(settings, health=HealthSettings(recovery_s=0.001))


async def test_an_error_withdraws_its_card_until_it_recovers(site):
    site.machine.set_faults([Fault(kind="failing", card=0), Fault(kind="xid", card=0)])
    await site.wait_for_devices(10)
    site.machine.set_faults([])
    await site.wait_for_devices(20)


async def test_the_register_annotation_says_which_card_is_sick(site):
    site.machine.set_faults([Fault(kind="failing", card=1), Fault(kind="xid", card=1)])
    await site.wait_for_node_annotation(
        REGISTER, lambda text: bool(text) and [card.healthy for card in decode_register(text)] == [True, False]
    )


async def test_a_driver_that_hangs_withdraws_all_cards(site):
    site.machine.set_faults([Fault(kind="silent")])
    await site.wait_for_devices(0)


async def test_an_error_of_an_application_withdraws_nothing(site):
    site.machine.set_faults([Fault(kind="xid", card=0, xid=31), Fault(kind="lost", card=1)])
    await site.wait_for_devices(10)
    assert site.kubelet.allocatable == {"nvidia.com/gpu": 10}
