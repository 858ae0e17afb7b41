"""What is wrong with the input of a simulation."""


class SimulationError(ValueError):
    """A simulation cannot be run as asked; the message is one line that says what is wrong and what is expected."""
