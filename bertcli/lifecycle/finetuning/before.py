"""What is said before a fine-tuning: its data, its model and its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from bertcli import number_of, say
from bertcli.lifecycle.finetuning.encoding import LENGTHS, chooses_length, input_lengths
from bertcli.lifecycle.pretrained import MINILM
from bertcli.lifecycle.sources import advise_lengths, describe_split, lost_in, lost_of
from bertcli.tasks.conll2003 import CONLL2003
from bertcli.tasks.paper import FROZEN_SCORES
from bertcli.training.progress import duration

if TYPE_CHECKING:
    from bertcli.lifecycle.finetuning.run import Finetuning
    from bertcli.training.plan import Plan

LONG_SECONDS = 1800
OTHER_LANGUAGE = "a model learns nothing from [UNK]: give --from a model of the language, such as google-bert/bert-base-multilingual-cased"
OTHER_SCRIPT = 0.1  # share of unknown tokens from which on the texts are taken to be in another script
MOST_SCORING, FEW_DEV = 0.4, 2000  # share of a run that scores; dev examples that are advised then


def show(setup: Finetuning, plan: Plan, where: str) -> None:
    """Say what is trained on what; `where` is the device in words."""
    from bertcli.models.heads import own_head

    task, rules, is_own, splits = setup.task, setup.rules, setup.source.own is not None, (setup.train, *setup.dev)
    lost = [lost_in(task, split, rules, setup.tokenizer) for split in splits]
    describe = lost_of if is_own else describe_split
    beside = [describe(split, [each]) for split, each in zip(splits, lost, strict=True)]
    if not is_own:
        say("; ".join(beside))
        beside = []
    elif rules.in_windows:
        beside += [f"{each.name}: {len(cast(Any, each.features).input_ids):,} windows" for each in splits]
    size = f"{setup.model.num_parameters() / 1e6:.1f} M parameters on {where}"
    say("; ".join([size, *filter(None, (length_in_words(setup), *beside))]))
    own = own_head(setup.model)
    head = frozen_words(setup) if setup.config.frozen else own and f"the model {own}"
    advice = advise_lengths(setup.kind, setup.train, rules), lost[0].unknown.share > OTHER_SCRIPT and OTHER_LANGUAGE
    for words in filter(None, (*advice, head, setup.teacher_words, *setup.remarks)):
        say(words)
    say(plan.describe(setup.trained_on, setup.settings.reasons))


def length_in_words(setup: Finetuning) -> str:
    """Why the inputs of own texts may be longer than is usual; nothing where they are not."""
    most, usual = setup.rules.max_seq_length, LENGTHS[0]
    if not chooses_length(setup.config, setup.source) or most <= usual:
        return ""
    lengths = input_lengths([setup.train, *setup.dev])
    return f"inputs of up to {most} tokens, as {(lengths > usual).sum():,} of {len(lengths):,} have more than {usual}"


def frozen_words(setup: Finetuning) -> str:
    """What a BiLSTM reads, and the paper's score of it."""
    layers = str(setup.config.frozen_layers)
    paper = FROZEN_SCORES.get(layers) if setup.task.name == CONLL2003.name else None
    beside = f"; the paper's base model: dev F1 {paper}" if paper else ""
    return f"frozen: a two-layer BiLSTM reads {layers}{beside}"


def advise(setup: Finetuning, plan: Plan, seconds: float) -> str:
    """What would take less time, for a run of more than half an hour: to score fewer examples, a smaller model on a CPU."""
    if seconds < LONG_SECONDS:
        return ""
    words, scoring = [], plan.eval_cost * plan.evaluations_until(plan.steps) / plan.cost_until(plan.steps)
    if scoring > MOST_SCORING:
        scored = f"{sum(map(len, setup.dev)):,} dev examples {number_of(plan.evaluations_until(plan.steps), 'time')}"
        words.append(f"{100 * scoring:.0f} % of it to score {scored}: `--limit-dev {FEW_DEV}` scores fewer")
    if length_in_words(setup):
        lengths = input_lengths([setup.train])
        share = lengths.clip(max=LENGTHS[0]).sum() / lengths.sum()
        words.append(f"`--max-seq-length {LENGTHS[0]}` would take about {duration(seconds * share)} (texts are cut)")
    ratio = setup.model.num_parameters(exclude_embeddings=True) / MINILM.parameters_of_layers
    if ratio >= 2 and setup.model.device.type == "cpu" and setup.start != "scratch":
        words.append(f"`--from {MINILM.name}` would take about {duration(seconds / ratio)} ({MINILM.costs})")
    return "; ".join(words)
