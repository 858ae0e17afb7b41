"""All doors that are fuzzed."""

from fuzz import annotations, apiserver, node, people, scheduler

TARGETS = (
    *annotations.TARGETS,
    *scheduler.TARGETS,
    *node.TARGETS,
    *apiserver.TARGETS,
    *people.TARGETS,
)
