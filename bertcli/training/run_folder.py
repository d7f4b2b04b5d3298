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

from bertcli import __version__, say
from bertcli.data.atomic import replacing
from bertcli.data.shipped import SHIPPED, shipped_model
from bertcli.errors import UserError

RUNS = Path("runs")
PACKAGES = ("torch", "transformers", "datasets", "evaluate", "accelerate", "tokenizers", "numpy", "pyarrow")


class RunFolder:
    """A run on disk. Whoever writes holds its lock, so that two runs cannot share a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[str] | None = None

    @property
    def model(self) -> Path:
        """The model: the best on the dev set, or the last where there is none."""
        return self.path / "model"

    @property
    def last(self) -> Path:
        """What `--resume` needs."""
        return self.path / "last"

    @property
    def is_finished(self) -> bool:
        """Whether the run came to its end."""
        return (self.path / "result.json").exists()

    @property
    def config(self) -> dict[str, Any]:
        """The saved configuration, with the command it is of."""
        values = yaml.safe_load((self.path / "config.yaml").read_text(encoding="utf-8"))
        return dict(values)

    def create(self, command: str, config: dict[str, Any]) -> None:
        """Make the folder and take its lock; write the configuration and the environment.

        Raises:
            UserError: if another run works in it, or it already holds one.
        """
        if self.path.exists() and (not self.path.is_dir() or any(p.name != ".lock" for p in self.path.iterdir())):
            self.lock()
            raise UserError(
                f"`{self.path}` already holds something.",
                f"Go on with it: bert {command} --resume --out {self.path}; or give another --out.",
            )
        self.path.mkdir(parents=True, exist_ok=True)
        self.lock()
        self.save_config(command, config)
        self.write("environment.json", json.dumps(environment(), indent=2) + "\n")

    def save_config(self, command: str, config: dict[str, Any]) -> None:
        """Write config.yaml: the options as resolved, and the command they are of."""
        self.write("config.yaml", yaml.safe_dump({"command": command, **config}, sort_keys=False, allow_unicode=True))

    def lock(self) -> None:
        """Take the folder for this process.

        Raises:
            UserError: if another run has it.
        """
        self._lock = (self.path / ".lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(
                f"`{self.path}` is in use by another run.", "Wait for it to end, or give another --out."
            ) from None

    def unlock(self) -> None:
        """Give the folder free."""
        if self._lock is not None:
            self._lock.close()
            (self.path / ".lock").unlink(missing_ok=True)
            self._lock = None

    def write(self, name: str, text: str) -> None:
        """Write a file at once: it is old or new, never half."""
        with replacing(self.path / name) as part:
            part.write_text(text, encoding="utf-8")

    def log(self, values: dict[str, Any]) -> None:
        """Append a line to metrics.jsonl."""
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl; a half line of a killed run is left out."""
        path = self.path / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def forget_after(self, step: int) -> None:
        """Drop the metrics of steps that a resumed run makes again."""
        kept = [line for line in self.metrics() if line["step"] <= step]
        self.write("metrics.jsonl", "".join(json.dumps(line) + "\n" for line in kept))


def new_run(name: str) -> RunFolder:
    """A folder for a new run: runs/NAME, or runs/NAME-2, -3 ... where that is taken."""
    path, number = RUNS / name, 1
    while path.exists():
        number += 1
        path = RUNS / f"{name}-{number}"
    return RunFolder(path)


def find_runs(command: str, finished: bool, **wanted: object) -> list[RunFolder]:
    """The runs here, newest first: of a command, finished or not, with the given values in their configuration."""
    wanted["command"] = command
    runs = [RunFolder(path.parent) for path in RUNS.glob("*/config.yaml")]
    fits = [run for run in runs if run.is_finished == finished and wanted.items() <= run.config.items()]
    return sorted(fits, key=lambda run: (run.path / "config.yaml").stat().st_mtime, reverse=True)


def newest_run(task: str, *others: RunFolder) -> RunFolder:
    """The newest finished run of a task, or else the first of the others; which it is, is said.

    Raises:
        UserError: if there is none.
    """
    runs = [*find_runs("finetune", finished=True, task=task), *others]
    if not runs:
        raise UserError(
            f"There is no finished run of {task} here.", f"Make one: bert finetune {task}; or name a --model."
        )
    say(f"model: {runs[0].path} (the newest run of {runs[0].config['task']})")
    return runs[0]


def saved_config(model: str) -> dict[str, Any]:
    """The configuration of the run that a model folder is of; nothing for another model."""
    run = RunFolder(Path(model).parent)
    return run.config if (run.path / "config.yaml").exists() else {}


def resolve_model(source: str) -> str:
    """The model folder of a run, or the source as it is: a model folder, a Hub name or that of the model that ships.

    Raises:
        UserError: if it looks like a folder but holds no model.
    """
    path = Path(shipped_model() if source == SHIPPED else source)
    if (path / "model" / "config.json").exists():
        return str(path / "model")
    if (path / "config.json").exists() or not path.exists():
        if not path.exists() and (source.startswith((".", "/", "runs/")) or source.count("/") > 1):
            raise UserError(f"There is no model `{source}`.", "Give a run under runs/, a model folder or a Hub name.")
        return str(path)
    if (path / "config.yaml").exists():
        raise UserError(
            f"The run `{source}` has no model yet.",
            f"Go on with it: bert {RunFolder(path).config['command']} --resume --out {source}",
        )
    raise UserError(f"`{source}` holds no model.", "Give a run under runs/, a folder with config.json, or a Hub name.")


def environment() -> dict[str, Any]:
    """What the run ran on."""
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command_line": " ".join(["bert", *sys.argv[1:]]),
        "bertcli": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "packages": {package: version(package) for package in PACKAGES},
    }
