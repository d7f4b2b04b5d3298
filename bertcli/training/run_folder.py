"""The folder of a run: its configuration, environment, metrics, model and last checkpoint."""

import fcntl
import json
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from shlex import join
from typing import IO, Any, Self

import yaml

from bertcli import __version__
from bertcli.data.atomic import remove, write_text
from bertcli.data.json_files import Types, check_values, read_json
from bertcli.data.yaml_files import read_yaml
from bertcli.errors import UserError, check_place, quoted
from bertcli.kinds import get_kind
from bertcli.training import checkpoint

PACKAGES = ("torch", "transformers", "datasets", "evaluate", "accelerate", "tokenizers", "numpy", "pyarrow")
LOCK = ".lock"
# Of the values in config.yaml that other commands read; None where an option is not given, or a command has no such option.
CONFIG_TYPES: dict[str, Types] = {
    "command": str,
    **dict.fromkeys(("task", "kind", "text", "text_pair", "label", "data_dir", "from", "grid"), str | None),
    **dict.fromkeys(("frozen_layers", "tokenizer", "data"), str | None),
    **dict.fromkeys(
        ("max_seq_length", "doc_stride", "max_query_length", "max_answer_length", "seed", "seeds"), int | None
    ),
    "shards_per_window": int | list | None,
    "data_digests": dict | None,
}
MEND = "Restore it, or move the run out of the folder `runs`."


