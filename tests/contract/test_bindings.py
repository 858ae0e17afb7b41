"""Bindings: one write that assigns a pod and annotates it (binding 3)."""

from contract.client import Client, binding


async def test_a_binding_assigns_the_node_and_annotates_in_one_version(api: Client) -> None:
    created = await api.create_pod("p")
    version = created["metadata"]["resourceVersion"]
    async with api.watch(api.pods, resourceVersion=version) as lines:
        answer = await api.bind("p", "n1", uid=created["metadata"]["uid"], annotations={"a": "1"})
        bound = (await lines.next())["object"]
    assert (answer.code, answer.json["status"]) == (201, "Success")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"a": "1"}


async def test_a_binding_keeps_other_annotations_and_overwrites_its_own(api: Client) -> None:
    await api.create_pod("p")
    await api.patch(f"{api.pods}/p", {"metadata": {"annotations": {"kept": "1", "changed": "old"}}})
    await api.assign("p", annotations={"changed": "new"})
    annotations = (await api.get(f"{api.pods}/p"))["metadata"]["annotations"]
    assert annotations == {"kept": "1", "changed": "new"}


async def test_labels_of_a_binding_are_copied_by_newer_servers_only(api: Client) -> None:
    """The local one does as older ones, so that what gpuloom does without is tested on it."""
    await api.create_pod("p")
    await api.assign("p", labels={"a": "1"})
    metadata = (await api.get(f"{api.pods}/p"))["metadata"]
    is_older = await api.is_local() or await api.minor() < 35
    assert metadata.get("labels") == (None if is_older else {"a": "1"})


async def test_a_bound_pod_is_scheduled(api: Client) -> None:
    await api.create_pod("p")
    await api.assign("p")
    (condition,) = (await api.get(f"{api.pods}/p"))["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


async def test_a_bound_pod_is_not_bound_again(api: Client) -> None:
    await api.create_pod("p")
    await api.assign("p", "n1")
    answer = await api.bind("p", "n2")
    assert answer.code == 409
    assert answer.json["reason"] == "Conflict"
    assert answer.message == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
    )
    assert answer.json["details"] == {"name": "p", "kind": "pods/binding"}


async def test_another_pod_of_the_same_name_is_not_bound(api: Client) -> None:
    created = await api.create_pod("p")
    answer = await api.bind("p", uid="another")
    assert answer.code == 409
    assert answer.json["details"] == {"name": "p", "kind": "pods"}
    uid = created["metadata"]["uid"]
    assert f"Precondition failed: UID in precondition: another, UID in object meta: {uid}" in answer.message
    assert "nodeName" not in (await api.get(f"{api.pods}/p"))["spec"]


async def test_a_terminating_pod_is_not_bound(api: Client) -> None:
    await api.create_pod("p")
    await api.patch(f"{api.pods}/p", {"metadata": {"finalizers": ["example.com/kept"]}})
    await api.delete(f"{api.pods}/p")
    answer = await api.bind("p")
    assert answer.code == 409
    assert answer.message == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is being deleted, cannot be assigned to a host'
    )
    await api.patch(f"{api.pods}/p", {"metadata": {"finalizers": None}})


async def test_a_missing_pod_is_not_found(api: Client) -> None:
    answer = await api.bind("none")
    assert (answer.code, answer.message) == (404, 'pods "none" not found')


async def test_a_binding_without_a_target_is_refused(api: Client) -> None:
    await api.create_pod("p")
    answer = await api.call("POST", f"{api.pods}/p/binding", binding("p", ""))
    assert answer.code == 500
    assert answer.message == "target.name: Required value"
