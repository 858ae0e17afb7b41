"""Checks of a cluster, through its API server: scheduler, webhook, rights, nodes, pods."""
