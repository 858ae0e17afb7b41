"""What a browser does with the dashboard, without drawing anything."""

import ssl
import urllib.parse
import urllib.request
from collections.abc import Iterable
from http.cookiejar import CookieJar


def read_pages(port: int, token: str, paths: Iterable[str]) -> list[str]:
    """Sign in with a token at a port of this machine, whoever made the certificate; return pages."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    handlers = (urllib.request.HTTPSHandler(context=trusting), urllib.request.HTTPCookieProcessor(CookieJar()))
    opener = urllib.request.build_opener(*handlers)
    form = urllib.parse.urlencode({"token": token}).encode()
    here = f"https://127.0.0.1:{port}"
    sent = urllib.request.Request(f"{here}/sign-in", data=form, headers={"Sec-Fetch-Site": "same-origin"})
    with opener.open(sent, timeout=60):
        pass
    return [_read(opener, f"{here}{path}") for path in paths]


def _read(opener: urllib.request.OpenerDirector, url: str) -> str:
    with opener.open(url, timeout=60) as reply:
        text: bytes = reply.read()
        return text.decode()
