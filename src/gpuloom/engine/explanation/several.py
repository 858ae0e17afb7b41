"""What each of several vendors says of a pod that asks for their cards (vendors 0.3).

Told card by card is the vendor of whose cards the fewest nodes would do; the others are summed up beside it. Nodes fit
where all vendors do.
"""

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.explanation.summing import count_reasons
from gpuloom.engine.explanation.values import VendorVerdict
from gpuloom.engine.request.demand import Demand
from gpuloom.engine.state.ledger import Reservation

NOT_TOGETHER = "each vendor's cards would do on some node, but no node has all that the pod asks for"


def tell_vendor_alone(word: str, demand: Demand, decision: Decision) -> VendorVerdict:
    """Say on how many nodes the cards of one vendor would do by themselves."""
    fitting = len(decision.fitting)
    return VendorVerdict(
        vendor=word,
        standing="satisfied" if fitting else "in the way",
        cards=sum(request.cards for request in demand.requests.values()),
        candidates=decision.candidates,
        fitting=fitting,
        reasons=count_reasons(decision.refusals.values()),
    )


def tell_vendor_held(word: str, own: Reservation) -> VendorVerdict:
    """Say how many cards of one vendor a pod has."""
    return VendorVerdict(vendor=word, standing="held", cards=sum(map(len, own.shares.get(word, ()))))
