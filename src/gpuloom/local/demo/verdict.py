"""Whether a picture is what its scene promised. The demo checks itself with it."""

from gpuloom.local.demo.picture import ClusterPicture
from gpuloom.local.demo.story import Scene


def find_faults(picture: ClusterPicture, scene: Scene) -> list[str]:
    """List what is wrong, one sentence each: nothing over-allocated, the right pods run, the others say why not."""
    faults = [
        f"{node.name} card {card.card.index} is over-allocated: {card.used.memory_mib} of {card.card.memory_mib} MiB, "
        f"{card.used.cores} of {card.card.cores} % cores, {card.used.slots} of {card.card.count} pods"
        for node in picture.nodes
        for card in node.cards
        if card.is_overfull
    ]
    faults += [f"{node.name} {node.problem}" for node in picture.nodes if node.problem]
    placed = {name for node in picture.nodes for card in node.cards for name in card.pods}
    faults += [f"pod {name} failed: {message}" for name, message in sorted(picture.failed.items())]
    faults += [f"pod {name} does not run" for name in sorted(scene.running - picture.running)]
    faults += [f"pod {name} runs without a card" for name in sorted((scene.running & picture.running) - placed)]
    faults += [f"pod {name} runs although it should wait" for name in sorted(scene.waiting & picture.running)]
    explained = {pod.name for pod in picture.waiting if pod.reasons}
    faults += [f"pod {name} waits without a reason" for name in sorted(scene.waiting - explained - picture.running)]
    faults += [f"pod {name} is still there" for name in sorted(picture.running.intersection(scene.leaves))]
    told = {(one.pod, one.reason) for one in picture.happened}
    faults += [f"no event {reason} tells of pod {name}" for name, reason in sorted(scene.happened - told)]
    return faults
