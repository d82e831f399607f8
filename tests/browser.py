"""A page in Chromium without a window, asked over a pipe: no driver, no port, no network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Self

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """Chromium with one page; use it as `with Browser(folder) as browser`.

    Args:
        profile: An empty folder for what it writes.
    """

    def __init__(self, profile: Path) -> None:
        asked, answered = os.pipe(), os.pipe()
        # It reads commands from file 3 and writes answers to file 4.
        script = f'exec "$0" "$@" 3<&{asked[0]} 4>&{answered[1]}'
        command = ["bash", "-c", script, str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}"]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(
            command, pass_fds=(asked[0], answered[1]), stdout=quiet, stderr=quiet
        )
        os.close(asked[0])
        os.close(answered[1])
        self.commands, self.answers = asked[1], answered[0]
        self.rest, self.count, self.session = b"", 0, ""

    def __enter__(self) -> Self:
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.wait(10)
        os.close(self.commands)
        os.close(self.answers)

    def ask(self, method: str, **values: Any) -> dict[str, Any]:
        """One command of the DevTools protocol, and its answer."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": values}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                read = os.read(self.answers, 65536)
                assert read, "the browser has ended"
                self.rest += read
            one, _, self.rest = self.rest.partition(b"\0")
            answer = json.loads(one)
            if answer.get("id") == self.count:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def open(self, page: Path, width: int, height: int) -> None:
        """Shows a file at a size, and waits until it is drawn."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 500,
        )  # fmt: skip
        self.ask("Page.navigate", url=page.as_uri())
        for _ in range(100):
            if self.run("return document.readyState === 'complete' && viewers.length"):
                break
            time.sleep(0.05)
        self.settle()

    def settle(self) -> None:
        """Waits for two frames: what was scheduled is drawn."""
        frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.ask("Runtime.evaluate", expression=frames, awaitPromise=True)

    def run(self, script: str) -> Any:
        """What a script returns, as JSON can hold it."""
        expression = f"(() => {{ try {{ {script} }} catch (error) {{ return null; }} }})()"
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")
