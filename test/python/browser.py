"""A headless Chromium, driven through the pipe of its DevTools protocol: no driver and no package is needed."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "headless_shell")
_PATIENCE = 20.0


def find() -> str | None:
    """Returns the path of a Chromium; None if there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """A browser with one page. ``errors`` has the exceptions and errors that the page has logged."""

    def __init__(self, width: int = 1440, height: int = 900, dark: bool = False) -> None:
        executable = find()
        assert executable is not None
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (read_by_browser, self._to), (self._from, written_by_browser) = os.pipe(), os.pipe()

        def keep() -> None:
            # The protocol's pipes are the descriptors 3 and 4; the first copies keep one from overwriting the other.
            first, second = os.dup(read_by_browser), os.dup(written_by_browser)
            high = [os.dup2(first, 100), os.dup2(second, 101)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [
                executable,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--remote-debugging-pipe",
                f"--user-data-dir={self._folder.name}",
                f"--window-size={width},{height}",
                "about:blank",
            ],
            preexec_fn=keep,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_by_browser)
        os.close(written_by_browser)
        self._number, self._rest, self._session = 0, b"", ""
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._folder.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Calls a method of the protocol and returns its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session and not method.startswith("Target."):
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result

    def _message(self) -> dict[str, Any]:
        end = time.monotonic() + _PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(end - time.monotonic(), 0))
            data = os.read(self._from, 1 << 20) if ready else b""
            if not data:
                raise TimeoutError(f"the browser does not answer; its exit status is {self._process.poll()}")
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, given: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(given["exceptionDetails"].get("exception", given["exceptionDetails"])))
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.errors.append(str(given["args"]))
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.errors.append(str(given["entry"]["text"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])

    def open(self, file: Path, fragment: str = "") -> None:
        """Loads a file."""
        self.call("Page.navigate", url=file.as_uri() + (f"#{fragment}" if fragment else ""))
        self.until("document.readyState === 'complete'")

    def run(self, program: str) -> Any:
        """Returns the value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=program, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, (program, answer["exceptionDetails"])
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Waits for a JavaScript condition."""
        end = time.monotonic() + _PATIENCE
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, f"not so after {_PATIENCE:.0f} seconds: {condition}; {self.errors}"
            time.sleep(0.02)

    def picture(self, file: Path) -> None:
        """Saves a picture of what is visible."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
