"""An operator's gateway: it verifies who is calling, with the public key alone, and decides itself what they may do."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from deployments.identity import Identity, IdentityRefused, Verifier

TOOLS = [
    {
        "name": "ticket_status",
        "description": "The state of a ticket of the platform's tracker, by its number.",
        "parameters": {
            "type": "object",
            "properties": {"number": {"type": "integer", "minimum": 1}},
            "required": ["number"],
            "additionalProperties": False,
        },
        "right": "tools.read",
        "kind": "read",
        "method": "GET",
        "path": "/tickets",
    },
    {
        "name": "ticket_close",
        "description": "Close a ticket of the platform's tracker, by its number.",
        "parameters": {
            "type": "object",
            "properties": {"number": {"type": "integer"}},
            "required": ["number"],
            "additionalProperties": False,
        },
        "right": "tools.read",
        "kind": "act",
        "method": "POST",
        "path": "/tickets/close",
    },
]


class Gateway:
    """Listens on loopback. Tickets over 100 are for admins, 404 is gone, 500 breaks, 302 leads elsewhere."""

    def __init__(self) -> None:
        self.secrets: Path | None = None  # known once the service has made its keys
        self.asked: list[dict[str, Any]] = []
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                gateway.answer(self, {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()})

            def do_POST(self) -> None:
                gateway.answer(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/api"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler, arguments: dict[str, Any]) -> None:
        self.asked.append({"path": request.path, "headers": dict(request.headers), "arguments": arguments})
        status, body = self._answer(request, int(arguments.get("number", 0)))
        raw = json.dumps(body).encode()
        request.send_response(status)
        request.send_header("Content-Length", str(len(raw)))
        if status == 302:
            request.send_header("Location", "/elsewhere")
        request.end_headers()
        request.wfile.write(raw)

    def _answer(self, request: BaseHTTPRequestHandler, number: int) -> tuple[int, dict[str, Any]]:
        caller = self._caller(request.headers.get("Authorization", ""))
        if caller is None:
            return 401, {"error": "who are you"}
        if number in (302, 404, 500):
            return number, {"internal": "secret-detail"}
        if number > 100 and "admin" not in caller.rights:
            return 403, {"error": "not yours"}
        return 200, {"number": number, "state": "open", "for": caller.subject}

    def _caller(self, authorization: str) -> Identity | None:
        assert self.secrets is not None
        try:
            return Verifier("caller", self.secrets, "gateway").verify(authorization.removeprefix("Bearer "))
        except IdentityRefused:
            return None
