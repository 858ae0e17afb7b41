"""Where credentials come from and what is wrong with them when they cannot be used."""

import base64
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuloom.kube import Credentials, CredentialsError, load_default, load_in_cluster, load_kubeconfig


def write(file: Path, **changes: Any) -> Path:
    """Write a kubeconfig for a plain server and a token; ``cluster`` and ``user`` replace these."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": changes.pop("cluster", {"server": "http://127.0.0.1:1/"})}],
        "users": [{"name": "u", "user": changes.pop("user", {"token": "secret"})}],
        **changes,
    }
    file.write_bytes(msgspec.yaml.encode(config))
    return file


async def token_of(credentials: Credentials) -> str:
    return (await credentials.access()).proof.token


async def test_a_kubeconfig_gives_server_namespace_and_token(tmp_path: Path) -> None:
    credentials = load_kubeconfig(write(tmp_path / "config"))
    found = (credentials.server, credentials.namespace, await token_of(credentials))
    assert found == ("http://127.0.0.1:1", "team", "secret")


async def test_the_token_becomes_a_bearer_header(tmp_path: Path) -> None:
    access = await load_kubeconfig(write(tmp_path / "config")).access()
    assert access.headers == {"Authorization": "Bearer secret"}


async def test_no_user_means_no_header(tmp_path: Path) -> None:
    contexts = [{"name": "main", "context": {"cluster": "c"}}]
    access = await load_kubeconfig(write(tmp_path / "config", contexts=contexts)).access()
    assert access.headers == {}


async def test_a_context_can_be_chosen(tmp_path: Path) -> None:
    users = [{"name": "u", "user": {"token": "one"}}, {"name": "v", "user": {"token": "two"}}]
    contexts = [{"name": name, "context": {"cluster": "c", "user": name}} for name in ("u", "v")]
    file = write(tmp_path / "config", users=users, contexts=contexts, **{"current-context": "u"})
    assert await token_of(load_kubeconfig(file, "v")) == "two"


async def test_a_token_file_is_relative_to_the_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "token").write_text("from-the-file\n")
    write(tmp_path / "deep" / "config", user={"tokenFile": "token", "token": "not this"})
    monkeypatch.chdir(tmp_path)
    assert await token_of(load_kubeconfig("deep/config")) == "from-the-file"


async def test_several_files_are_merged_and_the_first_wins(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write(first, user={"token": "first"}, clusters=[], contexts=[], **{"current-context": ""})
    write(second, user={"token": "second"})
    assert await token_of(load_kubeconfig(f"{first}{os.pathsep}{second}")) == "first"


async def test_of_several_files_missing_ones_are_passed_over(tmp_path: Path) -> None:
    path = f"{tmp_path / 'missing'}{os.pathsep}{write(tmp_path / 'config')}"
    assert await token_of(load_kubeconfig(path)) == "secret"


async def test_an_empty_file_among_several_adds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").touch()
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'empty'}{os.pathsep}{write(tmp_path / 'config')}")
    assert await token_of(load_default()) == "secret"


async def test_merged_entries_keep_their_own_folder(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "token").write_text("nearby")
    first = write(tmp_path / "config", users=[])
    second = write(tmp_path / "other" / "config", user={"tokenFile": "token"})
    assert await token_of(load_kubeconfig(f"{first}{os.pathsep}{second}")) == "nearby"


async def test_renewing_reads_the_kubeconfig_again(tmp_path: Path) -> None:
    credentials = load_kubeconfig(write(tmp_path / "config"))
    refused = await credentials.access()
    write(tmp_path / "config", user={"token": "renewed"})
    credentials.renew(refused)
    assert await token_of(credentials) == "renewed"


async def test_renewing_an_access_that_was_replaced_changes_nothing(tmp_path: Path) -> None:
    credentials = load_kubeconfig(write(tmp_path / "config"))
    refused = await credentials.access()
    credentials.renew(refused)
    current = await credentials.access()
    credentials.renew(refused)
    assert await credentials.access() is current


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"current-context": ""}, "no current-context"),
        ({"current-context": "gone"}, "no context 'gone' .* there are: main"),
        ({"clusters": []}, "no cluster 'c' .* there are: none"),
        ({"users": []}, "no user 'u'"),
        ({"cluster": {}}, "cluster 'c' .* has no server"),
        ({"cluster": {"server": "127.0.0.1:80"}}, "'127.0.0.1:80' is no http or https URL"),
        ({"cluster": {"server": "https://h:port"}}, "'https://h:port' is no http or https URL"),
        ({"cluster": {"server": "https://h h"}}, "'https://h h' is no http or https URL"),
        ({"cluster": {"server": "https://a..b"}}, "'https://a..b' is no http or https URL"),
        ({"cluster": {"server": "https://"}}, "'https://' is no http or https URL"),
        ({"cluster": {"server": "http://h", "proxy-url": "http://p"}}, "proxy-url 'http://p', which gpuloom does not"),
        ({"user": {"as": "root"}}, "user 'u' in .*config uses as, which gpuloom does not support"),
        ({"user": {"username": "me", "password": "x"}}, "uses username"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "uses auth-provider"),
        (
            {"user": {"exec": {"command": "x", "apiVersion": "v0"}}},
            "exec entry of user 'u' in .*config needs a command and one of",
        ),
        (
            {
                "user": {
                    "exec": {
                        "command": "x",
                        "apiVersion": "client.authentication.k8s.io/v1",
                        "interactiveMode": "Always",
                    }
                }
            },
            "needs a terminal",
        ),
        ({"user": {"client-key-data": "!"}}, "client-key-data in .*config is no base64"),
        ({"users": 5}, "cannot be understood: Expected `array"),
    ],
)
def test_a_kubeconfig_that_cannot_work_is_refused_in_one_line(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    """kube client credentials."""
    file = write(tmp_path / "config", **changes)
    with pytest.raises(CredentialsError, match=message) as caught:
        load_kubeconfig(file)
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("text", ["{", "a: b: c", "\x00", "- 1"])
def test_a_file_that_is_no_kubeconfig_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(CredentialsError, match=r"config cannot be understood") as caught:
        load_kubeconfig(tmp_path / "config")
    assert "\n" not in str(caught.value)


def test_a_missing_kubeconfig_says_how_to_name_another(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="No such file or directory; name another"):
        load_kubeconfig(tmp_path / "none")


def test_only_missing_kubeconfigs_are_all_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=r"none of the kubeconfig files .*one, .*two exists"):
        load_kubeconfig(f"{tmp_path}/one{os.pathsep}{tmp_path}/two")


async def test_an_unreadable_certificate_authority_is_named(tmp_path: Path) -> None:
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority": "ca.crt"}
    credentials = load_kubeconfig(write(tmp_path / "config", cluster=cluster))
    with pytest.raises(CredentialsError, match=r"cannot read the certificate authority .*/ca\.crt: No such file"):
        await credentials.access()


async def test_a_broken_certificate_authority_is_named(tmp_path: Path) -> None:
    data = base64.b64encode(b"no certificate").decode()
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority-data": data}
    credentials = load_kubeconfig(write(tmp_path / "config", cluster=cluster))
    with pytest.raises(CredentialsError, match="the data in the kubeconfig holds no usable certificate authority"):
        await credentials.access()


async def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    user = {"client-certificate-data": base64.b64encode(b"x").decode()}
    file = write(tmp_path / "config", user=user, cluster={"server": "https://127.0.0.1:1"})
    with pytest.raises(CredentialsError, match="a client certificate needs its key"):
        await load_kubeconfig(file).access()


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pod's service account folder."""
    (tmp_path / "token").write_text("from the pod")
    (tmp_path / "namespace").write_text("gpuloom-system")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return tmp_path


