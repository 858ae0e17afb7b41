"""Which labels nodes are told to get, and which never."""

import pytest

from gpuloom.engine.explanation.labels import is_of_the_node, suggest_labels


@pytest.mark.parametrize(
    ("key", "is_of"),
    [
        ("kubernetes.io/hostname", True),
        ("topology.kubernetes.io/zone", True),
        ("topology.ebs.csi.aws.com/zone", True),
        ("failure-domain.beta.kubernetes.io/zone", True),
        ("feature.node.kubernetes.io/pci-10de.present", True),
        ("node.kubernetes.io/instance-type", True),
        ("node-role.kubernetes.io/gpu", False),
        ("disk", False),
        ("corp.example/pool", False),
        ("mykubernetes.io/pool", False),
    ],
)
def test_labels_that_say_what_a_node_is_are_known(key: str, *, is_of: bool) -> None:
    assert is_of_the_node(key) is is_of


def test_nodes_that_lack_the_label_are_named_before_others_that_have_another() -> None:
    missing = {"n1": ("disk=ssd",), "n2": ("disk=ssd",), "n3": ("disk=ssd",)}
    told = suggest_labels("nodeSelector", missing, {"n1": {"disk": "hdd"}, "n2": {}, "n3": {}})
    assert (told.nodes, told.node_count) == (("n2",), 2)


def test_what_is_no_label_is_not_told_to_be_typed() -> None:
    told = suggest_labels("nodeSelector", {"n1": ("disk=$(reboot)",)}, {"n1": {}})
    assert told.text == "would fit on n1 without the pod's nodeSelector"


def test_labels_of_several_keys_are_given_by_one_command() -> None:
    told = suggest_labels("required node affinity", {"n1": ("disk=ssd", "zone=a")}, {"n1": {}})
    assert told.text == (
        "would fit on n1 if labelled disk=ssd and zone=a (kubectl label node n1 disk=ssd zone=a), "
        "or without the pod's required node affinity"
    )
