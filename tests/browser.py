"""A headless Chromium, driven over its debugging pipe (Chrome DevTools Protocol): nothing but the browser is needed."""

from __future__ import annotations

import atexit
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SECONDS = 60


def find_browser() -> str | None:
    """Path of a Chromium: `ACCELSIM_CHROMIUM`, or one on the path; None without one."""
    return os.environ.get("ACCELSIM_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A process that pages share, each in a context of its own: without what another one has stored."""

    def __init__(self) -> None:
        self._number = 0
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        command_out, self._out = os.pipe()
        self._in, answer_in = os.pipe()
        options = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --hide-scrollbars"
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{command_out} 4>&{answer_in}', find_browser() or "chromium",
             *options.split(), f"--user-data-dir={self._profile.name}", "--remote-debugging-pipe", "about:blank"],
            pass_fds=(command_out, answer_in), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(command_out)
        os.close(answer_in)
        self._buffer = b""

    def close(self) -> None:
        """End the browser."""
        self.process.terminate()
        self.process.wait(SECONDS)
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def send(
        self, method: str, session: str = "", keep: Callable[[dict[str, Any]], None] | None = None, **parameters: Any
    ) -> dict[str, Any]:
        """Call a method of the protocol and wait for its result; `keep` is given the events of the session before."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            if keep is not None and answer.get("sessionId") == session:
                keep(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], SECONDS)
            part = os.read(self._in, 1 << 20) if ready else b""
            if not part:
                raise RuntimeError("the browser has ended, or says nothing")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


_open: list[Browser] = []
"""The browser of this process, once a page has been asked for; another one after it that does not answer."""


@atexit.register
def _end() -> None:
    while _open:
        _open.pop().close()


class Page:
    """One page; what goes wrong in it is kept in `errors`."""

    def __init__(
        self,
        file: Path,
        *,
        link: str = "",
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        touch: bool = False,
    ):
        self.errors: list[str] = []
        if not _open:
            _open.append(Browser())
        self._browser, self._session = _open[0], ""
        try:
            self._context = self.send("Target.createBrowserContext")["browserContextId"]
            self._open(file.as_uri() + link, width, height, dark, touch)
        except BaseException:
            _end()
            raise

    def _open(self, address: str, width: int, height: int, dark: bool, touch: bool) -> None:
        target = self.send("Target.createTarget", url="about:blank", browserContextId=self._context)["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.send("Emulation.setTouchEmulationEnabled", enabled=touch)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url=address)
        self.wait("document.documentElement?.dataset.ready === 'true'")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._session = ""
        self.send("Target.disposeBrowserContext", browserContextId=self._context)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and wait for its result."""
        return self._browser.send(method, self._session, self._keep, **parameters)

    def _keep(self, event: dict[str, Any]) -> None:
        """Keep what an event says of errors and of anything fetched over the network."""
        method, told = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(argument.get("value")) for argument in told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.errors.append(told["entry"]["text"])
        elif method == "Network.requestWillBeSent" and told["request"]["url"].startswith("http"):
            self.errors.append(f"fetched {told['request']['url']}")

    def run(self, script: str) -> Any:
        """Value of a JavaScript expression."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", script))
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + SECONDS
        while not self.run(condition):
            if time.monotonic() > end:
                raise TimeoutError(f"{condition}; {self.errors}")
            time.sleep(0.05)

    def box(self, selector: str) -> dict[str, float]:
        """Place of an element in the window, after it was scrolled there."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{found}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
        return self.run(f"{found}.getBoundingClientRect().toJSON()")

    def drag(self, selector: str, start: float, end: float) -> None:
        """Drag the mouse over an element, from one share of its width to another."""
        box = self.box(selector)
        y = box["top"] + box["height"] / 2
        xs = [box["left"] + box["width"] * (start + (end - start) * step / 8) for step in range(9)]
        self._mouse("mouseMoved", xs[0], y, 0)
        self._mouse("mousePressed", xs[0], y, 1)
        for x in xs[1:]:
            self._mouse("mouseMoved", x, y, 1)
        self._mouse("mouseReleased", xs[-1], y, 0)

    def click(self, selector: str) -> None:
        """Click the middle of an element."""
        box = self.box(selector)
        self.click_at(box["left"] + box["width"] / 2, box["top"] + box["height"] / 2)

    def click_at(self, x: float, y: float) -> None:
        """Click a point of the window."""
        self._mouse("mouseMoved", x, y, 0)
        self._mouse("mousePressed", x, y, 1)
        self._mouse("mouseReleased", x, y, 0)

    def tap_at(self, x: float, y: float) -> None:
        """Tap a point of the window with a finger."""
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def _mouse(self, kind: str, x: float, y: float, buttons: int) -> None:
        button = "none" if kind == "mouseMoved" and not buttons else "left"
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=buttons, clickCount=1)

    def press(self, key: str) -> None:
        """Press a key, by its name."""
        text = "\r" if key == "Enter" else ""
        codes = {"Enter": 13, "ArrowRight": 39, "ArrowLeft": 37, "Tab": 9}
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key], **more)

    def screenshot(self, file: Path, *, whole: bool = False) -> None:
        """Save a picture of the window, or of the whole page."""
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(shot["data"]))
