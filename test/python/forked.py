"""Programs in separate processes that need not import torch again.

A process waits that has imported torch and the libraries that a first compilation imports. Each program runs in a fork
of it, as `__main__`, and ends as an interpreter ends: exit handlers, finalizers and the exit status are real. dynamlir
itself is not imported before the fork, so its settings are read from the program's own environment.

A test of what `import torch` does, or of a variable that is read by then, needs a real process. For tests about the
imports of a first compilation, or about a variable that they read (`TORCHDYNAMO_DISABLE`), `only_torch` leaves those
imports to the program.
"""

from __future__ import annotations

import atexit
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The modules that a first compilation imports behind either front door, apart from torch and dynamlir.
LATER = ("torch._dynamo", "torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes", "sympy")


@dataclasses.dataclass
class _Server:
    """A process that forks for each request, and the channel to it."""

    process: subprocess.Popen[bytes]
    channel: socket.socket


# Keyed by the process that started them, and by whether they have imported only torch.
_servers: dict[tuple[int, bool], _Server] = {}


def python(
    program: str | Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    ignore_warnings: bool = False,
    only_torch: bool = False,
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Runs a program's text, or a script, and returns its exit status and its output, as `subprocess.run` does.

    `env` is the whole environment, this process's if None; `ignore_warnings` is the interpreter's `-W ignore`. Raises
    `subprocess.TimeoutExpired` if the program takes longer than `timeout` seconds; the program is then ended.
    """
    channel = _server(only_torch).channel
    script = str(program) if isinstance(program, Path) else None
    request = {
        "text": Path(script).read_text() if script else program,
        "script": script,
        "arguments": arguments,
        "environment": dict(os.environ if env is None else env),
        "folder": os.getcwd(),
        "ignore_warnings": ignore_warnings,
    }
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        message = json.dumps(request).encode() + b"\n"
        socket.send_fds(channel, [b"!"], [out.fileno(), err.fileno()])
        channel.sendall(message)
        child = int(_line(channel))
        channel.settimeout(timeout)
        try:
            status = int(_line(channel))
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            channel.settimeout(None)
            _line(channel)
            raise subprocess.TimeoutExpired(script or "-c", timeout) from None
        finally:
            channel.settimeout(None)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess([script or "-c", *arguments], status, out.read(), err.read())


def _server(only_torch: bool) -> _Server:
    """Returns this process's fork server, starting it if necessary."""
    key = os.getpid(), only_torch
    server = _servers.get(key)
    if server is None or server.process.poll() is not None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, __file__, str(theirs.fileno()), *(() if only_torch else LATER)]
        server = _servers[key] = _Server(subprocess.Popen(command, pass_fds=[theirs.fileno()]), ours)
        theirs.close()
        # The server ends when it finds the channel closed.
        atexit.register(ours.close)
    return server


def _line(channel: socket.socket) -> bytes:
    """Reads up to the end of a line."""
    read = b""
    while not read.endswith(b"\n"):
        piece = channel.recv(1 if not read else 65536)
        if not piece:
            raise EOFError("the fork server has ended")
        read += piece
    return read


def _serve(channel: socket.socket) -> dict[str, object] | None:
    """Forks for each request; returns the request in the forked process, and None at the end of the requests."""
    while True:
        mark, streams, _, _ = socket.recv_fds(channel, 1, 2)
        if not mark:
            return None
        request: dict[str, object] = json.loads(_line(channel))
        child = os.fork()
        if child == 0:
            channel.close()
            os.dup2(streams[0], 1)
            os.dup2(streams[1], 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for stream in streams:
                os.close(stream)
            return request
        for stream in streams:
            os.close(stream)
        channel.sendall(b"%d\n" % child)
        _, status = os.waitpid(child, 0)
        channel.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _begin(request: dict[str, object]) -> str:
    """Gives the forked process the state in which a program's own process starts; returns the name of its code."""
    import linecache
    import warnings

    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    os.chdir(str(request["folder"]))
    if request["ignore_warnings"]:
        warnings.simplefilter("ignore")
        sys.warnoptions.append("ignore")
    name = "<string>"
    if request["script"]:
        name = str(request["script"])
        sys.path[0] = str(Path(name).parent)
        linecache.checkcache(name)
    else:
        sys.path[0] = ""
    sys.path[1:1] = [
        path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path not in sys.path
    ]
    sys.argv = [name if request["script"] else "-c", *request["arguments"]]  # type: ignore[misc]
    return name


if __name__ == "__main__":
    import importlib
    import types

    for module in ("torch", *sys.argv[2:]):
        importlib.import_module(module)
    request = _serve(socket.socket(fileno=int(sys.argv[1])))
    if request is None:
        os._exit(0)
    code = compile(str(request["text"]), _begin(request), "exec")
    # A module of its own, so that the program does not see the names of this file.
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    if request["script"]:
        main.__file__ = str(request["script"])
    exec(code, main.__dict__)
