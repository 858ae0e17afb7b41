import pytest

from gpuloom.kube import EVENTS, LEASES, NODES, PODS


def test_core_kinds_live_under_api() -> None:
    assert PODS.path(namespace="ns", name="p", subresource="status") == "/api/v1/namespaces/ns/pods/p/status"


def test_kinds_of_a_group_live_under_apis() -> None:
    assert (
        LEASES.path(namespace="kube-system", name="l") == "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l"
    )


def test_cluster_wide_kinds_have_no_namespace_in_the_path() -> None:
    assert NODES.path(namespace="ignored", name="n") == "/api/v1/nodes/n"


def test_no_name_gives_the_collection() -> None:
    assert PODS.path(namespace="ns") == "/api/v1/namespaces/ns/pods"


def test_no_namespace_gives_the_collection_of_all_namespaces() -> None:
    assert EVENTS.path() == "/api/v1/events"


def test_odd_names_cannot_leave_their_place_in_the_path() -> None:
    assert NODES.path(name="../pods?x") == "/api/v1/nodes/..%2Fpods%3Fx"


def test_a_namespaced_object_needs_its_namespace() -> None:
    with pytest.raises(ValueError, match="Pod p: a namespace is needed"):
        PODS.path(name="p")


def test_a_subresource_needs_an_object() -> None:
    with pytest.raises(ValueError, match="'binding' needs the name"):
        PODS.path(namespace="ns", subresource="binding")


def test_api_version_of_a_group_names_the_group() -> None:
    assert (PODS.api_version, LEASES.api_version) == ("v1", "coordination.k8s.io/v1")
