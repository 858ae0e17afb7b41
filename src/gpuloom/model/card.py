"""A card as its node registered it."""

import msgspec

from gpuloom.model.mig import MigProfile


class Card(msgspec.Struct, frozen=True, gc=False):
    """One accelerator card (GPU, NPU, ...) of one node, as registered: what there is, not what is used.

    ``count`` says how many containers may share the card, ``cores`` is in per cent (100 = one whole card), ``model``
    is the ``type`` of the wire (``NVIDIA A40``), ``mode`` how the card is shared (``hami-core``, ``mig``, ``mps``),
    ``mig_profiles`` what a card in mode ``mig`` can be divided into.

    group   name of the cards that this one is well linked with (a network, a board), empty for none
    policy  how the card's cores are shared out now, as its node sees it, empty if not set
    custom  what else a node plugin registered, under the plugin's names
    """

    id: str
    index: int = 0
    count: int = 0
    memory_mib: int = 0
    cores: int = 0
    model: str = ""
    numa: int = 0
    mode: str = ""
    healthy: bool = False
    mig_profiles: tuple[MigProfile, ...] = ()
    group: str = ""
    policy: str = ""
    custom: tuple[tuple[str, str | int | bool], ...] = ()
