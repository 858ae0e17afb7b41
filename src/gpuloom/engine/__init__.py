"""The decision: cards are rows, rules are columns, a decision is a query over the card table.

Pure: no clock, no randomness, no environment, no log, no network; time and settings come in as arguments. The live
scheduler and every later tool (replay, explanation, what-if) run exactly this code.
"""
