"""``gpuloom drain-card``: a card is closed to new pods, and those that are on it are sent away."""
