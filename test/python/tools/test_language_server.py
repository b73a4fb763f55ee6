"""`dynamlir-lsp-server` tells an editor about a dump: documentation, the user's line, errors. It survives nonsense."""

from __future__ import annotations

import inspect
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch
from stages import dynamlir_opt

SERVER = dynamlir_opt().parent / "dynamlir-lsp-server"


class Client:
    """An editor that knows the protocol."""

    def __init__(self) -> None:
        self.server = subprocess.Popen(
            [SERVER, "--log=error"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.asked = 0

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def write(self, data: bytes) -> None:
        assert self.server.stdin is not None
        self.server.stdin.write(data)
        self.server.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.server.stdout is not None
        length = 0
        while (line := self.server.stdout.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        message: dict[str, Any] = json.loads(self.server.stdout.read(length))
        return message

    def ask(self, method: str, **given: Any) -> Any:
        self.asked += 1
        self.send({"id": self.asked, "method": method, "params": given})
        while (answer := self.receive()).get("id") != self.asked:
            pass
        return answer.get("result", answer.get("error"))

    def open(self, path: Path) -> list[dict[str, Any]]:
        """Opens a file and returns the errors that the editor shows."""
        document = {"uri": path.as_uri(), "languageId": "mlir", "version": 1, "text": path.read_text()}
        self.send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        while (message := self.receive()).get("method") != "textDocument/publishDiagnostics":
            pass
        found: list[dict[str, Any]] = message["params"]["diagnostics"]
        return found

    def at(self, method: str, path: Path, text: str) -> Any:
        """Asks about the first occurrence of a text in a file."""
        before = path.read_text().partition(text)[0]
        position = {"line": before.count("\n"), "character": len(before) - before.rfind("\n") - 1}
        return self.ask(f"textDocument/{method}", textDocument={"uri": path.as_uri()}, position=position)


@pytest.fixture
def client() -> Iterator[Client]:
    client = Client()
    client.ask("initialize", capabilities={}, processId=None, rootUri=None)
    client.send({"method": "initialized", "params": {}})
    yield client
    client.ask("shutdown")
    client.send({"method": "exit"})
    assert client.server.stdin is not None
    client.server.stdin.close()
    assert client.server.wait(20) == 0


def model(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) @ x


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    dynamlir.compile(model, options={"dump": str(tmp_path)})(torch.ones(4, 4))
    return tmp_path


def test_an_operation_is_documented(client: Client, dump: Path) -> None:
    assert client.open(dump / "02-prims.mlir") == []
    text = client.at("hover", dump / "02-prims.mlir", "dynamo.tanh")["contents"]["value"]
    assert text.startswith('"dynamo.tanh"\n\nHyperbolic tangent.') and "Generic Form:" in text, text
    # Operations of other dialects are upstream's business.
    text = client.at("hover", dump / "02-prims.mlir", "return")["contents"]["value"]
    assert text.startswith('"func.return"\n\nGeneric Form:'), text


def test_the_definition_of_an_operation_is_the_users_line(client: Client, dump: Path) -> None:
    line = inspect.getsourcelines(model)[1] + 1
    for stage, operation in {"00-aten": "dynamo.aten", "02-prims": "dynamo.tanh"}.items():
        assert client.open(dump / f"{stage}.mlir") == []
        places = client.at("definition", dump / f"{stage}.mlir", operation)
        found = [(place["uri"], place["range"]["start"]["line"] + 1) for place in places]
        assert (Path(__file__).as_uri(), line) in found, found


def test_a_mistake_is_shown_where_it_is(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "wrong.mlir"
    path.write_text("func.func @f(%x: tensor<2xf32>) {\n  %0 = dynamo.tanh %x : tensor<3xf32>\n  return\n}\n")
    (mistake,) = client.open(path)
    assert mistake["range"]["start"]["line"] == 1 and "tensor<3xf32>" in mistake["message"], mistake


def test_nonsense_is_survived(client: Client, dump: Path) -> None:
    assert client.ask("no/such/method")["code"] == -32601
    client.send({"id": 1000, "method": "textDocument/hover", "params": 3})
    client.send({"id": 1001, "method": "textDocument/hover"})
    client.send({"method": "textDocument/didOpen", "params": {}})
    client.write(b"Content-Length: 3\r\n\r\n{[}")
    assert client.open(dump / "02-prims.mlir") == []
    assert "Hyperbolic tangent" in client.at("hover", dump / "02-prims.mlir", "dynamo.tanh")["contents"]["value"]
    nowhere = {"textDocument": {"uri": "file:///absent"}, "position": {"line": 0, "character": 0}}
    assert client.ask("textDocument/hover", **nowhere) is None


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"GET / HTTP/1.1\r\n\r\n", b"Content-Length: 99999999999999\r\n\r\n{}", b"\0" * 9999]
)
def test_what_is_not_the_protocol_ends_the_server(data: bytes) -> None:
    done = subprocess.run([SERVER], input=data, capture_output=True, timeout=20)
    assert done.returncode in (0, 1), done.stderr
