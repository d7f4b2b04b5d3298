"""What is said after a fine-tuning: notes of the model card, advice where nothing was learnt, and what to type next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from bertcli import say
from bertcli.data.labelled.examples import shortened
from bertcli.errors import flag_of
from bertcli.families import family_of
from bertcli.kinds.kind import PREDICTIONS
from bertcli.kinds.text import LABELS_SHOWN
from bertcli.kinds.types import Predictions
from bertcli.lifecycle.defaults import usual_learning_rate
from bertcli.lifecycle.finetuning.before import frozen_words
from bertcli.lifecycle.reporting.provenance import command_of
from bertcli.reports.rendering import escaped
from bertcli.training.result import BAG_OF_WORDS, GUESS, TrainingResult

if TYPE_CHECKING:
    from bertcli.lifecycle.finetuning.run import Finetuning
    from bertcli.lifecycle.scoring.task_model import TaskModel
    from bertcli.lifecycle.sources import Setup
    from bertcli.training.loop import Training

OF_DATA = ("task", "text", "text_pair", "label", "kind", "data_dir", "seed", "limit")  # options that say what is learnt


def notes_of(setup: Finetuning, result: TrainingResult) -> list[str]:
    """What the model card says below the scores."""
    from bertcli.models.heads import own_head

    notes = [f"Scores are of the best checkpoint on dev, step {result.best_step:,} of {result.steps:,}."]
    if not setup.dev:
        scored = "Scores are of the head on the frozen model, cross-validated."
        notes = [f"All {len(setup.train):,} examples were trained on. {scored}"]
    if not result.best_step:
        notes.append("No training was better than the head fitted to the frozen model, which is what was kept.")
    if result.runs:
        best = f"the best of {len(result.runs)} runs by dev {setup.task.metrics[0]}, so that new texts may score lower"
        notes.append(f"It is {best}; each has a folder here.")
    if setup.teacher_words:
        notes.append(f"Distilled; {setup.teacher_words}.")
    if setup.config.frozen:
        notes.append(
            f"{frozen_words(setup)}. `AutoModel` opens the BERT, as it was; the BiLSTM stands in the same file"
            " (`lstm`, `classifier`), which `bert evaluate` and `bert predict` read."
        )
    elif own := own_head(setup.model):
        notes.append(f"The model {own}; `bert evaluate` and `bert predict` run it so.")
    if setup.rules.in_windows:
        notes.append(
            f"Texts longer than {setup.rules.max_seq_length} tokens were read in windows; their outputs are the mean"
            " of the windows' logits, by tokens. `bert evaluate` and `bert predict` do the same."
        )
    if result.stopped_early:
        notes.append(f"Stopped early: `--patience {setup.config.patience}` ran out.")
    if result.collapsed:
        notes.append("**Collapsed**: this model gives the same answer for every dev example; it has learnt nothing.")
    counts = setup.kind.label_counts(setup.task, setup.train.features)
    if 0 < len(counts) <= LABELS_SHOWN:
        notes.append(f"Training examples of each label: {', '.join(map(escaped, counts))}.")
    return [*notes, *filter(None, (setup.task.warning, _drawn(setup), *setup.remarks))]


def _drawn(setup: Finetuning) -> str:
    """Which seed drew the data of a run of a sweep, where it is not the run's own."""
    seed, is_drawn = setup.source.seed, setup.source.own is not None or setup.config.limit
    is_other = is_drawn and seed != setup.config.seed
    return f"Its data were drawn by seed {seed}, as those of all runs of the sweep." if is_other else ""


def is_worse_than_head(setup: Finetuning, training: Training, model: TaskModel) -> bool:
    """Whether a trained model errs more on its own examples than the fitted head on unseen ones; False with a dev set."""

    def errors(predictions: Predictions) -> float:
        given = setup.task, setup.train.examples, predictions
        return float(sum(each for each, _ in setup.kind.mistakes(*given, setup.kind.compare(*given))))

    kept = training.folder.path / PREDICTIONS
    if setup.dev or not training.history.best or not kept.exists():
        return False
    is_worse = errors(model.predict(setup.train)) > errors(setup.kind.read_predictions(setup.task, setup.train, kept))
    if is_worse:
        say("training made it worse than the fitted head, which is kept: give more --epochs or a lower --learning-rate")
    return is_worse


def advice_of(setup: Finetuning, result: TrainingResult) -> str:
    """The command to try where training taught nothing: with the usual learning rate, or more epochs; "" where it did."""
    guess, used, width = result.baseline.get(GUESS), setup.settings, setup.model.config.hidden_size
    has_usual = used.learning_rate == usual_learning_rate(setup.task, width, setup.has_fitted_head)
    has_helped = not setup.dev or has_usual or result.best_step > 0
    if has_helped and not result.collapsed and (guess is None or guess["difference"] > 0):
        return ""
    if not setup.dev:
        return "more examples, or --from another model; the scores are of this one, frozen"
    chosen = replace(setup, config=replace(setup.config, epochs=None)).settings.epochs  # where none are given
    longer = {"learning_rate": None, "epochs": f"{3 * used.epochs:g}" if has_usual > (used.epochs < chosen) else None}
    is_named = setup.config.from_ != getattr(setup.config, "teacher", None)  # a student is of the teacher's layers
    start = setup.start if is_named else None
    usual = family_of(setup.model.config.model_type).finetuning_defaults
    given = {name: value for name, value in setup.config.values().items() if value != usual.get(name)}
    return command_of({**given, "command": setup.command, "from": start, **longer})


def next_commands(setup: Setup, result: TrainingResult) -> list[str]:
    """The two commands most likely typed next: for all of the data, or a bag of words if that is surely better; for one text."""
    name, model = setup.task.name, f"--model {quote(result.run)}"
    is_test = not setup.dev and "test" in (setup.source.own or {})
    whole = f"bert evaluate {quote(name)} {model}{' --split test' if is_test else ''}"
    if setup.source.own is not None and setup.kind.reads_tables and Path(name).is_file():
        whole = f"bert predict --file {quote(name)} --output predictions.csv {model}"
    of_words = result.baseline.get(BAG_OF_WORDS, {})
    if of_words.get("significant") and of_words["difference"] < 0:
        asked = setup.config.values()
        whole = command_of({"command": "baseline", **{key: asked.get(key) for key in OF_DATA}})
    given = " ".join(f"{flag_of(key)} {quote(shortened(text))}" for key, text in setup.train.examples.request())
    return [whole, *([f"bert predict {given} {model}"] if given else [])]
