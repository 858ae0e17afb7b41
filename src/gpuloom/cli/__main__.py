"""``python -m gpuloom.cli``, for where the script is not on the path."""

from gpuloom.cli.commands import main

main()
