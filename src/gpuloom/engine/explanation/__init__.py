"""Why a pod goes where it goes, or nowhere: one value, told as event, text, JSON or page.

Built on the decision as everybody sees it (decide, refusals, scores, rules by name), never a second set of rules. Pure
like the rest of the engine; long work is done in steps, so that whoever serves requests can serve them in between.
Values and their text can be had without loading the engine.
"""
