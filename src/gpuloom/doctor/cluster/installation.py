"""What an installation was told, read out of its pods' command lines and ConfigMaps. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from urllib.parse import urlsplit

import msgspec

from gpuloom.doctor.cluster.objects import ConfigMap, InstalledContainer, InstalledPod, SchedulerConfiguration
from gpuloom.scheduler.durations import parse_seconds
from gpuloom.scheduler.flags import SchedulerFlags
from gpuloom.vendors.catalog import Catalog, load_default_profiles, load_shipped, make_catalog
from gpuloom.vendors.device_config import apply_device_config
from gpuloom.wire.device_config import YAML_FAILURES
from gpuloom.wire.yamldepth import refuse_deep

_DEFAULT = SchedulerFlags()
_KUBE_SCHEDULER = "kube-scheduler"
_KIND = "KubeSchedulerConfiguration"
_MINOR = re.compile(r":v?1\.(\d+)", re.ASCII)
_FLAG = re.compile(r"--?([\w-]+)(?:=(.*))?", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class ExtenderFlags:
    """What gpuloom's scheduler was told; addresses are ``host:port``, ``switches`` are the flags that are true.

    ``tls_secret`` holds the certificate that replicas make themselves, as a name or namespace/name; ``tls_webhook`` is
    the configuration that they write their authority into. Without ``overwrites_default`` the webhook leaves pods alone
    that name the default scheduler, as the API server lets all do that name none. ``asks_for_tokens`` says whether it
    serves what a token opens: its pages, metrics or profiles.
    """

    scheduler_name: str = ""
    address: str = _DEFAULT.http_bind
    is_https: bool = False
    leader_elect: bool = False
    lease_name: str = ""
    lease_namespace: str = ""
    rival_names: str = _DEFAULT.rival_lease_names
    lock_timeout_s: float = _DEFAULT.node_lock_timeout_s
    lock_wait_s: float = _DEFAULT.node_lock_retry_timeout_s
    node_choice: str = _DEFAULT.node_choice
    switches: frozenset[str] = frozenset()
    tls_secret: str = ""
    tls_webhook: str = ""
    cert_file: str = ""
    overwrites_default: bool = _DEFAULT.force_overwrite_default_scheduler
    preempts: bool = False
    breaks_budgets: bool = True
    moves_pods: bool = False
    asks_for_tokens: bool = False

    @property
    def expects_webhook(self) -> bool:
        """Whether it writes its authority into a webhook's configuration, or somebody else may."""
        return bool(self.tls_webhook or self.cert_file)


@dataclass(frozen=True, slots=True)
class KubeScheduler:
    """The kube-scheduler beside it: ``minor`` is 34 for 1.34, 0 where the image does not tell."""

    minor: int = 0
    source: str = ""
    configuration: SchedulerConfiguration | None = None
    error: str = ""


def find_gpuloom(pod: InstalledPod) -> InstalledContainer | None:
    """Return the container of a scheduler's pod that is the extender."""
    others = [container for container in pod.spec.containers or () if not _is_kube_scheduler(container)]
    return next((one for one in others if "scheduler-name" in parse_flags(one.words)), None)


