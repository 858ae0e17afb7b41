"""Oracle and engine side by side for vendors' recordings.

Run by hand for any seeds of a kind of case, or of ``all``: ``python -m oracle.vendors.agreement Ascend910 0 2000``.
"""

import sys

from oracle.agreement import find_difference
from oracle.vendors.cases import KINDS, case_from_seed
from oracle.vendors.replay import VendorReplay


def find_difference_of(kind: str, seed: int) -> str:
    """Return what the two answer differently first in a seed's recording; empty if they agree."""
    return find_difference(case_from_seed(kind, seed), VendorReplay())


def main(kinds: list[str], first: int, last: int) -> int:
    """Compare the cases of some seeds; print those that differ."""
    differing = 0
    for kind in kinds:
        for seed in range(first, last):
            if difference := find_difference_of(kind, seed):
                differing += 1
                print(f"{kind}, seed {seed}: {difference}")
    print(f"{(last - first) * len(kinds)} cases, {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(list(KINDS) if sys.argv[1] == "all" else [sys.argv[1]], int(sys.argv[2]), int(sys.argv[3])))
