"""Every annotation key of every family: whose it is, in which format, and that the format is read as it is written.

The rows are those of wire protocol 2, 3.1, 3.5 and of the families' table (vendors 2.1, 2.3); a key of a profile
that stands in no row fails.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from unit.vendors.annotationcodecs import CATALOG, CODECS, PLAIN, read_node
from unit.wire.strategies import csv_cards, naturals, spoiled, uuids

from gpuloom.engine.decision.annotations import write_decision
from gpuloom.engine.request.demand import read_demand
from gpuloom.engine.request.options import Options
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.engine.state.allocations import read_decided_at, read_instances, read_shares, read_tenancies
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.model.card import Card
from gpuloom.model.share import Share
from gpuloom.vendors.catalog import load_shipped
from gpuloom.vendors.hooks import read_cards
from gpuloom.vendors.profile import Profile
from gpuloom.wire import keys
from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Node, NodeStatus, ObjectMeta, Pod
from gpuloom.wire.register import encode_register

ASCEND = ("Ascend310P", "Ascend910A", "Ascend910B2", "Ascend910B3", "Ascend910B4", "Ascend910B4-1", "Ascend910C")
ILUVATAR = ("BI-V100", "BI-V150", "MR-V100", "MR-V50")


each_family = pytest.mark.parametrize("profile", CATALOG.profiles, ids=[profile.word for profile in CATALOG])


ONE_OF_EACH = [
    next(profile for profile in CATALOG if profile.word == family.profiles[0].word) for family in load_shipped()
]
one_of_each = pytest.mark.parametrize("profile", ONE_OF_EACH, ids=[profile.word for profile in ONE_OF_EACH])
"""Chips of one family have the same formats."""


def lists(prefix: str) -> tuple[str, str]:
    return f"hami.io/{prefix}-devices-to-allocate", f"hami.io/{prefix}-devices-allocated"


# Vendors 2.1: to-allocate, allocated, node register, handshake.
TABLE: dict[str, tuple[str, str, str, str]] = {
    "NVIDIA": (*lists("vgpu"), "hami.io/node-nvidia-register", "hami.io/node-handshake"),
    "MLU": (*lists("cambricon-mlu"), "", ""),
    "DCU": (*lists("dcu"), "hami.io/node-dcu-register", "hami.io/node-handshake-dcu"),
    **{word: (*lists(word), f"hami.io/node-{word}-register", f"hami.io/node-handshake-{word}") for word in ILUVATAR},
    "Iluvatar": (*lists("iluvatar-vgpu"), "", ""),
    "Mthreads": ("", "hami.io/mthreads-vgpu-devices-allocated", "", ""),
    "Metax-GPU": (*lists("metax-gpu"), "", ""),
    "Metax-SGPU": (*lists("metax-sgpu"), "metax-tech.com/node-gpu-devices", ""),
    **{word: (*lists(word), f"hami.io/node-register-{word}", f"hami.io/node-handshake-{word}") for word in ASCEND},
    "Enflame": ("", "hami.io/enflame-vgpu-devices-allocated", "enflame.com/gcu-drs-capacity", ""),
    "GCU": (*lists("enflame-gcu"), "", ""),
    "kunlun": ("", "hami.io/kunlun-allocated", "", ""),
    "XPU": (*lists("xpu"), "hami.io/node-register-xpu", "hami.io/node-handshake-xpu"),
    "AWSNeuron": ("", "hami.io/aws-neuron-devices-allocated", "", ""),
    "AMD": (*lists("amd"), "hami.io/node-amd-register", ""),
    "Vastai": (*lists("Vastai"), "hami.io/node-va-register", "hami.io/node-handshake-va"),
    "Biren": (*lists("Biren"), "hami.io/node-biren-register", "hami.io/node-handshake-biren"),
}
# Every other key of a family: vendors 2.3 and 4, wire protocol 3.5.
UUIDS = {
    **dict.fromkeys(("nvidia.com", "cambricon.com", "hygon.com", "mthreads.ai"), "{}/use-gpuuuid {}/nouse-gpuuuid"),
    **dict.fromkeys(("metax-tech.com", "enflame.com", "vastaitech.com"), "{}/use-gpuuuid {}/nouse-gpuuuid"),
    **dict.fromkeys(("birentech.com", "baidu.com", "iluvatar.ai"), "{}/use-gpuuuid {}/nouse-gpuuuid"),
    **dict.fromkeys(("xpu", *ASCEND, *ILUVATAR), "hami.io/use-{}-uuid hami.io/no-use-{}-uuid"),
    "amd.com": "{}/use-gpu-uuid {}/nouse-gpu-uuid",
    "aws.amazon.com": "{}/use-neuron-uuid {}/nouse-neuron-uuid",
}
BESIDE: dict[str, str] = {
    **{key: "list" for name, pair in UUIDS.items() for key in pair.replace("{}", name).split()},
    **dict.fromkeys(("nvidia.com/use-gputype", "nvidia.com/nouse-gputype"), "list"),
    **dict.fromkeys(("hygon.com/use-dcutype", "hygon.com/nouse-dcutype"), "list"),
    **dict.fromkeys(("amd.com/use-gputype", "amd.com/nouse-gputype"), "list"),
    **dict.fromkeys(("nvidia.com/numa-bind", "metax-tech.com/sgpu-topology-aware", "hami-vnpu-core"), "boolean"),
    **dict.fromkeys(("nvidia.com/vgpu-mode", "huawei.com/vnpu-mode"), "word"),
    **dict.fromkeys(("metax-tech.com/sgpu-app-class", "metax-tech.com/sgpu-qos-policy"), "word"),
    "hami.io/node-nvidia-score": "pair scores",
    "hami.io/vgpu-mig-allocations": "instances",
    **dict.fromkeys(("metax-tech.com/gpu.topology.losses", "metax-tech.com/gpu.topology.scores"), "losses"),
    "CAMBRICON_DSMLU_PROFILE": "index, cores and units",
    **dict.fromkeys(("CAMBRICON_DSMLU_ASSIGNED", "CAMBRICON_DSMLU_ASSIGHED"), "boolean"),
    **dict.fromkeys(("iluvatar.ai/gpu-assigned", "enflame.com/gcu-assigned", "NEURON_ALLOCATED"), "boolean"),
    **dict.fromkeys(("iluvatar.ai/predicate-time", "mthreads.com/predicate-time"), "number"),
    **dict.fromkeys(("metax-tech.com/predicate-time", "predicate-time", "NEURON_ALLOC_TIME"), "number"),
    **dict.fromkeys(("enflame.com/gcu-assigned-time", "enflame.com/gcu-request-size"), "number"),
    **{f"enflame.com/gcu-assigned-{part}": "number" for part in ("index", "id", "minor")},
    **dict.fromkeys(("mthreads.com/gpu-index", "BAIDU_COM_DEVICE_IDX", "AWS_NEURON_IDS"), "list"),
    **dict.fromkeys(("mthreads.com/predicate-node", "aws.amazon.com/predicate-node", "NEURON_RESOURCE_TYPE"), "word"),
    "metax-tech.com/gpu-devices-allocated": "shares of zones",
    **{f"huawei.com/{word}": "shares of templates" for word in ASCEND},
    "assigned-containers": "slices",
    "hami.io/mutex.lock": "lock",
    "cambricon.com/dsmlu.lock": "lock",
}
# Wire protocol 2, 3.1 and 3.5: what is no family's.
COMMON: dict[str, str] = {
    keys.NODE_LOCK: "lock",
    keys.NODE_CORDON: "list",
    keys.NODE_MOVING: "list",
    keys.NODE_DEFRAG: "list",
    keys.NODE_DEFRAG_RENEWED: "word",
    keys.VGPU_NODE: "word",
    keys.VGPU_TIME: "number",
    keys.BIND_TIME: "number",
    keys.BIND_PHASE: "word",
    keys.NODE_POLICY: "word",
    keys.CARD_POLICY: "list",
    keys.WEIGHTS: "weights",
    keys.WOKEN: "number",
    keys.LIMIT_WHOLE_CARDS: "word",
    keys.NOMINATED: "nomination",
    keys.NODE_SERVES: "serves",
}
REGISTERS = {"Metax-SGPU": "zoned cards", "Enflame": "sliced cards"}


def formats() -> dict[str, str]:
    found = {**BESIDE, **COMMON}
    for word, (to_allocate, allocated, register, handshake) in TABLE.items():
        found |= {to_allocate: "device list", allocated: "device list", handshake: "handshake"}
        found[register] = REGISTERS.get(word, "register")
    del found[""]
    return found


FORMATS = formats()


def keys_of(profile: Profile) -> set[str]:
    return {*profile.owned_keys, *profile.select.all, *profile.node_keys, profile.lock.key} - {""}


@each_family
def test_the_keys_of_a_family_are_those_of_its_row(profile: Profile) -> None:
    write = profile.write
    found = (write.to_allocate, write.allocated, profile.cards.register, profile.health.handshake)
    assert found == TABLE[profile.word]


def test_every_row_has_its_family() -> None:
    assert set(TABLE) == {profile.word for profile in CATALOG}


@each_family
def test_every_key_of_a_family_has_a_format(profile: Profile) -> None:
    assert keys_of(profile) - set(FORMATS) == set()


def test_every_key_with_a_format_is_used() -> None:
    used = set().union(*(keys_of(profile) for profile in CATALOG))
    assert set(FORMATS) - used == COMMON.keys() - {keys.NODE_LOCK}


def test_every_common_key_has_a_format() -> None:
    named = {value for name, value in vars(keys).items() if name.isupper() and isinstance(value, str) and "/" in value}
    assert named - set(FORMATS) == {
        *(keys.OWNED_PREFIX, keys.SHARED_PREFIX),
        *(keys.POD_GROUP_LABEL, keys.COMPONENT_LABEL),
    }


def test_every_format_has_a_codec() -> None:
    assert set(FORMATS.values()) == set(CODECS) | PLAIN


@pytest.mark.slow
@pytest.mark.parametrize("name", CODECS)
@given(data=st.data())
def test_what_is_written_is_read_again(name: str, data: st.DataObject) -> None:
    codec = CODECS[name]
    value = data.draw(codec.values)
    assert codec.read(codec.write(value)) == value


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, codec in CODECS.items() for text in codec.seen])
def test_what_others_wrote_is_written_byte_for_byte(name: str, text: str) -> None:
    codec = CODECS[name]
    assert codec.write(codec.read(text)) == text


@pytest.mark.slow
@pytest.mark.parametrize("profile", [one for one in ONE_OF_EACH if FORMATS.get(one.cards.register) == "register"])
@given(form=st.sampled_from(["csv7", "csv9", "json"]), cards=csv_cards)
def test_every_family_reads_its_register_in_every_form(profile: Profile, form: Any, cards: tuple[Card, ...]) -> None:
    read = read_node(profile.word, encode_register(cards, form))
    assert [(one.id, one.count, one.memory_mib, one.numa, one.healthy) for one in read] == [
        (one.id, one.count, one.memory_mib, one.numa, one.healthy) for one in cards
    ]


@pytest.mark.slow
@one_of_each
@given(shares=st.lists(st.lists(st.tuples(uuids, naturals, naturals), min_size=1, max_size=2), min_size=1, max_size=2))
def test_what_a_decision_writes_of_a_family_is_what_a_pod_is_read_to_hold(profile: Profile, shares: Any) -> None:
    given_ = tuple(tuple(Share(uuid, profile.word, mib, cores) for uuid, mib, cores in each) for each in shares)
    reservation = Reservation(
        "u", "ns", "p", "node1", {profile.word: given_}, (), ReservationStatus.ASSUMED, 0.0, 1732072495
    )
    written = {key: text for key, text in write_decision(reservation, CATALOG).items() if text is not None}
    pod = Pod(metadata=ObjectMeta(name="p", annotations=written))
    assert read_shares(pod, CATALOG)[profile.word] == (*given_, ())
    assert (written[keys.VGPU_NODE], read_decided_at(pod)) == ("node1", 1732072495)


def look_at_node(profile: Profile, text: str) -> None:
    """Read a node all of whose annotations of a family say the same."""
    annotations = dict.fromkeys(profile.node_keys, text)
    node = Node(metadata=ObjectMeta(name="n", annotations=annotations), status=NodeStatus(capacity={}))
    try:
        read_cards(node, profile)
    except WireError:
        return


def look_at_pod(profile: Profile, text: str) -> None:
    """Read a pod all of whose annotations of a family, and common ones, say the same."""
    annotations = dict.fromkeys({*keys_of(profile), *COMMON}, text)
    pod = Pod(metadata=ObjectMeta(name="p", annotations=annotations))
    for read in (
        lambda: read_shares(pod, CATALOG),
        lambda: read_instances(pod, CATALOG),
        lambda: read_tenancies(pod, CATALOG),
        lambda: read_demand(pod, profile, Options()),
        lambda: read_decided_at(pod),
    ):
        try:
            read()
        except (WireError, PolicyError):
            continue


broken = st.text(max_size=40) | st.sampled_from([text for codec in CODECS.values() for text in codec.seen]).flatmap(
    lambda text: spoiled(text.encode()).map(lambda found: found.decode(errors="surrogateescape"))
)


@pytest.mark.slow
@one_of_each
@pytest.mark.parametrize("look", [look_at_node, look_at_pod])
@given(text=broken)
@example(text="[" * 5000)
@example(text="9" * 5000)
@example(text="\ud800")
@example(text="{}")
@example(text="[{}]")
def test_no_text_of_any_key_raises_anything_but_the_rooms_own_error(
    look: Callable[[Profile, str], None], profile: Profile, text: str
) -> None:
    look(profile, text)
