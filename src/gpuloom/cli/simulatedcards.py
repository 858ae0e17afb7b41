"""``--cards``: a simulated machine in the place of NVIDIA's driver."""

from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.node.errors import MachineError
from gpuloom.node.simulated import SimulatedMachine


def load_cards(node_name: str, cards: str) -> SimulatedMachine:
    """Make the simulated machine that ``--cards`` names.

    Raises CommandError.
    """
    try:
        return SimulatedMachine.load(node_name, cards)
    except MachineError as error:
        raise CommandError(str(error), ExitCode.USAGE) from error
