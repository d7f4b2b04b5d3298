"""Running the parts of a reproduction: each once, by whichever process is free, and again from its checkpoint after a kill."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import bertcli
from bertcli import say
from bertcli.config.data import BuildVocabConfig, MakePretrainingDataConfig
from bertcli.config.distillation import DistillConfig
from bertcli.config.options import Config
from bertcli.config.training import FinetuneConfig, PretrainConfig
from bertcli.config.use import EvaluateConfig
from bertcli.data.json_files import check_values, read_json, write_json
from bertcli.errors import Interrupted, UserError, quoted
from bertcli.lifecycle.reproducing.claims import Claims
from bertcli.lifecycle.reproducing.parts import Part
from bertcli.training.progress import duration, said_into
from bertcli.training.run_folder import RunFolder
from bertcli.training.stopping import Interruption, interrupted

DONE, LOG = "part.json", "log.txt"  # in the folder of a part
SECONDS_BETWEEN_LOOKS = 1.0  # at parts that other processes run
CONFIGS: dict[str, type[Config]] = {"build_vocab": BuildVocabConfig, "evaluate": EvaluateConfig}
CONFIGS |= {"pretrain": PretrainConfig, "distill": DistillConfig, "finetune": FinetuneConfig}
CONFIGS["make_pretraining_data"] = MakePretrainingDataConfig
KEPT = ("collapsed", "tokens_per_second", "steps", "tokens", "instances")  # of a result, beside its scores
RESUMED = ("pretrain", "distill", "finetune")  # runs, which `resume` starts or continues


def is_done(folder: Path, part: Part) -> bool:
    """Whether a part is done."""
    return (folder / part.path / DONE).exists()


def result_of(folder: Path, part: str) -> dict[str, Any]:
    """What is kept of a part that is done: its seconds, the scores, and the run."""
    hint = f"Run the part again: rm -r {quoted(folder / part)}, then the same command."
    path = folder / part / DONE
    result: dict[str, Any] = read_json(path, hint, seconds=float, metrics=dict)
    check_values(path, hint, result["metrics"], dict.fromkeys(result["metrics"], int | float))
    return result


def run_parts(folder: Path, parts: Mapping[str, Part], again: str) -> None:
    """Run the parts that are not done; those that other processes run are waited for. `again` is the command to continue.

    Raises Interrupted after Ctrl-C, with the checkpoint saved, and UserError if a part fails.
    """
    try:
        with Interruption(is_at_once=True):
            _run_all(folder, parts, again)
    except KeyboardInterrupt as stop:
        raise interrupted(stop, "", again) from None


def _run_all(folder: Path, parts: Mapping[str, Part], again: str) -> None:
    claims, waited = Claims(folder), ""
    numbers = dict(zip(parts, range(1, len(parts) + 1), strict=True))
    while left := [part for part in parts.values() if not is_done(folder, part)]:
        ready = [part for part in left if all(is_done(folder, parts[need]) for need in part.after)]
        if any(_run(folder, part, claims, f"{numbers[part.path]} of {len(parts)}", again) for part in ready):
            continue
        if (holder := next(filter(None, (claims.holder(part.path) for part in ready)), "")) != waited:
            waited = holder
            say(f"waiting for {holder}" if holder else "waiting for another process")
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _run(folder: Path, part: Part, claims: Claims, place: str, again: str) -> bool:
    """Run a part, if it is neither done nor held by another process; return whether it is done now."""
    with claims.hold(part.path) as is_held:
        if not is_held:
            return False
        if not is_done(folder, part):
            earlier, started = claims.seconds(part.path), time.perf_counter()
            result = _called(folder, part, place, again)
            seconds = earlier + time.perf_counter() - started
            facts = {"title": part.title, "command": part.command, "options": {**part.options, **part.needs}}
            write_json(folder / part.path / DONE, {**facts, "seconds": round(seconds, 1), **result}, indent=2)
            scores = "  ".join(f"{name} {value:.2f}" for name, value in [*result["metrics"].items()][:3])
            say(f"{place}  {part.title}: {duration(seconds)}{f'  {scores}' if scores else ''}")
    claims.forget(part.path)
    return True


def _called(folder: Path, part: Part, place: str, again: str) -> dict[str, Any]:
    """Call the function of a part; what it says goes into a file."""
    path = folder / part.path
    needs = {option: [str(folder / each) for each in need.split(",")] for option, need in part.needs.items()}
    options = {**part.options, **{option: ",".join(paths) for option, paths in needs.items()}}
    if hasattr(CONFIGS[part.command], "out"):
        options["out"] = str(path)
    if part.command == "evaluate":
        options["model"] = [options["model"]]
    if part.command in RESUMED and RunFolder(path).is_finished:
        return _kept(read_json(path / "result.json", f"Remove it: rm -r {quoted(path)}", metrics=dict))
    path.parent.mkdir(parents=True, exist_ok=True)
    more = {"resume": True} if part.command in RESUMED else {}
    try:
        with said_into(path.with_name(f"{path.name}.{LOG}"), f"{place}  {part.title}"):
            result = getattr(bertcli, part.command)(**options, **more)
    except (Interrupted, KeyboardInterrupt) as stop:
        raise interrupted(stop, f"{part.title}: ", again) from None
    except UserError as error:
        raise type(error)(f"{part.title}: {error.message}", f"{error.hint} Then continue: {again}") from None
    path.mkdir(exist_ok=True)
    return _kept(vars(result))


def _kept(result: Mapping[str, Any]) -> dict[str, Any]:
    """The scores of a part, and how fast it trained."""
    return {"metrics": result.get("metrics", {}), **{name: result[name] for name in KEPT if name in result}}
