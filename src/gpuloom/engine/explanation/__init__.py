"""Why a pod goes where it goes, or nowhere: one value, told as event, text, JSON or page.

Built on the decision as everybody sees it (decide, refusals, scores, rules by name), never a second set of rules. Pure
like the rest of the engine; long work is done in steps, so that whoever serves requests can serve them in between.
"""

from gpuloom.engine.explanation.explain import explain, finish
from gpuloom.engine.explanation.redaction import redact
from gpuloom.engine.explanation.study import STANDARD, Depth, Scene
from gpuloom.engine.explanation.text import tell_explanation
from gpuloom.engine.explanation.values import Explanation

__all__ = ["STANDARD", "Depth", "Explanation", "Scene", "explain", "finish", "redact", "tell_explanation"]
