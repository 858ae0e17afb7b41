"""Dividing cards (MIG) as the scheduler asks: what is offered, which instances are made for whom, and when they go."""
