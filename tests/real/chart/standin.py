"""What plays HAMi's part where a cluster is moved.

HAMi's images cannot be had here. gpuloom's processes take its place, in HAMi's ways, under the names that HAMi's chart
gives.
"""

import shutil
from pathlib import Path

import yaml

from harness.helm import CHART

WAYS_OF_HAMI = ["--filter-write=inline", "--trust-annotations", "--lock-wait=group-only", "--no-strip-owned-keys"]


def write_stand_in(chart: Path) -> None:
    """Write a chart that gives the names of HAMi's, in HAMi's ways and without what HAMi does not have."""
    shutil.copytree(CHART, chart)
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump(about | {"name": "hami"}))
    values = yaml.safe_load((chart / "values.yaml").read_text())
    values["scheduler"]["extender"]["extraArgs"] = WAYS_OF_HAMI
    values["scheduler"]["admissionPolicy"]["enabled"] = False
    values["scheduler"]["dashboard"]["enabled"] = False
    for policy in values["policies"].values():
        policy["enabled"] = False
    (chart / "values.yaml").write_text(yaml.safe_dump(values))
