"""Annotation and label keys, and the few fixed words that stand in their values (wire protocol 2 and 3)."""

from typing import Final

# On nodes.
NODE_REGISTER: Final = "hami.io/node-nvidia-register"
NODE_HANDSHAKE: Final = "hami.io/node-handshake"
NODE_LOCK: Final = "hami.io/mutex.lock"
NODE_PAIR_SCORES: Final = "hami.io/node-nvidia-score"
NODE_CORDON: Final = "hami.io/device-cordon"
NODE_SERVES: Final = "gpuloom.io/serves"
NODE_MOVING: Final = "gpuloom.io/closed-for-moves"
NODE_DEFRAG: Final = "gpuloom.io/closed-for-defrag"
NODE_DEFRAG_RENEWED: Final = "gpuloom.io/defrag-renewed"

# On pods, written by gpuloom; VGPU_NODE is a label as well.
VGPU_NODE: Final = "hami.io/vgpu-node"
VGPU_TIME: Final = "hami.io/vgpu-time"
DEVICES_TO_ALLOCATE: Final = "hami.io/vgpu-devices-to-allocate"
DEVICES_ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
MIG_ALLOCATIONS: Final = "hami.io/vgpu-mig-allocations"
BIND_PHASE: Final = "hami.io/bind-phase"
BIND_TIME: Final = "hami.io/bind-time"

# On pods, written by users.
NODE_POLICY: Final = "hami.io/node-scheduler-policy"
CARD_POLICY: Final = "hami.io/gpu-scheduler-policy"
WEIGHTS: Final = "hami.io/device-scoring-weights"
LIMIT_WHOLE_CARDS: Final = "nvidia.com/limit-whole-cards"

# On pods, written by gpuloom alone.
WOKEN: Final = "gpuloom.io/woken"
NOMINATED: Final = "gpuloom.io/nominated"

OWNED_PREFIX: Final = "gpuloom.io/"
OWNED_POD_ANNOTATIONS: Final = frozenset(
    {VGPU_NODE, VGPU_TIME, DEVICES_TO_ALLOCATE, DEVICES_ALLOCATED, MIG_ALLOCATIONS, BIND_PHASE, BIND_TIME}
)
OWNED_POD_LABELS: Final = frozenset({VGPU_NODE})
"""What only gpuloom (or HAMi) may write on a pod (binding 6), besides what vendors' profiles name.

Annotations below OWNED_PREFIX belong to it too, and lists of devices of vendors and chips that nobody knows yet.
"""
SHARED_PREFIX: Final = "hami.io/"
OWNED_SUFFIXES: Final = ("-devices-to-allocate", "-devices-allocated")
"""The ends of keys of device lists, for any vendor."""

PHASE_ALLOCATING: Final = "allocating"
PHASE_SUCCESS: Final = "success"
PHASE_FAILED: Final = "failed"

COMPONENT_LABEL: Final = "app.kubernetes.io/component"
PLUGIN_COMPONENT: Final = "hami-device-plugin"
"""Label of the pods of device plugins, as HAMi's chart and gpuloom's set it."""

POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""Label of pods that start together."""

LABEL_VALUE_LIMIT: Final = 63
"""Longest label value that Kubernetes accepts; a longer node name gets no label (scheduler B-21)."""


def is_owned_annotation(key: str) -> bool:
    """Whether only gpuloom may write this pod annotation."""
    if key in OWNED_POD_ANNOTATIONS or key.startswith(OWNED_PREFIX):
        return True
    return key.startswith(SHARED_PREFIX) and key.endswith(OWNED_SUFFIXES)
