"""Train a BERT on masked words and next sentences."""

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray

from bertcli import say
from bertcli.config.recipes import shipped
from bertcli.config.training import PretrainConfig
from bertcli.data.atomic import replacing
from bertcli.data.packing.batches import evaluation_batches
from bertcli.data.pretraining.shards import PretrainingExamples, load_pretraining_examples
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import UserError
from bertcli.families import family_of
from bertcli.kinds.architecture import build, load, with_loss
from bertcli.lifecycle.start import begin, check_batch_size, enter
from bertcli.lifecycle.workspace import resolve_model
from bertcli.models.cooccurrence import start_from_neighbours
from bertcli.models.cross_entropy import vocabulary_cross_entropy
from bertcli.models.dropout import set_dropout
from bertcli.models.loading import check_length, check_vocabulary, save_model
from bertcli.models.model_with_loss import ModelWithLoss
from bertcli.reports.model_card import write_reports
from bertcli.training.device import describe_device, disconnect, make_accelerator
from bertcli.training.loop import Plan, Training
from bertcli.training.processes import is_launched, launch
from bertcli.training.result import TrainingResult
from bertcli.training.run_folder import RunFolder

NEIGHBOUR_TOKENS = 50_000_000  # enough for the neighbours of each token
EVALUATION_ROWS = 800  # of the training data, as run_pretraining.py's 100 batches of 8, where there is no held-out data
EVALUATION_TOKENS = 8192  # in one pass


@dataclass(frozen=True)
class _Setup:
    """Everything a pre-training run needs, checked before its folder is made."""

    config: PretrainConfig
    examples: PretrainingExamples
    held_out: PretrainingExamples
    objective: ModelWithLoss


def pretrain(config: PretrainConfig | None = None, **options: Any) -> TrainingResult:
    """Pre-train a BERT on the instances of `bert make-pretraining-data` and write a run folder.

    The masked-LM loss is the mean over the masked tokens of the whole global batch, the next-sentence loss the mean
    over its pairs; their sum is minimised (run_pretraining.py).

    Raises:
        UserError: if there is no data, or the vocabulary or the length does not fit the model.
        Interrupted: after Ctrl-C, the checkpoint saved.
    """
    asked = PretrainConfig.build(config, options)
    config, folder = begin("pretrain", asked, f"pretrain-{asked.size}")
    setup = _prepare(config)
    if config.processes > 1 and not is_launched() and not config.dry_run:
        return launch("pretrain", config.values(), config.processes, folder.path)
    accelerator = make_accelerator(
        config.precision, config.track, folder.path, unused=not setup.examples.has_next_sentence
    )
    plan = _plan(config)
    _show_card(setup, plan, accelerator)
    if config.dry_run:
        return TrainingResult(task="pretraining", seed=config.seed)
    return _train(setup, plan, accelerator, folder)


def _prepare(config: PretrainConfig) -> _Setup:
    folder = config.data or _newest_data()
    examples = load_pretraining_examples(folder, config.seed)
    say(f"data: {folder}{'' if config.data else ' (the newest here)'}")
    tokenizer = examples.tokenizer
    if config.tokenizer and load_tokenizer(shipped(config.tokenizer)).digest != tokenizer.digest:
        raise UserError(
            f"The vocabulary `{config.tokenizer}` is not the one that `{folder}` was made with.",
            f"Leave --tokenizer out, or make the data again: bert make-pretraining-data TEXT --tokenizer {config.tokenizer}",
        )
    check_batch_size(config.batch_size, config.processes)
    if config.from_ and config.from_ != "scratch":
        for name in ("embeddings", "initializer_range"):
            if getattr(config, name) != getattr(PretrainConfig, name):
                raise UserError(
                    f"--{name.replace('_', '-')} belongs to new weights.", "Leave it out, or leave out --from."
                )
        source = resolve_model(config.from_)
        model = load("pretrain", source, seed=config.seed)
        if not family_of(model.config.model_type).can_pretrain(model):
            raise UserError(
                f"The model `{source}` ({model.config.model_type}) has not BERT's heads to pre-train.",
                "Give --from a BERT or an ERNIE, or leave it out.",
            )
        check_vocabulary(model, tokenizer, source)
    else:
        model = build("pretrain", config.size, tokenizer, {}, config.seed, config.initializer_range)
    check_length(model, examples.max_seq_length)
    if config.embeddings == "cooccurrence" and tokenizer.size <= model.config.hidden_size:
        raise UserError(
            f"{tokenizer.size:,} tokens are too few for --embeddings cooccurrence in {model.config.hidden_size} dimensions.",
            "Leave --embeddings out, or build a larger vocabulary.",
        )
    held_out = (
        load_pretraining_examples(config.eval_data, config.seed) if config.eval_data else examples.head(EVALUATION_ROWS)
    )
    if held_out.tokenizer.digest != tokenizer.digest:
        raise UserError(
            f"`{config.eval_data}` was made with another vocabulary than `{folder}`.", "Make both with one --tokenizer."
        )
    return _Setup(
        config, examples, held_out, with_loss(model, "pretrain" if examples.has_next_sentence else "masked_lm")
    )


