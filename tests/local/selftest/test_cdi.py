"""How a container's OCI specification is edited by CDI names, and what a container sees of the machine."""

import json

import pytest

from gpuloom.local.selftest.cdi import CdiError, apply_edits, decode_spec, find_edits
from gpuloom.local.selftest.rootfs import make_rootfs, mount_all
from gpuloom.node.response import Mount

KIND = "vendor.example/gpu"
CONTAINER = {
    "process": {"args": ["true"], "user": {"uid": 0}, "env": ["A=1", "B=2"]},
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
    "linux": {"resources": {"devices": [{"allow": False, "access": "rwm"}]}},
}
HOOK = {"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook", "args": ["nvidia-cdi-hook", "x"]}


def describe(*, common=None, **devices):
    named = [{"name": name, "containerEdits": edits} for name, edits in devices.items()]
    text = {"cdiVersion": "0.5.0", "kind": KIND, "devices": named, "containerEdits": common or {}}
    return decode_spec("a.json", json.dumps(text).encode())


def edit(spec, *names):
    return apply_edits(CONTAINER, find_edits([f"{KIND}={name}" for name in names], [spec]), lambda _: ("c", 195, 7))


def test_variables_of_a_device_replace_those_of_the_same_name():
    edited = edit(describe(one={"env": ["B=3", "C=4"]}), "one")
    assert edited["process"]["env"] == ["A=1", "B=3", "C=4"]


def test_what_all_devices_of_a_kind_have_is_there_once():
    edited = edit(describe(common={"hooks": [HOOK]}, one={}, two={}), "one", "two")
    told = {key: value for key, value in HOOK.items() if key != "hookName"}
    assert edited["hooks"] == {"createContainer": [told]}


def test_a_device_file_may_be_used_and_has_the_numbers_of_the_machines():
    edited = edit(describe(one={"deviceNodes": [{"path": "/dev/nvidia7"}]}), "one")
    assert edited["linux"]["devices"] == [{"path": "/dev/nvidia7", "type": "c", "major": 195, "minor": 7}]
    rule = {"allow": True, "type": "c", "major": 195, "minor": 7, "access": "rwm"}
    assert edited["linux"]["resources"]["devices"][1:] == [rule]


def test_a_device_file_that_is_described_in_full_is_as_described():
    node = {"path": "/dev/a", "type": "b", "major": 8, "minor": 1, "fileMode": 438, "permissions": "r", "gid": 44}
    edited = edit(describe(one={"deviceNodes": [node]}), "one")
    expected = {"path": "/dev/a", "type": "b", "major": 8, "minor": 1, "fileMode": 438, "gid": 44}
    assert edited["linux"]["devices"] == [expected]
    assert edited["linux"]["resources"]["devices"][1]["access"] == "r"


def test_what_is_mounted_into_another_mount_comes_after_it():
    mounts = [{"hostPath": "/h", "containerPath": path, "options": ["ro", "rbind"]} for path in ("/usr/lib/x", "/usr")]
    edited = edit(describe(one={"mounts": mounts}), "one")
    assert [mount["destination"] for mount in edited["mounts"]] == ["/proc", "/usr", "/usr/lib/x"]
    assert edited["mounts"][1] == {"destination": "/usr", "source": "/h", "type": "bind", "options": ["ro", "rbind"]}


def test_groups_are_added():
    assert edit(describe(one={"additionalGids": [44]}), "one")["process"]["user"] == {"uid": 0, "additionalGids": [44]}


def test_the_first_specification_stays_as_it_is():
    before = json.dumps(CONTAINER)
    edit(describe(common={"hooks": [HOOK]}, one={"env": ["A=9"], "deviceNodes": [{"path": "/dev/x"}]}), "one")
    assert json.dumps(CONTAINER) == before


def test_a_name_that_nobody_describes_is_named():
    with pytest.raises(CdiError, match=r"no CDI specification has vendor\.example/gpu=two"):
        edit(describe(one={}), "two")


@pytest.mark.parametrize("text", [b"{", b'{"kind": 1, "devices": []}', b'{"kind": "a/b", "devices": [{}]}'])
def test_a_description_that_cannot_be_read_is_named(text):
    with pytest.raises(CdiError, match=r"CDI specification a\.json: "):
        decode_spec("a.json", text)


def test_a_container_sees_the_folders_of_the_machine_and_writes_beside_them(tmp_path):
    for name in ("usr", "etc", "home"):
        (tmp_path / "machine" / name).mkdir(parents=True)
    (tmp_path / "machine" / "bin").symlink_to("usr/bin")
    rootfs = make_rootfs(tmp_path / "one", tmp_path / "machine")
    laid = {mount["destination"]: mount["options"] for mount in rootfs.mounts if mount["type"] == "overlay"}
    assert laid.keys() == {"/usr", "/etc"}
    assert laid["/usr"][0] == f"lowerdir={tmp_path}/machine/usr"
    assert all(option.partition("=")[2].startswith(f"{tmp_path}/one/") for option in laid["/usr"][1:])
    assert str((rootfs.root / "bin").readlink()) == "usr/bin"


def test_without_a_limiter_the_file_that_names_it_is_empty():
    mounts = [Mount("/etc/ld.so.preload", "/host/preload", read_only=True), Mount("/a", "/host/a", read_only=False)]
    sources = {loaded: [each["source"] for each in mount_all(mounts, is_loaded=loaded)] for loaded in (True, False)}
    assert sources == {True: ["/host/preload", "/host/a"], False: ["/dev/null", "/host/a"]}
    assert [each["options"] for each in mount_all(mounts, is_loaded=True)] == [["rbind", "ro"], ["rbind", "rw"]]
