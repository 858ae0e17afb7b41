"""Why a question has no answer. Every message is one line that names the object and says what to do."""


class AskingError(Exception):
    """A question has no answer."""


class MisusedError(AskingError):
    """What was given to ask with is wrong."""


class DeclinedError(AskingError):
    """The scheduler has looked at what it was asked, and refuses it."""


class UnknownObjectError(DeclinedError):
    """There is no such node, card or pod."""


class UnansweredError(AskingError):
    """It cannot be told: nobody could be asked, or they do not let us."""


class UnauthenticatedError(UnansweredError):
    """The token is wrong or has expired, or there is none where one is needed."""


class NoWayError(UnansweredError):
    """The API server does not lead to the scheduler; somebody else may answer."""
