"""The API server's answers to "whose token is this" and "may they": TokenReview and SubjectAccessReview."""

from gpuloom.kube import Resource
from gpuloom.wire.objects import KubeObject, KubeStruct


class UserInfo(KubeStruct, frozen=True):
    """Who somebody is, as the API server says."""

    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class TokenReviewStatus(KubeStruct, frozen=True):
    """Whether a token is good, and whose it is."""

    authenticated: bool = False
    user: UserInfo = UserInfo()
    error: str = ""
    audiences: list[str] | None = None


class TokenReview(KubeObject, frozen=True):
    """The question whose token this is, answered."""

    status: TokenReviewStatus = TokenReviewStatus()


class AccessReviewStatus(KubeStruct, frozen=True):
    """Whether somebody is allowed."""

    allowed: bool = False


class SubjectAccessReview(KubeObject, frozen=True):
    """The question whether somebody may do something, answered."""

    status: AccessReviewStatus = AccessReviewStatus()


TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", TokenReview, namespaced=False)
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", SubjectAccessReview, namespaced=False
)
