"""What Filter and Bind show of groups (binding 2.2).

kube-scheduler filters the members of a PodGroup one after the other and binds none before all are filtered; where the
group does not fit, it binds none at all and says so in the members' conditions only.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from gpuloom.wire.objects import Pod

HOPELESS_S = 30.0
"""So long a group that failed for lack of cards is refused at once, unless more of it fit; its wishes may change."""
UNTIL_MORE_FIT = "waits until more fit"

GroupKey = tuple[str, str]
"""Namespace and name of a PodGroup."""


def group_of(pod: Pod) -> GroupKey | None:
    """Return the PodGroup of a pod that kube-scheduler itself starts with others, None for other pods."""
    return (pod.namespace, pod.own_group) if pod.own_group else None


@dataclass(slots=True)
class GroupAttempt:
    """The members that were filtered last, until the group is filtered again.

    filtered_at  when the last of them was filtered (monotonic seconds)
    is_binding   whether Bind was called for a member since then: the group was placed
    words        by UID what kube-scheduler had said of a member when it was filtered
    called       UIDs of members for which Bind was called since they were filtered
    refused      UIDs of members for which there were no cards
    given_back   UIDs of members that fitted and whose reservations are given back
    """

    filtered_at: float
    is_binding: bool = False
    words: dict[str, str] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    given_back: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class GroupAttempts:
    """The last attempt of each group that has pods waiting."""

    _attempts: dict[GroupKey, GroupAttempt] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._attempts)

    def note_filtered(self, pod: Pod, words: str, now: float) -> None:
        """Take that a pod is filtered, of which kube-scheduler had said this until now."""
        key, uid = group_of(pod), pod.metadata.uid
        if key is None:
            return
        attempt = self._attempts.setdefault(key, GroupAttempt(now))
        attempt.filtered_at, attempt.is_binding = now, False
        attempt.words[uid] = words
        attempt.called.discard(uid)
        attempt.refused.discard(uid)
        attempt.given_back.clear()

    def note_refused(self, pod: Pod) -> None:
        """Take that there are no cards for a pod."""
        if attempt := self.find(pod):
            attempt.refused.add(pod.metadata.uid)

    def note_bind(self, pod: Pod) -> None:
        """Take that Bind was called for a pod."""
        if attempt := self.find(pod):
            attempt.is_binding = True
            attempt.called.add(pod.metadata.uid)

    def note_given_back(self, pod: Pod) -> None:
        """Take that a pod fitted, and that what it held is given back."""
        if attempt := self.find(pod):
            attempt.given_back.append(pod.metadata.uid)

    def note_woken(self, pod: Pod) -> None:
        """Take that a pod is to be tried again because more of its group fit."""
        if attempt := self.find(pod):
            attempt.refused.clear()
            attempt.given_back.clear()

    def find_objection(self, pod: Pod, now: float) -> str:
        """Say why a pod is not decided about because its group failed just now, empty where it is.

        Else a group that does not fit would take the cards for a moment at every try, also from one that does.
        """
        attempt = self.find(pod)
        if attempt is None or not (attempt.refused and attempt.given_back):
            return ""
        if now - attempt.filtered_at >= HOPELESS_S:
            return ""
        return f"its group {pod.own_group} had cards for {len(attempt.given_back)} of its pods and {UNTIL_MORE_FIT}"

    def find(self, pod: Pod) -> GroupAttempt | None:
        """Return the last attempt of a pod's group."""
        key = group_of(pod)
        return None if key is None else self._attempts.get(key)

    def keep(self, is_waiting: Callable[[str], bool]) -> Generator[None, None, None]:
        """Forget the members that do not wait any more, and groups without members; looks at one member a step."""
        for key, attempt in list(self._attempts.items()):
            for uid in list(attempt.words):
                yield
                if not is_waiting(uid):
                    del attempt.words[uid]
            attempt.called &= attempt.words.keys()
            attempt.refused &= attempt.words.keys()
            attempt.given_back = [uid for uid in attempt.given_back if uid in attempt.words]
            if not attempt.words:
                del self._attempts[key]
