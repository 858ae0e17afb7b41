"""Divide cards (MIG) as the scheduler asks: what is offered, which instances are made for whom, when they go."""
