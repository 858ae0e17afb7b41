"""Every command on a page is typed by a walk through the pages, run by another test, or not run for a reason."""

from collections import Counter

import pytest
from pages.ledger import NAMED, NOT_RUN, OTHERS, WALKS
from pages.reading import PAGES, ROOT, list_all_commands, list_blocks, list_commands, list_shown

WALKED = set().union(*(walk.promised() for walk in WALKS))
ELSEWHERE = Counter([*NAMED, *NOT_RUN, *(command for commands in OTHERS.values() for command in commands)])
PAGE = """
Type `gpuloom top` and `make  ci`, not `gpuloom` or `nvidia.com/gpu: 1`:

```
helm install gpuloom \\
  charts/gpuloom   # this one
Waiting ...
```

1. Then

    ```console
    $ gpuloom nodes
    make a note
    ```
"""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_the_page_is_accounted_for(page):
    commands = set(list_commands(page.read_text(encoding="utf-8")))
    assert sorted(commands - WALKED - set(ELSEWHERE)) == []


def test_no_command_is_accounted_for_that_no_page_has():
    assert sorted(set(ELSEWHERE) - list_all_commands()) == []
    assert sorted(WALKED - list_all_commands()) == []


def test_what_a_walk_types_is_not_said_to_be_run_otherwise_and_nothing_is_said_twice():
    assert sorted(WALKED & set(ELSEWHERE)) == []
    assert [command for command, count in ELSEWHERE.items() if count > 1] == []


def test_the_tests_that_are_named_are_there():
    named = [*OTHERS, *(walk.test for walk in WALKS)]
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_commands_are_found_in_sentences_and_in_blocks_as_they_are_typed():
    assert list(list_commands(PAGE)) == [
        "gpuloom top",
        "make ci",
        "helm install gpuloom charts/gpuloom",
        "gpuloom nodes",
    ]


def test_commands_are_found_below_their_heading():
    ((command,), _) = list_blocks("docs/installation.md#Upgrade")
    assert command == "helm upgrade gpuloom charts/gpuloom --namespace gpu-system --reset-then-reuse-values"
    with pytest.raises(LookupError, match="no heading 'Nowhere'"):
        list_blocks("docs/installation.md#Nowhere")


def test_commands_are_found_with_what_they_print():
    shown = dict(list_shown("docs/quickstart.md"))
    assert shown["kubectl apply -f docs/examples/notebook.yaml"] == "pod/notebook created\n"
