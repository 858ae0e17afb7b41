"""What of cards is really in use: monitors are asked in turns, and the last hour is held in memory.

A monitor is believed about its own node's cards and their pods alone, and no figure that a card cannot have.
"""
