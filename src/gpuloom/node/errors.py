"""What can go wrong on a node; each message names the object, who is at fault and what to do."""


class NodeError(Exception):
    """Base of every error of this package."""


class ConfigurationError(NodeError):
    """A setting or a configuration file cannot be used; the message names it."""


class MachineError(NodeError):
    """A machine description cannot be used; the message names the file and the key."""


class CardReadError(NodeError):
    """The cards of the machine cannot be read now; a later try may work."""


class DriverMissingError(CardReadError):
    """This machine has no NVIDIA driver, or none that works."""


class DriverSilentError(CardReadError):
    """The driver did not answer in time, as it does when a card hangs."""


class WatchLostError(CardReadError):
    """The driver lost a card, and must be asked afresh to report the errors of the others."""


class HalfMadeError(CardReadError):
    """A MIG instance could neither be finished nor taken back, so there is one that nobody asked for."""


class KubeletError(NodeError):
    """The kubelet cannot be reached or refused the plugin."""


class CrashLoopError(NodeError):
    """The plugin's server ended too often to be started again."""


class AllocationError(NodeError):
    """An Allocate call is refused.

    The message is for the log. ``told`` is what the kubelet shows on a pod: it names no pod of another namespace.
    """

    def __init__(self, message: str, told: str = "") -> None:
        super().__init__(message)
        self.told = told or message


class NoRoomError(AllocationError):
    """A grant would give away more of a card than there is; the message names card and pods."""


class UnclearError(AllocationError):
    """It is not clear for which pod an Allocate call is; a moment later it may be."""