def read_flags(container: InstalledContainer) -> ExtenderFlags:
    """Read what the extender was told; values that cannot be read count as not given."""
    flags = parse_flags(container.words)
    switches = frozenset(name for name, value in flags.items() if value == "true")
    inner = flags.get("extender-bind", "")
    has_certificate = bool(flags.get("cert_file") or flags.get("tls-self-manage"))
    return ExtenderFlags(
        scheduler_name=flags.get("scheduler-name", ""),
        address=inner or flags.get("http_bind") or _DEFAULT.http_bind,
        is_https=has_certificate and not inner,
        leader_elect=flags.get("leader-elect", "false") == "true",
        lease_name=flags.get("leader-elect-resource-name", ""),
        lease_namespace=flags.get("leader-elect-resource-namespace", ""),
        rival_names=flags.get("rival-lease-names", _DEFAULT.rival_lease_names),
        lock_timeout_s=_read_seconds(flags.get("node-lock-timeout", ""), _DEFAULT.node_lock_timeout_s),
        lock_wait_s=_read_seconds(flags.get("node-lock-retry-timeout", ""), _DEFAULT.node_lock_retry_timeout_s),
        node_choice=flags.get("node-choice", _DEFAULT.node_choice),
        tls_secret=flags.get("tls-self-manage", ""),
        tls_webhook=flags.get("tls-webhook", ""),
        cert_file=flags.get("cert_file", ""),
        overwrites_default=flags.get("force-overwrite-default-scheduler", "true").lower() != "false",
        preempts=flags.get("preemption") == "on",
        breaks_budgets=flags.get("preemption-budgets", _DEFAULT.preemption_budgets) == "prefer",
        moves_pods=flags.get("defragmentation") == "on",
        asks_for_tokens=bool(flags.get("web-bind") or switches & {"metrics-auth", "profiling"}),
        switches=switches,
    )


def parse_flags(words: Sequence[str]) -> Mapping[str, str]:
    """Read ``--flag=value``, ``--flag value`` and ``--flag``, which is true."""
    flags: dict[str, str] = {}
    for at, word in enumerate(words):
        found = _FLAG.fullmatch(word)
        if found is None:
            continue
        following = words[at + 1] if at + 1 < len(words) else ""
        value = found.group(2)
        if value is None:
            value = following if following and not following.startswith("-") else "true"
        flags[found.group(1)] = value
    return flags


def read_kube_scheduler(pod: InstalledPod, config_maps: Mapping[str, ConfigMap]) -> KubeScheduler | None:
    """Read the configuration of the kube-scheduler in a scheduler's pod, None when there is none in it.

    ``config_maps`` are those of the pod's volumes, by name.
    """
    container = next((one for one in pod.spec.containers or () if _is_kube_scheduler(one)), None)
    if container is None:
        return None
    found = _MINOR.search(container.image)
    minor = int(found.group(1)) if found else 0
    file = PurePath(parse_flags(container.words).get("config", "")).name
    for name, config_map in config_maps.items():
        for key, text in config_map.texts.items():
            if _KIND in text and key in {file, *(() if file else (key,))}:
                source = f"ConfigMap {pod.namespace}/{name}, {key}"
                try:
                    refuse_deep(text)
                    configuration = msgspec.yaml.decode(text, type=SchedulerConfiguration)
                except YAML_FAILURES as error:
                    return KubeScheduler(minor, source, error=str(error))
                return KubeScheduler(minor, source, configuration)
    return KubeScheduler(minor, f"pod {pod.full_name}", error=f"no ConfigMap of the pod holds the file {file!r}")


def read_catalog(config_maps: Mapping[str, ConfigMap], switches: Iterable[str]) -> Catalog:
    """Return the vendors of the installation's device configuration; without one, those that are there by default.

    Raises ProfileError when it cannot be read.
    """
    for name, config_map in config_maps.items():
        for key, text in config_map.texts.items():
            if key == "device-config.yaml":
                profiles = apply_device_config(load_shipped(), text.encode(), f"ConfigMap {name}, {key}")
                return make_catalog(profiles, switches)
    return make_catalog(load_default_profiles(), switches)


def port_of(address: str, *, default: int = 0) -> int:
    """Return the port of ``host:port`` or of a URL."""
    try:
        return urlsplit(address if "//" in address else f"//{address}").port or default
    except ValueError:
        return default


def _is_kube_scheduler(container: InstalledContainer) -> bool:
    return any(PurePath(word).name == _KUBE_SCHEDULER for word in container.words[:1]) or (
        not container.command and f"/{_KUBE_SCHEDULER}:" in container.image
    )


def _read_seconds(text: str, default: float) -> float:
    try:
        return parse_seconds(text)
    except ValueError:
        return default
