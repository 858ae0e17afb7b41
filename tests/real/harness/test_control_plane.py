"""The harness's own control plane: a real Kubernetes that checks permissions, keeps its data and ends."""

import stat
from pathlib import Path

import pytest

from harness.api import ApiCallError
from harness.controlplane import ControlPlane
from harness.credentials import User
from harness.traces import find_processes

pytestmark = pytest.mark.control_plane

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def test_api_server_tells_its_admin_the_pinned_version(control_plane: ControlPlane) -> None:
    assert control_plane.api.get("/version")["gitVersion"].startswith("v1.")


def test_kubeconfig_is_readable_by_its_owner_only(control_plane: ControlPlane) -> None:
    assert stat.S_IMODE(control_plane.kubeconfig.stat().st_mode) == 0o600


def test_service_account_without_a_role_may_not_list_pods(control_plane: ControlPlane) -> None:
    token = control_plane.create_service_account("default", "nobody")
    with pytest.raises(ApiCallError, match='403 pods is forbidden: User "system:serviceaccount:default:nobody"'):
        control_plane.connect(token).get("/api/v1/pods")


def test_unknown_token_is_refused(control_plane: ControlPlane) -> None:
    with pytest.raises(ApiCallError, match="401 Unauthorized"):
        control_plane.connect("made-up").get("/api/v1/pods")


def test_restarted_api_server_keeps_its_data(own_control_plane: ControlPlane) -> None:
    own_control_plane.api.create(CONFIG_MAPS, {"metadata": {"name": "kept"}, "data": {"answer": "42"}})
    own_control_plane.restart_apiserver()
    assert own_control_plane.api.get(f"{CONFIG_MAPS}/kept")["data"] == {"answer": "42"}


def test_user_given_at_the_start_acts_with_its_groups(control_plane_binaries: None, tmp_path: Path) -> None:
    auditor = User("auditor", ("system:masters",))
    with ControlPlane(tmp_path / "controlplane", users=[auditor]) as running:
        assert "items" in running.connect(auditor.token).get("/api/v1/pods")


def test_control_plane_leaves_no_process_and_no_data(control_plane_binaries: None, tmp_path: Path) -> None:
    with ControlPlane(tmp_path / "controlplane") as running:
        assert find_processes(tmp_path)
    assert find_processes(tmp_path) == []
    assert not (running.directory / "etcd").exists()
