"""The executable specification of all vendors: each backend's rules, transcribed plainly.

``family`` is its section 1, what all share; every other family is a class that says what its part of section 4 says.
Nothing here knows the engine. Whoever wants to know why a family's pod is placed as it is reads its class.
"""