def _newest_data() -> str:
    found = sorted(Path().glob("*/manifest.json"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise UserError("There is no pre-training data here yet.", "Make some: bert make-pretraining-data TEXT")
    return str(found[-1].parent)


def _plan(config: PretrainConfig) -> Plan:
    """Fill in what was not given: the paper's warm-up, at most a tenth of the run."""
    return Plan(
        config,
        steps=config.steps,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        warmup_steps=config.warmup_steps if config.warmup_steps is not None else min(10_000, config.steps // 10),
        eval_steps=config.eval_steps or config.steps,
    )


def _show_card(setup: _Setup, plan: Plan, accelerator: Accelerator) -> None:
    config, rows = setup.config, len(setup.examples.lengths)
    model = setup.objective.model
    begun = config.from_ or f"new weights, {config.size}"
    say(
        f"model: {begun}, {model.num_parameters() / 1e6:.1f} M parameters on {describe_device(accelerator, config.precision)}"
    )
    say(f"{_data_words(setup.examples)}; {plan.words(rows)}")
    if not config.eval_data:
        say(
            f"measured on {len(setup.held_out.lengths)} rows of the training data, as the original does; --eval-data gives held-out text"
        )


def _data_words(examples: PretrainingExamples) -> str:
    """What is learnt from, and how it is masked."""
    options = examples.manifest["options"]
    units = "words" if options["whole_word_mask"] else "tokens"
    return (
        f"{len(examples.lengths):,} instances{'' if examples.has_next_sentence else ' without next sentences'}, "
        f"{examples.manifest['tokens'] / 1e6:.1f} M tokens, {options['masking']} masks of {options['masked_lm_prob']:.0%} of {units}"
    )


def _train(setup: _Setup, plan: Plan, accelerator: Accelerator, folder: RunFolder) -> TrainingResult:
    config = setup.config
    resolved = {"data": str(setup.examples.folder), "warmup_steps": plan.warmup_steps, "task": "pretraining"}
    enter(folder, "pretrain", config, resolved, accelerator)
    if config.embeddings == "cooccurrence" and not config.resume:
        _start_embeddings(setup)
    if config.dropout is not None:
        set_dropout(setup.objective, config.dropout)
    training = Training(setup.objective, setup.examples, plan, folder, accelerator, config.precision)
    measure = partial(evaluate_pretraining, training.model, setup.held_out, accelerator.device)
    if config.resume:
        training.resume()
    elif config.eval_steps and accelerator.is_main_process:
        folder.log({"step": 0, "metrics": measure()})
    training.run(measure)
    result = training.finish("pretraining")
    if accelerator.is_main_process:
        with replacing(folder.model) as part:
            save_model(training.model.model, setup.examples.tokenizer, part)
        write_reports(folder, result, [f"Data: {_data_words(setup.examples)}.", *_health(result.metrics)])
        folder.unlock()
    disconnect()
    return result


def _start_embeddings(setup: _Setup) -> None:
    """Start the token embeddings from the neighbours in the data, or in as many of its rows as are enough."""
    examples, seed = setup.examples, setup.config.seed
    enough = max(1, int(len(examples.lengths) * min(1.0, NEIGHBOUR_TOKENS / examples.lengths.sum())))
    rows = np.sort(np.random.default_rng(seed).permutation(len(examples.lengths))[:enough])
    chunks = (examples.unmasked(chunk) for chunk in np.array_split(rows, math.ceil(enough / 20_000)))
    set_rows = start_from_neighbours(setup.objective.model.get_input_embeddings(), chunks, seed)
    say(f"embeddings of {set_rows:,} tokens start from their neighbours in {enough:,} rows")


def _health(metrics: dict[str, float]) -> list[str]:
    """On which side of the plateau the run ended, where masked-LM loss rests until attention starts to work."""
    if "token_entropy" not in metrics:
        return []
    loss, entropy = metrics["masked_lm_loss"], metrics["token_entropy"]
    side = (
        "below: the model reads the words around a mask"
        if loss < 0.95 * entropy
        else "about there: it needs more steps"
    )
    words = (
        f"Masked-LM loss {loss:.2f}; knowing only how frequent each token is gives {entropy:.2f}. This run is {side}."
    )
    say(words)
    return [words]


@torch.no_grad()
def evaluate_pretraining(
    objective: ModelWithLoss, examples: PretrainingExamples, device: torch.device
) -> dict[str, float]:
    """Masked-LM and next-sentence accuracy (times 100) and loss, beside what guessing gives.

    `most_frequent_token_accuracy` is the score of always answering the token most frequent in the data;
    `majority_next_sentence_accuracy` that of always giving the commoner of the two labels; `token_entropy` the masked-LM
    loss of knowing how frequent each token is, and nothing else.
    """
    objective.eval()
    masked_lm, next_sentence = np.zeros(4), np.zeros(4)
    frequent = examples.manifest["most_frequent_token"]["id"]
    for batch in evaluation_batches(examples, EVALUATION_TOKENS):
        batch = batch.to(device)
        outputs = objective.outputs(batch)
        masked_lm += _sums(outputs["masked_lm"], batch.labels["masked_lm_ids"], frequent)
        next_sentence += _sums(outputs["next_sentence"], batch.labels["next_sentence_labels"], 1)
    loss, right, guessed, count = masked_lm.tolist()
    metrics = {
        "masked_lm_accuracy": 100 * right / count,
        "masked_lm_loss": loss / count,
        "most_frequent_token_accuracy": 100 * guessed / count,
    }
    if "token_entropy" in examples.manifest:
        metrics["token_entropy"] = examples.manifest["token_entropy"]
    if examples.has_next_sentence:
        loss, right, random, count = next_sentence.tolist()
        metrics |= {
            "next_sentence_accuracy": 100 * right / count,
            "next_sentence_loss": loss / count,
            "majority_next_sentence_accuracy": 100 * max(random, count - random) / count,
        }
    return {name: round(value, 4) for name, value in metrics.items()}


def _sums(logits: torch.Tensor, labels: torch.Tensor, guess: int) -> NDArray[np.float64]:
    """Cross entropy, how many are right, about how many the guess is, and how many there are, [4]."""
    loss = vocabulary_cross_entropy(logits, labels)
    right = (logits.argmax(-1) == labels).sum()
    return np.array([float(loss), int(right), int((labels == guess).sum()), len(labels)])
