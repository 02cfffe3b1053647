"""A visitor without a browser, with the protocol of Streamlit's front end and little CPU time."""

from __future__ import annotations

import http.client
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.cookies import SimpleCookie
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.Common_pb2 import FileUploaderState, UploadedFileInfo
from streamlit.proto.Delta_pb2 import Delta
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

PATIENCE_S: Final = 180.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    """By name in lower case; the last one of repeated headers."""
    cookies: tuple[str, ...]
    body: bytes


def request(
    address: str,
    path: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    seconds: float = 30,
) -> Answer:
    """Return the response of the server at ``address``; ``headers`` may name another ``Host``."""
    parts = urlsplit(address)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        cookies = tuple(answer.headers.get_all("set-cookie", ()))
        return Answer(answer.status, named, cookies, answer.read())
    finally:
        connection.close()


class Visitor:
    """A visitor with one page open; use as a context manager.

    Args:
        address: of the server, the port included.
        cookies: those of a visitor whose browser opens another page; none of a new one.
    """

    def __init__(self, address: str, cookies: dict[str, str] | None = None) -> None:
        self.address = address
        self.cookies = {} if cookies is None else cookies
        self.elements: dict[tuple[int, ...], Element] = {}
        self._cached: dict[str, Delta] = {}
        self.session = ""
        self._page = ""
        self._query = ""
        self._socket: ClientConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def open(self, page: str = "", query: str = "") -> Self:
        """Load a page and wait until it is complete."""
        self.close()
        self._page, self._query = page, query
        self.get(f"/{page}?{query}", {"accept": "text/html"})
        for asked in ("health", "host-config"):
            self.get(f"/_stcore/{asked}", {"sec-fetch-site": "same-origin"})
        self._socket = connect(
            f"{self.address.replace('http', 'ws', 1)}/_stcore/stream",
            origin=self.address,  # type: ignore[arg-type]
            additional_headers={"Cookie": self._cookie()},
            subprotocols=[
                Subprotocol("streamlit"),
                Subprotocol(self.cookies["_streamlit_xsrf"]),
            ],
            max_size=None,
            legacy=True,
            open_timeout=PATIENCE_S,
        )
        self.rerun()
        return self

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        """Return the response to this visitor's browser."""
        return self._ask("GET", path, headers or {}, None)

    def _ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> Answer:
        named = {"Cookie": self._cookie(), **headers} if self.cookies else headers
        answer = request(
            self.address, path, method=method, headers=named, body=body, seconds=PATIENCE_S
        )
        for line in answer.cookies:
            self.cookies |= {name: each.value for name, each in SimpleCookie(line).items()}
        return answer

    def _cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    def rerun(self, *widgets: WidgetState, wait: bool = True) -> None:
        """Run the page's script with these widgets and wait for its end."""
        state = ClientState(query_string=self._query, page_name=self._page)
        state.widget_states.widgets.extend(widgets)
        self._send(BackMsg(rerun_script=state))
        if wait:
            self._wait_for_script()

    def _send(self, message: BackMsg) -> None:
        self.send_raw(message.SerializeToString())

    def send_raw(self, data: bytes) -> None:
        """Send a message of any content."""
        assert self._socket is not None
        self._socket.send(data)

    def _receive(self, until: float) -> ForwardMsg:
        assert self._socket is not None
        data = self._socket.recv(max(until - time.monotonic(), 0.0))
        assert isinstance(data, bytes)
        message = ForwardMsg()
        message.ParseFromString(data)
        return message

    def _wait_for_script(self) -> None:
        until = time.monotonic() + PATIENCE_S
        begun = False
        while True:
            message = self._receive(until)
            match message.WhichOneof("type"):
                case "new_session":
                    begun = True
                    self.elements = {}
                    self.session = message.new_session.initialize.session_id
                case "delta" | "ref_hash":
                    self._draw(message)
                case "script_finished":
                    status = message.script_finished
                    if begun and status == ForwardMsg.ScriptFinishedStatus.FINISHED_SUCCESSFULLY:
                        return

    def _draw(self, message: ForwardMsg) -> None:
        if message.WhichOneof("type") == "ref_hash":
            delta = self._cached[message.ref_hash]
        else:
            delta = message.delta
            self._cached[message.hash] = delta
        if delta.WhichOneof("type") == "new_element":
            self.elements[tuple(message.metadata.delta_path)] = delta.new_element

    @property
    def text(self) -> str:
        """Return the text of the page's elements, with markup."""
        return "\n".join(str(element) for element in self.elements.values())

    @property
    def markup(self) -> str:
        """HTML of the page, without data of components."""
        return "\n".join(each.html.body for each in self.elements.values())

    @property
    def problems(self) -> list[str]:
        shown = (each for each in self.elements.values() if each.WhichOneof("type") == "exception")
        return [f"{each.exception.type}: {each.exception.message}" for each in shown]

    def press(self, key: str) -> None:
        """Presses the first button whose key begins with ``key``."""
        for element in self.elements.values():
            if element.WhichOneof("type") == "button" and f"-{key}" in element.button.id:
                self.rerun(WidgetState(id=element.button.id, trigger_value=True))
                return
        raise LookupError(key)

    def upload(self, files: Sequence[tuple[str, bytes]], *, wait: bool = True) -> None:
        """Drops files on the Overview page, which is open, and waits until they are read."""
        uploader = next(
            element.file_uploader
            for element in self.elements.values()
            if element.WhichOneof("type") == "file_uploader"
        )
        message = BackMsg()
        message.file_urls_request.request_id = secrets.token_hex(8)
        message.file_urls_request.file_names.extend(name for name, _ in files)
        message.file_urls_request.session_id = self.session
        self._send(message)
        until = time.monotonic() + PATIENCE_S
        while (answer := self._receive(until)).WhichOneof("type") != "file_urls_response":
            pass
        state = FileUploaderState()
        for urls, (name, content) in zip(answer.file_urls_response.file_urls, files, strict=True):
            stored = self.put(urls.upload_url, name, content)
            if stored.status != 204:
                raise ConnectionError(f"{name}: {stored.status} {stored.body[:200]!r}")
            state.uploaded_file_info.append(
                UploadedFileInfo(name=name, size=len(content), file_id=urls.file_id, file_urls=urls)
            )
        self.rerun(WidgetState(id=uploader.id, file_uploader_state_value=state), wait=wait)

    def flood(self, count: int) -> int:
        """Request ``count`` runs of the page without reading; return the number sent."""
        assert self._socket is not None
        state = ClientState(query_string=self._query, page_name=self._page)
        data = BackMsg(rerun_script=state).SerializeToString()
        for number in range(count):
            try:
                self._socket.send(data)
            except ConnectionClosed:
                return number
        return count

    def drop(self) -> None:
        """End the connection as a lost network does."""
        if self._socket is not None:
            self._socket.socket.close()
            self._socket = None

    def make_upload_path(self) -> str:
        return f"/_stcore/upload_file/{self.session}/{secrets.token_hex(8)}"

    def delete(self, path: str) -> Answer:
        """Delete an upload without the XSRF token."""
        return self._ask("DELETE", path, {}, None)

    def format_upload_head(self, length: int, path: str = "") -> bytes:
        """Format the head of an upload; without ``path``, to a new one."""
        host = self.address.partition("//")[2]
        lines = (
            f"PUT {path or self.make_upload_path()} HTTP/1.1",
            f"Host: {host}",
            f"Origin: {self.address}",
            f"X-Xsrftoken: {self.cookies.get('_streamlit_xsrf', '')}",
            f"Cookie: {self._cookie()}",
            "Content-Type: multipart/form-data; boundary=b",
            f"Content-Length: {length}",
            "",
            "--b\r\n",
        )
        return "\r\n".join(lines).encode()

    def put(self, path: str, name: str, content: bytes) -> Answer:
        boundary = secrets.token_hex(16)
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; '
            f'filename="{name}"\r\nContent-Type: application/octet-stream\r\n\r\n'
        )
        body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        headers = {
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "X-Xsrftoken": self.cookies.get("_streamlit_xsrf", ""),
            "Origin": self.address,
        }
        return self._ask("PUT", path, headers, body)