class RunFolder:
    """A run on disk. The process that writes holds its lock, so that two runs cannot share a folder."""

    def __init__(self, path: Path, starts_over: bool = False, is_numbered: bool = False) -> None:
        """`starts_over`: it holds a run of which nothing was saved yet; `is_numbered`: the number in its name may change if it is taken."""
        self.path, self.starts_over, self.is_numbered = path, starts_over, is_numbered
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        """Release the lock at the end of the context, however it ends."""
        return self

    def __exit__(self, *error: object) -> None:
        """Release the lock, if this process holds it."""
        self.unlock()

    @property
    def model(self) -> Path:
        """The model: the best on the dev set, or the last if there is none."""
        return self.path / "model"

    @property
    def checkpoints(self) -> Path:
        """The folder of what `--resume` continues from."""
        return self.path / checkpoint.CHECKPOINTS

    @property
    def start(self) -> Path:
        """Configuration and tokenizer of the model, without weights, for `--resume`."""
        return self.path / "start"

    @property
    def is_resumable(self) -> bool:
        """Whether there is a checkpoint, or there are runs that it consists of."""
        return checkpoint.has_checkpoint(self.path) or self.has_parts

    @property
    def steps_done(self) -> int:
        """The step of the latest checkpoint."""
        return checkpoint.latest_step(self.path)

    @property
    def is_finished(self) -> bool:
        """Whether the run has ended."""
        return (self.path / "result.json").exists()

    @property
    def unfinished(self) -> str:
        """A remark on a run that has begun and not ended; else nothing."""
        is_begun = (self.path / "config.yaml").exists() and not self.is_finished
        return f"{self.path} is not finished; this is the model of the last step that was kept" if is_begun else ""

    @property
    def config(self) -> dict[str, Any]:
        """The saved configuration and the name of its command."""
        path = self.path / "config.yaml"
        try:
            saved = read_yaml(path)
        except (OSError, ValueError) as error:
            raise UserError(f"`{path}` cannot be read: {error}.", MEND) from None
        check_values(path, MEND, saved, CONFIG_TYPES)
        if saved["command"] in ("finetune", "baseline") or saved.get("kind"):
            check_values(path, MEND, saved, {"task": str, "kind": str})
            get_kind(saved["kind"])
        return dict(saved)

    @property
    def used_as(self) -> str:
        """Its command; of a distillation the one whose runs are used alike, by whether it was trained on a task."""
        saved = self.config
        if saved["command"] != "distill":
            return str(saved["command"])
        return "finetune" if saved.get("kind") else "pretrain"

    @property
    def has_parts(self) -> bool:
        """Whether it is of several seeds, of a grid or of all choices of layers, each a run in a sub-folder."""
        saved = self.config
        return (saved.get("seeds") or 1) > 1 or bool(saved.get("grid")) or saved.get("frozen_layers") == "all"

    @property
    def shards_per_window(self) -> list[int]:
        """Of how many shards at a time its order of pre-training data mixes the rows, in each phase; 0: of all."""
        saved = self.config.get("shards_per_window") or 0
        of_phases = saved if isinstance(saved, list) else [saved]
        for each in of_phases:
            check_values(self.path / "config.yaml", MEND, {"shards_per_window": each}, {"shards_per_window": int})
        return of_phases

    @property
    def command_to_resume(self) -> str:
        """The command line that continues it."""
        return self.how_to_resume(self.config["command"])

    def how_to_resume(self, command: str) -> str:
        """The command line that continues a run of a command in this folder."""
        return f"bert {command} --resume --out {quoted(self.path)}"

    @property
    def labels(self) -> list[str]:
        """The labels of its model; none where it has no names for its outputs."""
        return list(read_json(self.model / "config.json", MEND).get("id2label", {}).values())

    def check(self, command: str, resumes: bool) -> None:
        """Raise UserError if no run can be in this folder, or, unless it resumes, something is there."""
        check_place(self.path)
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"`{self.path}` is a file.", "Give another --out.")
        if self.is_occupied and not (resumes or self.starts_over):
            self.check_free()
            resume = f"Resume it: {self.how_to_resume(command)}; or give" if self.unfinished else "Give"
            raise UserError(f"`{self.path}` is not empty.", f"{resume} another --out.")

    def create(self, command: str, config: dict[str, Any]) -> None:
        """Make and lock the folder; write the configuration and the environment. Raises UserError if it is not empty."""
        try:
            self._take(command)
        except UserError:  # another run may have taken the name since
            if not self.is_numbered:
                raise
            name, _, number = self.path.name.rpartition("-")
            self.path = self.path.with_name(f"{name}-{int(number) + 1}" if number.isdigit() else f"{self.path.name}-2")
            return self.create(command, config)
        for old in self.path.iterdir():  # what a killed process has left
            if old.name != LOCK:
                remove(old)
        self.save_config(command, {**config, "out": str(self.path)})
        system = {"python": platform.python_version(), "platform": platform.platform(), "cores": os.cpu_count()}
        typed = {"started": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "command_line": join(["bert", *sys.argv[1:]])}
        packages = {package: version(package) for package in PACKAGES}
        environment = {**typed, "bertcli": __version__, **system, "packages": packages}
        self.write("environment.json", json.dumps(environment, indent=2) + "\n")

    def save_config(self, command: str, config: dict[str, Any]) -> None:
        """Write config.yaml: the command and its resolved options."""
        self.write("config.yaml", yaml.safe_dump({"command": command, **config}, sort_keys=False, allow_unicode=True))

    def _take(self, command: str) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self.lock()
        try:
            self.check(command, resumes=False)
        except UserError:
            self.unlock()
            raise

    @property
    def is_occupied(self) -> bool:
        """Whether the folder holds more than a killed process leaves behind before it has written its configuration."""
        return self.path.is_dir() and any(not path.name.startswith(".") for path in self.path.iterdir())

    def lock(self) -> None:
        """Lock the folder. Raises UserError if another run holds the lock."""
        self._lock = (self.path / LOCK).open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            self._lock = None
            hint = "Wait for it to end, or give another --out."
            raise UserError(f"`{self.path}` is in use by another run.", hint) from None

    def check_free(self) -> None:
        """Raise UserError if another run holds the lock."""
        if self._lock is None:
            self.lock()
            self.unlock()

    def unlock(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            (self.path / LOCK).unlink(missing_ok=True)
            self._lock = None

    def write(self, name: str, text: str) -> None:
        """Write a file atomically."""
        with checkpoint.refusing_removal(self.path):
            write_text(self.path / name, text)

    def log(self, values: dict[str, Any]) -> None:
        """Append a line to metrics.jsonl."""
        with checkpoint.refusing_removal(self.path), (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl, without those that a killed run has left in part."""
        path = self.path / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
        return [line for line in map(_parsed, lines) if "step" in line]

    def forget_after(self, step: int) -> None:
        """Drop the metrics and checkpoints of steps that a resumed run repeats."""
        checkpoint.forget_checkpoints_after(self.path, step)
        kept = [line for line in self.metrics() if line["step"] <= step]
        self.write("metrics.jsonl", "".join(json.dumps(line) + "\n" for line in kept))


def _parsed(line: str) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}
