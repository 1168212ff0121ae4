"""The few answers of the Hugging Face hub that an upload needs, from a server on the loopback interface."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FakeHub:
    """Collects what is uploaded. `failures`: that many commits are answered with 503 first; `forbidden`: all with 403;
    `public`: the repository is there already and public; `token`: the only one that is let in."""

    def __init__(self, token: str, failures: int = 0, forbidden: bool = False, public: bool = False):
        self.token, self.failures, self.forbidden, self.public = token, failures, forbidden, public
        self.files: dict[str, bytes] = {}
        self.created: dict[str, Any] | None = None
        self.commits = 0
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub._answer(self, None)

            def do_POST(self) -> None:
                hub._answer(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> FakeHub:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler, body: bytes | None) -> None:
        status, answer = self._route(request.path, body, request.headers.get("Authorization"))
        data = json.dumps(answer).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    def _route(self, path: str, body: bytes | None, authorization: str | None) -> tuple[int, Any]:
        if authorization != f"Bearer {self.token}":
            return 401, {"error": "Invalid credentials"}
        if path == "/api/repos/create":
            self.created = json.loads(body)
            if self.public:
                return 409, {"error": "You already created this model repo", "url": f"{self.url}/me/model"}
            return 200, {"url": f"{self.url}/me/model", "name": "me/model"}
        if path.endswith("/preupload/main"):
            names = [file["path"] for file in json.loads(body)["files"]]
            return 200, {"files": [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]}
        if path.endswith("/commit/main"):
            return self._commit(body)
        if path.startswith("/api/validate-yaml"):
            return 200, {"errors": [], "warnings": []}
        return 200, {"id": "me/model", "private": not self.public, "sha": "0" * 40, "siblings": [], "tags": []}

    def _commit(self, body: bytes) -> tuple[int, Any]:
        self.commits += 1
        if self.commits <= self.failures:
            return 503, {"error": "try again"}
        if self.forbidden:
            return 403, {"error": "you may not write here"}
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                self.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        return 200, {"commitUrl": f"{self.url}/me/model/commit/0", "commitOid": "0" * 40, "success": True}
