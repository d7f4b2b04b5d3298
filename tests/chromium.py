"""A headless Chromium, spoken to through a pipe: pages are opened at a width and in a theme, and looked at."""

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Chromium:
    """One browser with one page."""

    def __enter__(self) -> Self:
        to_read, self.write = os.pipe()
        self.read, to_write = os.pipe()

        def place_pipes() -> None:  # the browser reads from 3 and writes to 4
            os.dup2(to_read, 13), os.dup2(to_write, 14), os.dup2(13, 3), os.dup2(14, 4)

        options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars"]
        silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([str(BROWSER), *options], preexec_fn=place_pipes, close_fds=False, **silent)
        os.close(to_read), os.close(to_write)
        self.number, self.rest, self.session, self.complaints = 0, b"", None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.read), os.close(self.write)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol and wait for its result."""
        self.number += 1
        session = {"sessionId": self.session} if self.session else {}
        message = {"id": self.number, "method": method, "params": parameters, **session}
        os.write(self.write, json.dumps(message).encode() + b"\0")
        return self._until(lambda said: said.get("id") == self.number)["result"]

    def _until(self, wanted: Any) -> dict[str, Any]:
        while True:
            while b"\0" not in self.rest:
                self.rest += os.read(self.read, 1 << 20)
            line, _, self.rest = self.rest.partition(b"\0")
            said = json.loads(line)
            self._note(said)
            if wanted(said):
                return said

    def _note(self, said: dict[str, Any]) -> None:
        """Keep what the console complains of, and what is asked of the network."""
        method, given = said.get("method"), said.get("params", {})
        if method in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.complaints.append(json.dumps(given))
        if method == "Network.requestWillBeSent" and not given["request"]["url"].startswith(
            ("file:", "about:", "data:")
        ):
            self.complaints.append(given["request"]["url"])

    def open(self, page: Path | str, width: int, dark: bool = False) -> None:
        """Open a file or an address at a width in pixels."""
        self.complaints.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[theme])
        self.call("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
        self._until(lambda said: said.get("method") == "Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript in the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def picture(self) -> bytes:
        """The whole page as a PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])
