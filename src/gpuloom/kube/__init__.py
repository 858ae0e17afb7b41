"""A Kubernetes API: credentials, client, reflector, events.

The only room that talks to an API server. It knows nothing about accelerators.
"""
