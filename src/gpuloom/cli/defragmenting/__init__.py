"""``gpuloom defrag``: which pods would have to move so that another one fits."""
