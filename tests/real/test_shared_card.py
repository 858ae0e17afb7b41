"""The whole way of a pod on a real Kubernetes: webhook, extender, binding, device plugin, container."""

from pathlib import Path

import pytest
from real.sharedcard import TWO_SMALL_CARDS, check_shared_cards

from harness.cluster import Cluster
from harness.gpuloom import Installation

pytestmark = [pytest.mark.control_plane, pytest.mark.real_node, pytest.mark.timeout(600)]


def test_pods_share_cards_and_one_that_does_not_fit_waits_for_room(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Installation(cluster, tmp_path / "gpuloom", machine=TWO_SMALL_CARDS):
        waited_s = check_shared_cards(cluster)
    with capsys.disabled():
        print(f"\nfrom room on a card to Running: {waited_s:.2f} s")
