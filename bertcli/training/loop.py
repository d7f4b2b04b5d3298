"""The training loop of pre-training and fine-tuning."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, replace
from statistics import fmean
from typing import Any, cast

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast
from torch import Tensor

from bertcli import say
from bertcli.data.packing.batches import Ahead, Packable, PackedBatch, TrainingBatches
from bertcli.data.packing.keyed import derive
from bertcli.errors import Interrupted
from bertcli.models.dropout import seed_dropout
from bertcli.models.loading import has_finite_weights, is_finite
from bertcli.models.model_with_loss import ModelWithLoss
from bertcli.models.working_copy import WorkingCopy
from bertcli.training import stopping
from bertcli.training.checkpoint import LAST, History, latest_checkpoint, load_checkpoint, save_checkpoint
from bertcli.training.device import keep_freed_memory, memory_bytes, micro_batch_tokens, training_precision
from bertcli.training.optimizer import Adam, make_optimizer
from bertcli.training.plan import Plan
from bertcli.training.processes.shards import Shards, is_sharded
from bertcli.training.processes.watch import Watch
from bertcli.training.progress import Advise, Progress
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder
from bertcli.training.throughput import peak_flops, work_of

UNTIMED_STEPS = 3  # the first steps are slower: memory is allocated, kernels are chosen

Evaluate = Callable[[], dict[str, float]]


class Training:
    """One run of the loop: `Training(...).run()` trains from the first step, or from a checkpoint, to the last."""

    def __init__(
        self,
        model: ModelWithLoss,
        examples: Packable,
        plan: Plan,
        folder: RunFolder,
        accelerator: Accelerator,
        precision: str,
    ) -> None:
        self.plan, self.folder, self.accelerator = plan, folder, accelerator
        self.model = model.to(accelerator.device)  # what is updated, evaluated and saved
        dtype = torch.bfloat16 if training_precision(precision) == "bfloat16" else torch.float32
        self.working_copy = Shards(model, dtype, accelerator) if is_sharded() else WorkingCopy(model, dtype)
        module = self.working_copy.module
        tokens = micro_batch_tokens(plan.micro_batch_tokens, cast(ModelWithLoss, module).models.values())
        share = accelerator.process_index, accelerator.num_processes
        self.batches = TrainingBatches(examples, plan.batch_size, plan.seed, tokens, *share)
        self.ahead = Ahead(plan.steps)
        self.module = module if is_sharded() else accelerator.prepare(module)
        optimizer = make_optimizer(self.working_copy.updated, plan.optimizer, self.working_copy, plan.rules)
        self.optimizer = accelerator.prepare(optimizer)
        if accelerator.num_processes == 1:
            optimizer.defer_rows()
        self.watch = Watch(folder.path)
        self.peak_flops, self.peak_words = peak_flops(accelerator.device, dtype)
        self.history = History()
        self.gradient_norm = 0.0  # of the last step, before clipping
        self.has_saved, self.saved_at = False, time.perf_counter()
        self._pending: list[dict[str, Tensor]] = []  # losses not yet read from the device

    @property
    def _own_optimizer(self) -> Adam:
        """The optimizer without Accelerate's wrapper."""
        return cast(Adam, getattr(self.optimizer, "optimizer", self.optimizer))

    @property
    def share_of_peak(self) -> float:
        """FLOPs done as a share of those that all devices could have done, without the first steps."""
        possible = self.history.timed_seconds * self.peak_flops * self.accelerator.num_processes
        return round(self.history.timed_flops / possible, 4) if possible else 0.0

    def resume(self) -> None:
        """Continue from the latest checkpoint of the run that is not damaged."""
        checkpoint = latest_checkpoint(self.folder.path)
        state, slots = load_checkpoint(checkpoint, self.model)
        self.working_copy.take()
        self._own_optimizer.load_slots(slots)
        if checkpoint.name == LAST:
            say("this run was begun by an older version: dropout draws other masks from here on")
        self.history = History(steps=state.pop("step"), **state)
        say(f"continuing after step {self.history.steps:,}")
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            self.folder.forget_after(self.history.steps)

    @property
    def is_out_of_patience(self) -> bool:
        """Whether the last evaluations brought no improvement."""
        return self.plan.patience is not None and self.history.evaluations_since_best >= self.plan.patience

    def run(self, evaluate: Evaluate, advise: Advise = lambda seconds: "") -> None:
        """Train to the last step or until patience runs out, calling `evaluate` every `eval_steps` steps and at the end.

        Raises Interrupted after Ctrl-C, with the checkpoint saved, and RunError if the model is not finite.
        """
        keep_freed_memory()
        history, steps, first = self.history, self.plan.steps, self.history.steps
        progress = Progress("training", self.plan.cost_until(steps))
        with stopping.Interruption() as interruption, self.ahead.thread, progress, self.watch:
            progress.start_at(self.plan.cost_until(first))
            with self.watch.idling():
                stop = self._evaluate(evaluate, interruption)
            while history.steps < steps and not (stop or self.is_out_of_patience):
                step, started = history.steps, time.perf_counter()
                micro_batches = self.ahead.take(self.batches, step)
                if self.accelerator.device.type == "cpu":
                    self.ahead.begin(self.batches, step + 1)
                totals = self._step_in_memory(step, micro_batches, interruption.asked)
                history.steps, stop = step + 1, totals["stop"] > 0
                saves, evaluates = self._log_if_due(stop or totals["saves"] > 0)
                seconds = time.perf_counter() - started
                history.time(totals["tokens"], totals["flops"], seconds, is_warm=step - first >= UNTIMED_STEPS)
                words = history.describe(steps, memory_bytes(self.accelerator.device))
                progress.advance(self.plan.cost(step), words)
                progress.estimate(str(self.folder.path), advise)
                with self.watch.idling():
                    history.is_unscored = evaluates
                    stop = stop or self._evaluate(evaluate, interruption)
                    progress.advance(self.plan.eval_cost * self.plan.is_due(step + 1, self.plan.eval_steps), words)
                    if saves or stop or self.is_out_of_patience:
                        self._save()
        if stop or interruption.asked:
            what = f"Stopped after step {history.steps:,} of {steps:,}; the checkpoint is kept."
            raise Interrupted(what, f"Continue: {self.folder.command_to_resume}", interruption.asked)
        self._say_speed()

    def _say_speed(self) -> None:
        speed, share, skipped = self.history.tokens_per_second, 100 * self.share_of_peak, self.history.skipped
        of_skipped = f"; {skipped:,} updates were not finite and skipped" if skipped else ""
        say(f"{speed:,.0f} real tokens per second, {share:.1f} % of {self.peak_words}{of_skipped}")

    def make_steps(self, steps: int, advance: Callable[[float], object] = lambda done: None) -> None:
        """Make the first steps, without a log or a checkpoint; `advance` is called after each."""
        for step in range(steps):
            self._step(step, self.ahead.take(self.batches, step), 0)
            advance(1)
        self._read_losses()  # waits for the device
        self.working_copy.gather()

    def finish(self, task: str, split: str = "") -> TrainingResult:
        """Close the trackers; return the result of the run, with the scores of the best checkpoint, or of the last."""
        for tracker in self.accelerator.trackers:
            tracker.finish()
        history, best = self.history, self.history.best
        return TrainingResult(
            run=str(self.folder.path),
            model=str(self.folder.model),
            task=task,
            seed=self.plan.seed,
            split=split,
            steps=history.steps,
            losses=[round(loss, 4) for loss in history.losses],
            tokens_per_second=history.tokens_per_second,
            share_of_peak=self.share_of_peak,
            peak=self.peak_words,
            metrics=best.get("metrics", history.metrics),
            best_step=best.get("step", 0),
            stopped_early=history.steps < self.plan.steps,
            collapsed=best.get("collapsed", False),
        )

    def _step_in_memory(self, step: int, micro_batches: list[PackedBatch], asked: int) -> dict[str, float]:
        """Make one update, in smaller micro-batches if memory is short and the plan allows it, else raise RunError."""
        try:
            return self._step(step, micro_batches, asked)
        except RuntimeError as error:
            if not stopping.is_out_of_memory(error):
                raise
        can_halve = self.plan.auto_batch_size and self.accelerator.num_processes == 1
        if not can_halve or all(len({*batch.rows.tolist()}) == 1 for batch in micro_batches):
            raise stopping.out_of_memory(micro_batches) from None
        self._own_optimizer.zero_grad()
        tokens = max(len(batch.input_ids) for batch in micro_batches) // 2
        most = f"micro-batches of at most {tokens:,} tokens"
        say(f"out of memory: {most} from step {step + 1:,} on, with the same result")
        self.batches = replace(self.batches, micro_batch_tokens=tokens)
        return self._step_in_memory(step, self.batches.of_step(step), asked)

    def _step(self, step: int, micro_batches: list[PackedBatch], asked: int) -> dict[str, float]:
        """Make one update; return the counts of the global batch: tokens, FLOPs, and whether a process was asked to stop.

        Each loss is divided by its count over the whole global batch, so that accumulation and data parallelism
        give the gradients of one large batch.
        """
        totals = self._global_counts(micro_batches, asked)
        rate = self.plan.rate_at(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["rate"]
        losses: dict[str, Tensor] = {}
        self._last_batch = micro_batches[-1]
        self.module.train()
        for index, batch in enumerate(micro_batches):
            last = index == len(micro_batches) - 1
            own_seed = derive(self.plan.seed, step, self.accelerator.process_index, index)
            seed_dropout(derive(self.plan.seed, step), own_seed)
            with self._synchronized(last), self.watch.idling():
                sums = self.module(batch.to(self.accelerator.device))
                parts = {name: value / (totals[name] or 1) for name, value in sums.items()}
                # Data parallelism averages gradients over processes, but these are sums.
                self.accelerator.backward(torch.stack([*parts.values()]).sum() * self.accelerator.num_processes)
            losses = {name: losses.get(name, 0) + part.detach() for name, part in parts.items()}
            if last or self.accelerator.num_processes == 1:  # processes exchange the sums of the copies
                self.working_copy.give_gradients(is_last=last)
        self._update(step, micro_batches, losses, totals.get("loss", 1.0))
        return totals

    def _update(self, step: int, micro_batches: list[PackedBatch], losses: dict[str, Tensor], examples: float) -> None:
        """Update the weights, unless the loss or its gradient is not finite. Raises RunError where that is so ten times in a row."""
        if self.accelerator.scaler is not None:
            self.accelerator.unscale_gradients(self.optimizer)
        norm = self._own_optimizer.clip_by_global_norm(count=examples)
        values = self._summed(torch.stack([*losses.values(), norm.to(self.accelerator.device)]))
        self.ahead.begin(self.batches, step + 1)  # on a GPU not before: launching kernels would wait for the thread
        history, self.gradient_norm = self.history, float(norm)
        if values.isfinite().all():
            history.skipped_in_a_row = 0
            self._pending.append(losses)
        else:
            history.skipped, history.skipped_in_a_row = history.skipped + 1, history.skipped_in_a_row + 1
            say(f"step {step + 1:,}: the loss or its gradient is not finite; this update is skipped")
        if history.skipped_in_a_row >= stopping.SKIPPED_IN_A_ROW:
            what = f"{stopping.SKIPPED_IN_A_ROW} updates in a row were not finite, {stopping.last_of(step, micro_batches)}."
            raise stopping.not_finite(what, self.plan.learning_rate, self.folder)
        if not history.skipped_in_a_row or self.accelerator.scaler is not None:  # which skips by itself, and adapts
            self.optimizer.step()
        self.optimizer.zero_grad()

    def _check_weights(self) -> None:
        """Raise RunError if weights, or a loss with them, are not finite, before they are scored or saved."""
        with torch.no_grad():
            losses = self.working_copy.module(self._last_batch.to(self.accelerator.device))
        if not (has_finite_weights(self.model) and all(is_finite(loss) for loss in losses.values())):
            what = f"The model is not finite after step {self.history.steps:,}: it is not saved."
            raise stopping.not_finite(what, self.plan.learning_rate, self.folder)

    def _global_counts(self, micro_batches: list[PackedBatch], asked: int) -> dict[str, float]:
        saves = self.plan.is_save_due(time.perf_counter() - self.saved_at, not self.has_saved)
        saves = saves and self.accelerator.is_main_process
        counts = {**work_of(self.model.models.values(), micro_batches), "stop": int(asked > 0), "saves": int(saves)}
        if self.accelerator.num_processes == 1:  # to read them from a GPU is to wait for the step before
            return counts
        values = torch.tensor(list(counts.values()), dtype=torch.float64, device=self.accelerator.device)
        return dict(zip(counts, self._summed(values).tolist(), strict=True))

    def _summed(self, values: Tensor) -> Tensor:
        """Sum over processes."""
        if self.accelerator.num_processes > 1:
            with self.watch.idling():
                values = self.accelerator.reduce(values)
        return values

    def _synchronized(self, last: bool) -> Any:
        """Processes exchange gradients once a step, with the last micro-batch."""
        self.working_copy.exchange(last)
        return nullcontext() if last else self.accelerator.no_sync(self.module)

    def _log_if_due(self, saves_now: bool) -> tuple[bool, bool]:
        """Read the losses, log them and check the weights if that is due; return whether to save, and to evaluate."""
        plan = self.plan
        intervals = (plan.log_steps, plan.save_steps, plan.eval_steps)
        logs, saves, evaluates = (plan.is_due(self.history.steps, every) for every in intervals)
        saves, evaluates = saves | saves_now, evaluates or self.history.steps in plan.seen_steps
        if logs or saves or evaluates:
            self._read_losses()
        if saves or evaluates:
            with self.watch.idling():
                self.working_copy.gather()
                self._check_weights()
        if logs:
            self._log()
        return saves, evaluates

    def _read_losses(self) -> None:
        """Read the losses from the device and sum them over processes."""
        if not self._pending:
            return
        names = list(self._pending[0])
        values = torch.stack([torch.stack([losses[name] for name in names]) for losses in self._pending])
        self._pending.clear()
        self.history.unlogged += [dict(zip(names, step, strict=True)) for step in self._summed(values).tolist()]

    def _log(self) -> None:
        plan, history = self.plan, self.history
        if not history.unlogged:  # all updates since the last line were skipped
            return
        means = {f"{name}_loss": fmean(losses[name] for losses in history.unlogged) for name in history.unlogged[0]}
        history.unlogged.clear()
        history.losses.append(sum(means.values()))
        rate, norm = plan.rate_at(history.steps - 1), round(self.gradient_norm, 6)
        line = {"step": history.steps, "loss": history.losses[-1], "learning_rate": rate, "gradient_norm": norm}
        line |= {"tokens_per_second": history.tokens_per_second, "share_of_peak": self.share_of_peak}
        if len(means) > 1:
            line |= means
        if self.accelerator.is_main_process:
            self.folder.log(line)
        self.accelerator.log(line, step=history.steps)

    def _evaluate(self, evaluate: Evaluate, interruption: stopping.Interruption) -> bool:
        """Score the model if it is due; return whether a signal stopped that: a run of one process scores when it continues."""
        if not self.history.is_unscored:
            return False
        history, before = self.history, replace(self.history)
        self.module.eval()
        scores = evaluate if self.accelerator.is_main_process else dict[str, float]
        metrics = interruption.unless_asked(scores, self.accelerator.num_processes == 1)
        if metrics is None:
            history.best, history.evaluations_since_best = before.best, before.evaluations_since_best
            return True
        if self.accelerator.is_main_process and self.plan.is_due(history.steps, self.plan.eval_steps):
            history.metrics = metrics
            self.folder.log({"step": history.steps, "metrics": metrics})
            words = "  ".join(f"{name} {value:.2f}" for name, value in metrics.items()) or "done"
            if metrics or history.steps:
                say(f"step {history.steps:,}  {words}")
        waited = torch.tensor(history.evaluations_since_best, device=self.accelerator.device)
        history.evaluations_since_best = int(broadcast(waited))  # as the main process counted
        if self.is_out_of_patience and history.unlogged:
            self._log()
        history.is_unscored = False
        return False

    def _save(self) -> None:
        slots = self._own_optimizer.slots()
        if self.accelerator.is_main_process:
            more = {key: value for key, value in asdict(self.history).items() if key != "steps"}
            save_checkpoint(self.folder.checkpoints, self.model, slots, self.history.steps, more)
        self.has_saved, self.saved_at = True, time.perf_counter()
        self.accelerator.wait_for_everyone()
