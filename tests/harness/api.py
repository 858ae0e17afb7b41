"""A plain HTTP client for the harness's own calls to the API server, independent of the client under test."""

import http.client
import json
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

POLL_S = 0.1


class ApiCallError(Exception):
    """The API server refused a call: `status`, and its message."""

    def __init__(self, call: str, status: int, message: str):
        super().__init__(f"{call}: {status} {message}")
        self.status = status


class Api:
    """Calls to one API server as one user."""

    def __init__(self, *, port: int, ca_file: Path, token: str):
        self._port = port
        self._token = token
        self._tls = ssl.create_default_context(cafile=str(ca_file))

    def get(self, path: str, *, headers: Mapping[str, str] | None = None) -> Any:
        """Return the object at `path`."""
        return self._call("GET", path, headers=headers)

    def create(self, path: str, body: Mapping[str, Any]) -> Any:
        """Create an object in the collection `path`."""
        return self._call("POST", path, body)

    def merge(self, path: str, body: Mapping[str, Any]) -> Any:
        """Apply a JSON merge patch."""
        return self._call("PATCH", path, body, content_type="application/merge-patch+json")

    def patch_strategic(self, path: str, body: Mapping[str, Any]) -> Any:
        """Apply a strategic merge patch, in which lists are merged by name."""
        return self._call("PATCH", path, body, content_type="application/strategic-merge-patch+json")

    def apply(self, path: str, body: Mapping[str, Any]) -> Any:
        """Apply an object on the server's side; return it. Raise ApiCallError."""
        return self._call("PATCH", f"{path}?fieldManager=tests", body, content_type="application/apply-patch+yaml")

    def delete(self, path: str, *, grace_s: int | None = 0) -> Any:
        """Delete the object at `path`: at once, after `grace_s`, or with None as its own fields and the query say."""
        return self._call("DELETE", path, None if grace_s is None else {"gracePeriodSeconds": grace_s})

    def answers(self, path: str) -> bool:
        """Say whether `path` answers with success, for polling."""
        try:
            self.get(path)
        except (OSError, http.client.HTTPException, ApiCallError):
            return False
        return True

    def wait_for_answer(self, call: Callable[[], Any], *, timeout_s: float = 120) -> Any:
        """Repeat a call until it succeeds; return its answer. Raise the last error after `timeout_s`."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                return call()
            except ApiCallError:
                if time.monotonic() > deadline_s:
                    raise
            time.sleep(POLL_S)

    def wait_for(self, path: str, condition: Callable[[Any], bool], *, timeout_s: float = 180) -> Any:
        """Poll `path` until `condition(object)`; return the object. Raise TimeoutError that shows the last one."""
        deadline_s = time.monotonic() + timeout_s
        while not condition(found := self.get(path)):
            if time.monotonic() > deadline_s:
                raise TimeoutError(
                    f"{path} did not become as expected in {timeout_s:.0f} s: {json.dumps(found)[:4000]}"
                )
            time.sleep(POLL_S)
        return found

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=60, context=self._tls)
        sent = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type, **(headers or {})}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            response = connection.getresponse()
            payload = response.read()
        finally:
            connection.close()
        if response.status >= 300:
            raise ApiCallError(f"{method} {path}", response.status, _read_message(payload))
        return json.loads(payload) if response.headers.get_content_type() == "application/json" else payload.decode()


def _read_message(payload: bytes) -> str:
    """Return the message of a Status object, or the text itself."""
    try:
        return str(json.loads(payload)["message"])
    except (ValueError, KeyError, TypeError):
        return payload.decode(errors="replace")[:500]