def test_in_a_cluster_the_environment_names_the_server(account: Path) -> None:
    credentials = load_in_cluster(account)
    assert (credentials.server, credentials.namespace) == ("https://10.0.0.1:443", "gpuloom-system")


def test_in_a_cluster_an_ipv6_server_is_bracketed(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    assert load_in_cluster(account).server == "https://[fd00::1]:443"


def test_in_a_cluster_a_missing_token_is_named(account: Path) -> None:
    (account / "token").unlink()
    with pytest.raises(CredentialsError, match=r"no service account token at .*token"):
        load_in_cluster(account)


def test_outside_a_cluster_there_is_no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(CredentialsError, match="not inside a cluster"):
        load_in_cluster(tmp_path)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment that names no credentials, and its home."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_no_credentials_at_all_say_what_to_do(bare: Path) -> None:
    with pytest.raises(CredentialsError, match="name a kubeconfig, by KUBECONFIG too, or create"):
        load_default()


async def test_the_home_kubeconfig_is_the_last_resort(bare: Path) -> None:
    (bare / ".kube").mkdir()
    write(bare / ".kube" / "config", user={"token": "home"})
    assert await token_of(load_default()) == "home"


async def test_the_environments_kubeconfig_comes_before_the_pods_account(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBECONFIG", str(write(bare / "named", user={"token": "named"})))
    assert await token_of(load_default()) == "named"


async def test_a_given_path_comes_before_the_environment(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(bare / "none"))
    file = write(bare / "given", user={"token": "given"})
    assert await token_of(load_default(str(file))) == "given"


def test_a_given_path_that_is_missing_is_not_replaced_by_another(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(write(bare / "named")))
    with pytest.raises(CredentialsError, match=r"cannot read the kubeconfig .*none"):
        load_default(str(bare / "none"))


async def test_an_empty_token_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    credentials = load_kubeconfig(write(tmp_path / "config", user={"tokenFile": "token"}))
    with pytest.raises(CredentialsError, match=r"the token file .*token is empty"):
        await credentials.access()
