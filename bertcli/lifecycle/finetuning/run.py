"""A fine-tuning from its examples to the best checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self, cast

from accelerate import Accelerator
from transformers import PreTrainedModel

from bertcli import say
from bertcli.config.training import FinetuneConfig
from bertcli.data.atomic import replacing
from bertcli.data.labelled.own_labels import Unit, listed
from bertcli.data.packing.windows import WindowRules
from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import UserError
from bertcli.families import family_of
from bertcli.kinds.kind import PREDICTIONS, Split
from bertcli.kinds.types import Prediction
from bertcli.lifecycle.baselining.beside_finetuning import score_baselines
from bertcli.lifecycle.defaults import FEW_PAIRS, Settings, choose_settings, usual_learning_rate
from bertcli.lifecycle.finetuning.after import advice_of, is_worse_than_head, next_commands, notes_of
from bertcli.lifecycle.finetuning.before import advise, show
from bertcli.lifecycle.finetuning.encoding import encode_splits, rules_of
from bertcli.lifecycle.finetuning.probe import Probe, fit_probe, takes_probe
from bertcli.lifecycle.finetuning.similarity import fewest_layers, learn_similarity
from bertcli.lifecycle.finetuning.start_model import model_of, resumed_model, tokenizer_of
from bertcli.lifecycle.finetuning.sweep import Setting, name_of, run_sweep
from bertcli.lifecycle.pretrained import is_sentence_encoder
from bertcli.lifecycle.report import write_reports
from bertcli.lifecycle.reporting.data_summary import summarize_data
from bertcli.lifecycle.scoring.scores import is_collapsed, score_all
from bertcli.lifecycle.scoring.task_model import TaskModel
from bertcli.lifecycle.sources import Setup, Source, learnt_before, show_examples
from bertcli.lifecycle.start import check_steps, enter
from bertcli.lifecycle.workspace import remark_on, resolve_model
from bertcli.models.encoder import longest_input, use_gradient_checkpointing
from bertcli.models.heads import in_unit, learn_around_zero
from bertcli.models.loading import open_config, save_architecture, save_model
from bertcli.models.model_with_loss import ModelWithLoss
from bertcli.models.own.frozen import FrozenBertForTokenClassification, with_states
from bertcli.models.packed import is_packed
from bertcli.training.device import micro_batch_tokens, resolve_precision, training_precision
from bertcli.training.loop import Training
from bertcli.training.plan import EVALUATED, Plan
from bertcli.training.processes.accelerator import describe_device, disconnect, make_accelerator
from bertcli.training.processes.launching import launch, processes_to_launch
from bertcli.training.progress import doing
from bertcli.training.result import CROSS_VALIDATED, TrainingResult
from bertcli.training.run_folder import RunFolder

StartModel = Callable[[str, Any, Source, WordPiece], PreTrainedModel]


@dataclass(frozen=True)
class Finetuning(Setup):
    """Everything that a fine-tuning needs, checked before its folder is made."""

    config: FinetuneConfig
    start: str
    tokenizer: WordPiece
    model: PreTrainedModel
    rules: WindowRules
    command: ClassVar[str] = "finetune"
    start_model: ClassVar[StartModel] = staticmethod(model_of)
    teacher_words: ClassVar[str] = ""  # the teacher and its scores, where there is one

    @classmethod
    def prepare(
        cls, config: FinetuneConfig, source: Source, start: str, splits: list[Split], resumed: Path | None = None
    ) -> Self:
        """Load the model and encode the splits, that to train on first. Raises UserError if they do not fit.

        `resumed` has the configuration and the tokenizer of a model whose weights are in a checkpoint.
        """
        task, kind = source.task, source.kind
        tokenizer = tokenizer_of(start, config, resumed)
        rules = rules_of(config, source)
        with doing("loading the model"):
            new = partial(cls.start_model, start, config, source, tokenizer)
            model = resumed_model(resumed, kind, config.frozen) if resumed else new()
        family = family_of(model.config.model_type)
        source = replace(source, task=family.task_of(task, model.config.hidden_size))
        config = config.with_defaults(family.finetuning_defaults)
        rules = replace(rules, max_answer_length=config.max_answer_length)
        with doing("encoding the examples"):
            rules, (train, *dev) = encode_splits(config, source, splits, tokenizer, rules, longest_input(model))
        if config.class_weights:
            train = replace(train, features=kind.with_class_weights(task, train.features))
        return cls(config, source, train, dev, start, tokenizer, model, rules)

    @property
    def trained_on(self) -> int:
        """The number of examples that are trained on."""
        return len(self.train)

    def to_train(self) -> tuple[ModelWithLoss, Any]:
        """The model with the loss that it is trained by, and the encoded examples."""
        return self.kind.with_loss(self.model), self.as_learnt(self.train.features)

    @cached_property
    def unit(self) -> Unit | None:
        """The mean and the deviation of own values, which are learnt as numbers around 0: few steps reach no others."""
        if self.config.resume:  # a run of an older version has none
            saved = RunFolder(Path(str(self.config.out))).config.get("unit")
            return Unit(*saved) if saved else None
        return self.kind.unit(self.task, self.train.examples) if self.source.own else None

    def as_learnt(self, features: Any) -> Any:
        """Encoded examples with their values as they are learnt."""
        return replace(features, labels=self.unit.around_zero(features.labels)) if self.unit else features

    @property
    def data_digests(self) -> dict[str, str]:
        """The digest of each split, which shows whether data have changed."""
        return {split.name: split.examples.digest for split in (self.train, *self.dev)}

    @cached_property
    def remarks(self) -> list[str]:
        """What may make the scores higher than those of new texts."""
        starts = {**self.config.values(), "from": self.start}
        task = self.config.task if self.source.own and not self.config.limit_dev else None
        before = learnt_before(starts, self.scored[0], task, self.data_digests.get("dev"))
        return [*filter(None, (remark_on(self.start, self.task.name), before))]

    @property
    def precision(self) -> str:
        """The precision that is trained in."""
        if self.config.frozen:
            return resolve_precision(self.config.precision)
        return training_precision(self.config.precision, self.model.config.hidden_size)

    def run(self, settings: list[Setting], folder: RunFolder) -> TrainingResult:
        """Train once, or once for each setting; in several processes where that is asked for."""
        config = self.config
        if config.resume and folder.config.get("data_digests", self.data_digests) != self.data_digests:
            what = f"The data of the run in `{folder.path}` have changed since it was begun."
            raise UserError(what, "Put them back, or start a new run.")
        if (count := processes_to_launch(config.processes)) > 1 and not config.dry_run:
            return launch(self.command, config.values(), count, folder)
        with folder:
            result = self._sweep(settings, folder) if settings else self._run_once(folder)
        disconnect()
        return result

    def _run_once(self, folder: RunFolder) -> TrainingResult:
        config = self.config
        unused = not is_packed(self.model)  # weights of attention that is not ours may not all be read
        accelerator = make_accelerator(self.precision, config.track, folder.path, unused)
        plan = self._plan()
        show(self, plan, describe_device(accelerator, self.precision))
        if config.gradient_checkpointing:
            use_gradient_checkpointing(self.model)
        return self._try(plan, accelerator, folder) if config.dry_run else self._train(plan, accelerator, folder)

    def _try(self, plan: Plan, accelerator: Accelerator, folder: RunFolder) -> TrainingResult:
        """Show two encoded examples, and make one step of which nothing is kept."""
        for line in show_examples(self.task, self.train, self.tokenizer, self.rules):
            say(line)
        setup = self._with_frozen_states(accelerator) if self.config.frozen else self
        training, started = Training(*setup.to_train(), plan, folder, accelerator, self.precision), time.perf_counter()
        training.make_steps(1)
        took = f"{time.perf_counter() - started:.1f} s, the first of {plan.steps:,}"
        say(f"one step took {took} (it is the slowest); nothing is written")
        return TrainingResult(task=self.task.name, seed=self.config.seed)

    def _sweep(self, settings: list[Setting], folder: RunFolder) -> TrainingResult:
        """Train a run for each setting, on the same examples."""
        config, metric = self.config, self.task.metrics[0]
        say(f"{len(settings)} runs, the best by dev {metric} is kept{listed(map(name_of, settings))}")
        if config.dry_run:
            return replace(self, config=replace(config, **settings[0]))._run_once(folder)
        accelerator = make_accelerator(self.precision, None, folder.path)
        chosen = {name: value for name, value in self.settings.chosen.items() if name not in settings[0]}
        enter(folder, self.command, config, {**self._resolved(), **chosen}, accelerator)

        def train(own: FinetuneConfig, part: RunFolder) -> TrainingResult:
            accelerator.free_memory()  # of the run before
            model = type(self).start_model(self.start, own, self.source, self.tokenizer)
            return replace(self, config=own, model=model)._run_once(part)

        return self._finish(run_sweep(config, folder, settings, metric, accelerator, train), folder, accelerator)

    @cached_property
    def settings(self) -> Settings:
        """The batch size, epochs and learning rate, given or chosen."""
        width = self.model.config.hidden_size
        has_few_pairs = self._learns_similarity and self.trained_on < FEW_PAIRS
        return choose_settings(self.config, self.task, self.trained_on, width, self.has_fitted_head, has_few_pairs)

    @property
    def has_fitted_head(self) -> bool:
        """Whether a new head is fitted to the frozen model before the whole is trained."""
        return takes_probe(self.kind, self.model)

    def _plan(self) -> Plan:
        """Steps as the original counts them: from examples, not windows, rounded down."""
        chosen, config, saved = self.settings, self.config, self.model.config
        steps = max(1, int(self.trained_on / chosen.batch_size * chosen.epochs))
        rules = family_of(saved.model_type).finetuning_of(saved.hidden_size).given_by(config)
        tokens, *of_dev = (cast(Any, each.features).lengths.sum() for each in (self.train, *self.dev))
        return Plan.of(
            config,
            rules=rules,
            steps=steps,
            batch_size=chosen.batch_size,
            learning_rate=chosen.learning_rate,
            warmup_steps=rules.warmup(steps * config.warmup_proportion),
            eval_steps=(config.eval_steps or math.ceil(steps / max(1, round(chosen.epochs)))) if self.dev else steps,
            eval_cost=EVALUATED * float(sum(of_dev) / (tokens / self.trained_on * chosen.batch_size)),
        )

    def _with_frozen_states(self, accelerator: Accelerator) -> Finetuning:
        """The same with the hidden states that do not change."""
        model = cast(FrozenBertForTokenClassification, self.model.to(accelerator.device))
        dtype = resolve_precision(self.config.precision)
        tokens = micro_batch_tokens(self.config.micro_batch_tokens)
        splits = (self.train, *self.dev)
        kept = (with_states(model, cast(Any, each.features), accelerator.device, tokens, dtype) for each in splits)
        train, *dev = (replace(each, features=features) for each, features in zip(splits, kept, strict=True))
        return replace(self, train=train, dev=dev)

    def _train(self, plan: Plan, accelerator: Accelerator, folder: RunFolder) -> TrainingResult:
        config, task = self.config, self.task
        check_steps(folder, config, plan.steps)
        setup = self._with_frozen_states(accelerator) if config.frozen else self
        cross_validated = self._begin(folder, accelerator)
        training = Training(*setup.to_train(), plan, folder, accelerator, self.precision)
        if config.resume:
            training.resume()
        training.history.is_unscored |= bool(cross_validated and not config.resume)  # the fitted head may be the best
        model = self._task_model(training.model, accelerator)

        def evaluate() -> dict[str, float]:
            with in_unit(training.model.model, self.unit):
                predicted = [model.predict(split) for split in setup.dev]
                is_early = training.history.steps < plan.steps  # when it is no surprise that nothing is learnt yet
                metrics = score_all(task, setup.dev, predicted, is_quiet=is_early)
                if not is_worse_than_head(self, training, model):
                    self._keep_best(training, metrics or cross_validated, predicted[0] if predicted else [])
            return metrics

        training.run(evaluate, partial(advise, self, plan))
        result = training.finish(task.name, split="dev" if self.dev else CROSS_VALIDATED)
        if result.stopped_early:
            waited = f"no improvement in {config.patience} evaluations"
            say(f"stopped early, at step {result.steps} of {plan.steps}: {waited}")
        return self._finish(result, folder, accelerator)

    def _begin(self, folder: RunFolder, accelerator: Accelerator) -> dict[str, float]:
        """Fit a new head, and create the run folder; return the cross-validated scores of the head, if it was fitted."""
        probe = None if self.config.resume else self._fit_head(folder, accelerator)
        fitted = folder.config.get(CROSS_VALIDATED, {}) if self.config.resume else probe.metrics if probe else {}
        resolved = {**self._resolved(), **self.settings.chosen, **({} if self.dev else {CROSS_VALIDATED: fitted})}
        save_start = partial(save_architecture, self.model, self.tokenizer)
        enter(folder, self.command, self.config, resolved, accelerator, save_start)
        if probe and not self.dev:
            self._write_predictions(folder, probe.predictions)
        return fitted

    def _fit_head(self, folder: RunFolder, accelerator: Accelerator) -> Probe | None:
        """Fit a new head to the states of the pre-trained model before it is trained."""
        if self.start == "scratch" or self.config.frozen:
            return None
        if self.kind.keeps_head(open_config(resolve_model(self.start)), self.kind.model_config(self.task)):
            learn_around_zero(self.model, self.unit)
            return None
        model = self._task_model(self.kind.with_loss(self.model).to(accelerator.device), accelerator)
        similarity = None
        if self._learns_similarity:
            rate = usual_learning_rate(self.task, self.model.config.hidden_size, has_fitted_head=True)
            where = folder, accelerator, self.precision
            similarity = learn_similarity(model, self.train, rate, self.config.seed, where)
            accelerator.free_memory()
        with doing("fitting the head to the frozen model"):
            probe = fit_probe(model, self.train, similarity)
        if probe:
            probe.give_to(self.model)
            learn_around_zero(self.model, self.unit)
            words = "  ".join(f"{name} {value:.2f}" for name, value in probe.metrics.items())
            say(f"head fitted to the frozen model, cross-validated: {words}; from here all weights are trained")
        return probe

    @property
    def _learns_similarity(self) -> bool:
        """Whether pairs of texts are to be read by a model that was trained to read them one at a time."""
        is_paired = self.has_fitted_head and getattr(self.train.examples, "pairs", None) is not None
        can_learn = self.start != "scratch" and self.model.config.num_hidden_layers >= fewest_layers(self.trained_on)
        return is_paired and can_learn and is_sentence_encoder(resolve_model(self.start))

    def _write_predictions(self, folder: RunFolder, predictions: list[Prediction]) -> None:
        for file, text in self.kind.files(self.task, predictions).items():
            folder.write(file, text)

    def _task_model(self, model: ModelWithLoss, accelerator: Accelerator) -> TaskModel:
        dtype = resolve_precision(self.config.precision)
        return TaskModel(self.task, self.kind, model, self.tokenizer, self.rules, accelerator.device, dtype)

    def _keep_best(self, training: Training, metrics: dict[str, float], predictions: list[Prediction]) -> None:
        """Save the model and its predictions if it is the best so far, else count the evaluations since the best."""
        name, history = self.task.metrics[0], training.history
        if self.dev and history.best and metrics[name] <= history.best["metrics"][name]:
            history.evaluations_since_best += 1
            return
        history.best = {"step": history.steps, "metrics": metrics, "collapsed": is_collapsed(self.task, predictions)}
        history.evaluations_since_best = 0
        with replacing(training.folder.model) as part:
            save_model(training.model.model, self.tokenizer, part)
        if self.dev:
            self._write_predictions(training.folder, predictions)

    def _finish(self, result: TrainingResult, folder: RunFolder, accelerator: Accelerator) -> TrainingResult:
        if accelerator.is_main_process:
            result = replace(result, baseline=self._baseline(folder) if self.config.baseline else {})
            result = replace(result, advice=advice_of(self, result), next=next_commands(self, result))
            result = replace(result, notes=notes_of(self, result), data=summarize_data(self))
            write_reports(folder, result, self.scored[0], self.task)
        return result

    def _baseline(self, folder: RunFolder) -> dict[str, dict[str, Any]]:
        """The scores of the guess and of a bag of words, on what the predictions of the run are of."""
        dev, path = self.dev[0] if self.dev else None, folder.path / PREDICTIONS
        if not (self.kind.has_linear_head and path.exists()):
            return {}
        ours = self.kind.read_predictions(self.task, dev or self.train, path)
        with doing("scoring a bag of words"):
            return score_baselines(self.task, self.train.examples, dev.examples if dev else None, ours)

    def _resolved(self) -> dict[str, Any]:
        """What was filled in of task, data and start, for config.yaml."""
        return {
            **self.source.resolved,
            **({"unit": [*self.unit]} if self.unit else {}),
            "from": self.start,
            "tokenizer": self.tokenizer.source,
            **({"with_impossible": self.task.with_impossible} if self.kind.max_query_length else {}),
            "max_seq_length": self.rules.max_seq_length,
            "data_digests": self.data_digests,
        }
