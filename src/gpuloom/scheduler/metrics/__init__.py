"""What Prometheus is told (scheduler 8.5).

A scrape comes in, text in Prometheus' format goes out. Values are read when they are asked for, from the state and the
parts: nothing is counted twice.

``cards`` has HAMi's metrics under their names, ``process`` gpuloom's own about itself; both give ``series``, which
``exposition`` writes a part at a time, so that calls are answered in between.
"""
