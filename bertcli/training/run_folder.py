"""The folder of a run: its configuration, environment, metrics, model and last checkpoint."""

import fcntl
import json
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import yaml

from bertcli import __version__
from bertcli.data.atomic import replacing
from bertcli.errors import UserError

PACKAGES = ("torch", "transformers", "datasets", "evaluate", "accelerate", "tokenizers", "numpy", "pyarrow")


class RunFolder:
    """A run on disk. The process that writes holds its lock, so that two runs cannot share a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[str] | None = None

    @property
    def model(self) -> Path:
        """The model: the best on the dev set, or the last if there is none."""
        return self.path / "model"

    @property
    def last(self) -> Path:
        """The checkpoint of `--resume`."""
        return self.path / "last"

    @property
    def is_finished(self) -> bool:
        """Whether the run has ended."""
        return (self.path / "result.json").exists()

    @property
    def config(self) -> dict[str, Any]:
        """The saved configuration and the name of its command."""
        return dict(yaml.safe_load((self.path / "config.yaml").read_text(encoding="utf-8")))

    @property
    def labels(self) -> list[str]:
        """The labels of its model; none where it has no names for its outputs."""
        saved = json.loads((self.model / "config.json").read_text(encoding="utf-8"))
        return list(saved.get("id2label", {}).values())

    def create(self, command: str, config: dict[str, Any]) -> None:
        """Make and lock the folder; write the configuration and the environment. Raises UserError if it is not empty."""
        if self.path.exists() and (not self.path.is_dir() or any(p.name != ".lock" for p in self.path.iterdir())):
            self.lock()
            hint = f"Resume it: bert {command} --resume --out {self.path}; or give another --out."
            raise UserError(f"`{self.path}` is not empty.", hint)
        self.path.mkdir(parents=True, exist_ok=True)
        self.lock()
        self.save_config(command, config)
        system = {"python": platform.python_version(), "platform": platform.platform(), "cores": os.cpu_count()}
        typed = {"started": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "command_line": " ".join(["bert", *sys.argv[1:]])}
        packages = {package: version(package) for package in PACKAGES}
        environment = {**typed, "bertcli": __version__, **system, "packages": packages}
        self.write("environment.json", json.dumps(environment, indent=2) + "\n")

    def save_config(self, command: str, config: dict[str, Any]) -> None:
        """Write config.yaml: the command and its resolved options."""
        self.write("config.yaml", yaml.safe_dump({"command": command, **config}, sort_keys=False, allow_unicode=True))

    def lock(self) -> None:
        """Lock the folder. Raises UserError if another run holds the lock."""
        self._lock = (self.path / ".lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            hint = "Wait for it to end, or give another --out."
            raise UserError(f"`{self.path}` is in use by another run.", hint) from None

    def unlock(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            (self.path / ".lock").unlink(missing_ok=True)
            self._lock = None

    def write(self, name: str, text: str) -> None:
        """Write a file atomically."""
        with replacing(self.path / name) as part:
            part.write_text(text, encoding="utf-8")

    def log(self, values: dict[str, Any]) -> None:
        """Append a line to metrics.jsonl."""
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl, without a partial last line of a killed run."""
        path = self.path / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def forget_after(self, step: int) -> None:
        """Drop the metrics of steps that a resumed run repeats."""
        kept = [line for line in self.metrics() if line["step"] <= step]
        self.write("metrics.jsonl", "".join(json.dumps(line) + "\n" for line in kept))
