"""Commands. Only here may a process exit, and only here are flags, environment and files turned into settings.

Commands import what they need when they run, so that ``gpuloom --help`` loads neither servers nor NumPy.
"""

from gpuloom.cli.commands import main

__all__ = ["main"]
