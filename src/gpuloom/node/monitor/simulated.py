"""What happens on simulated cards: nothing, until a test or a demonstration says otherwise."""

from dataclasses import replace

from gpuloom.node.errors import MachineError
from gpuloom.node.monitor.cards import CardProcess, CardReading, CardUse
from gpuloom.node.simulated import SimulatedMachine


class SimulatedCardUse:
    """See :class:`~gpuloom.node.monitor.cards.CardUseSource`. ``is_held`` tells whether the driver is in use."""

    def __init__(self, machine: SimulatedMachine) -> None:
        self.is_held = False
        self._machine = machine
        self._processes: dict[str, tuple[CardProcess, ...]] = {}
        self._percents: dict[str, tuple[int, int]] = {}

    def run(self, card_uuid: str, *processes: CardProcess) -> None:
        """Set the processes that compute on a card.

        Raises MachineError when the machine has no such card.
        """
        self._check(card_uuid)
        self._processes[card_uuid] = processes

    def set_load(self, card_uuid: str, *, gpu_percent: int, memory_controller_percent: int) -> None:
        """Set how busy a card is.

        Raises MachineError when the machine has no such card.
        """
        self._check(card_uuid)
        self._percents[card_uuid] = (gpu_percent, memory_controller_percent)

    async def read(self) -> CardReading:
        """See :class:`~gpuloom.node.monitor.cards.CardUseSource`."""
        gpus = await self._machine.read_gpus()
        self.is_held = True
        cards = tuple(self._describe(CardUse(gpu.uuid, gpu.index, gpu.name, 0, 0, 0)) for gpu in gpus if gpu.healthy)
        return CardReading(cards, {f"card {gpu.index}": "is lost" for gpu in gpus if not gpu.healthy})

    async def release(self) -> None:
        """See :class:`~gpuloom.node.monitor.cards.CardUseSource`."""
        self.is_held = False

    def _describe(self, card: CardUse) -> CardUse:
        processes = self._processes.get(card.uuid, ())
        gpu_percent, memory_controller_percent = self._percents.get(card.uuid, (0, 0))
        return replace(
            card,
            memory_used_bytes=sum(process.memory_bytes or 0 for process in processes),
            gpu_percent=gpu_percent,
            memory_controller_percent=memory_controller_percent,
            processes=processes,
        )

    def _check(self, card_uuid: str) -> None:
        if all(gpu.uuid != card_uuid for gpu in self._machine.gpus):
            raise MachineError(f"the simulated machine has no card {card_uuid}")
