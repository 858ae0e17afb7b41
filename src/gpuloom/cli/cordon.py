"""``gpuloom cordon`` and ``uncordon``: close a card to new pods, and open it."""

import sys

from gpuloom.cli.asking.flags import ClusterFlags
from gpuloom.cli.asking.running import run_for_people
from gpuloom.cli.cardlookup import find_card, tell_cordon
from gpuloom.cli.hamischeduler import tell_of_hami
from gpuloom.cli.names import Name
from gpuloom.client.clusters import open_cluster
from gpuloom.kube.cordons import write_cordon

_CLUSTER = ClusterFlags()


def cordon_card(card: Name, /, *, cluster: ClusterFlags = _CLUSTER) -> None:
    """Close a card to new pods; those that are on it stay.

    Parameters
    ----------
    card:
        UUID of the card, the beginning of it, card/UUID or NODE/INDEX.

    """
    run_for_people(_set_cordon(card, cluster, is_closed=True))


def uncordon_card(card: Name, /, *, cluster: ClusterFlags = _CLUSTER) -> None:
    """Open a card to new pods again.

    Parameters
    ----------
    card:
        UUID of the card, the beginning of it, card/UUID or NODE/INDEX.

    """
    run_for_people(_set_cordon(card, cluster, is_closed=False))


async def _set_cordon(card: str, cluster: ClusterFlags, *, is_closed: bool) -> None:
    async with open_cluster(cluster.way) as (client, _):
        place = await find_card(client, card)
        changed = await write_cordon(client, place, is_closed=is_closed)
        sys.stdout.write(tell_cordon(place, is_closed=is_closed, changed=changed))
        if is_closed:
            await tell_of_hami(client)
