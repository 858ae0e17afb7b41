"""What the policy ``fragmentation`` looks at beside cards: the pods to come, and the CPU of nodes.

``keeper`` learns and keeps both up to date, ``file`` reads pods to come from a file, ``lines`` has them as JSON for
recordings. Nothing is told to the engine, and nothing recorded, while no pod is placed by that policy.
"""
