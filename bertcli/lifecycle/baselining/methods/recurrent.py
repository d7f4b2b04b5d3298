"""The network of the LSTM baselines, and its training by Adam."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_, parameters_to_vector, vector_to_parameters
from torch.nn.utils.rnn import pad_sequence

from bertcli import say
from bertcli.lifecycle.baselining.methods.method import Fitting, Floats
from bertcli.lifecycle.baselining.methods.static_vectors import PAIR_FEATURES

WordIds = list[list[list[Any]]]  # for each example its inputs, of each its texts, of each the numbers of its words
DEVIATION = 0.1  # of new word vectors
MOST_NORM = 5.0  # of the gradients
FEWEST_STEPS, FEWEST_EPOCHS, MOST_EPOCHS = 1000, 5, 40
AT_ONCE = 256  # examples that are predicted at a time
BUCKET = 50  # batches that are drawn together and sorted by length

# E examples, N inputs, T words of the longest text, W words of all sentences, D numbers of a vector, U units, C outputs


class Shape(NamedTuple):
    """The sizes of a network."""

    words: int
    vector: int
    units: int
    is_bidirectional: bool
    is_tagger: bool
    parts: int  # texts of an input
    outputs: int


class Recurrent(nn.Module):
    """Word vectors, an LSTM, and a linear head on the states of words, or on their largest values over a text."""

    def __init__(self, shape: Shape, seed: int, dropout: float) -> None:
        super().__init__()
        self.shape = shape
        directions = range(1 + shape.is_bidirectional)
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(seed)
            self.vectors = nn.Embedding(shape.words, shape.vector)
            nn.init.normal_(self.vectors.weight, std=DEVIATION)
            self.directions = nn.ModuleList(nn.LSTM(shape.vector, shape.units, batch_first=True) for _ in directions)
            states = shape.units * len(directions) * (1 if shape.parts == 1 else PAIR_FEATURES)
            self.head = nn.Linear(states, shape.outputs)
        self.dropout = nn.Dropout(dropout)

    def forward(self, examples: WordIds) -> Tensor:
        """The outputs of inputs, [N, C], or of words, [W, C]."""
        inputs = [parts for each in examples for parts in each]
        if self.shape.is_tagger:
            states, is_word = self._states([parts[0] for parts in inputs])
            return cast(Tensor, self.head(self.dropout(states[is_word])))
        if self.shape.parts == 1:
            return cast(Tensor, self.head(self.dropout(self._largest([np.concatenate(parts) for parts in inputs]))))
        first, second = (self._largest([parts[min(place, len(parts) - 1)] for parts in inputs]) for place in (0, 1))
        pairs = torch.cat([first, second, (first - second).abs(), first * second], dim=1)  # [N, 4U]
        return cast(Tensor, self.head(self.dropout(pairs)))

    def _states(self, texts: list[Any]) -> tuple[Tensor, Tensor]:
        """The states of the words of texts, [N, T, U], -inf after their ends, and which are words, [N, T]."""
        # Padded, as texts of a batch have like lengths: packed ones of 240 words take five times as long
        lengths, ids = torch.tensor([[len(ids)] for ids in texts]), [torch.from_numpy(ids) for ids in texts]
        vectors = self.dropout(self.vectors(pad_sequence(ids, batch_first=True)))
        places = torch.arange(vectors.shape[1])
        is_word = places < lengths
        backwards = torch.where(is_word, lengths - 1 - places, places)[..., None]
        states = [self.directions[0](vectors)[0]]
        for lstm in self.directions[1:]:
            found, _ = lstm(vectors.gather(1, backwards.expand_as(vectors)))
            states.append(found.gather(1, backwards.expand_as(found)))
        return torch.cat(states, dim=2).masked_fill(~is_word[..., None], -torch.inf), is_word

    def _largest(self, texts: list[Any]) -> Tensor:
        """The largest value of each unit over the words of a text, [N, U]."""
        return self._states(texts)[0].amax(1)

    def set_vectors(self, rows: list[int], table: Floats) -> None:
        """Start from these vectors, scaled to the deviation of new ones."""
        with torch.no_grad():
            self.vectors.weight[rows] = torch.from_numpy(table * (DEVIATION / table.std()))

    def flat(self) -> Floats:
        """All parameters as one array, [P]."""
        return parameters_to_vector(self.parameters()).detach().numpy().copy()

    def set_flat(self, parameters: Floats) -> None:
        """Take all parameters from one array, [P]."""
        vector_to_parameters(torch.from_numpy(parameters), self.parameters())

    def run(self, examples: WordIds) -> list[Any]:
        """The outputs of each example, [inputs, C] or [words, C]; those of like lengths are run together."""
        self.eval()
        found: list[Any] = [None] * len(examples)
        order = np.argsort([_length(each) for each in examples], kind="stable")
        with torch.inference_mode():
            for start in range(0, len(order), AT_ONCE):
                rows = order[start : start + AT_ONCE].tolist()
                outputs = self([examples[row] for row in rows]).numpy()
                counts = [_length(examples[row]) if self.shape.is_tagger else len(examples[row]) for row in rows]
                for row, own in zip(rows, np.split(outputs, np.cumsum(counts)[:-1]), strict=True):
                    found[row] = own
        return found


def train(
    network: Recurrent,
    examples: WordIds,
    targets: list[Any],
    setup: Fitting,
    score_on_dev: Callable[[], dict[str, float]],
) -> Floats:
    """Train a network, and return the parameters of the best epoch on dev, [P]; writes a line of metrics an epoch."""
    config, draw = setup.config, np.random.default_rng(setup.config.seed)
    torch.manual_seed(config.seed)  # of dropout
    per_epoch = -(-len(examples) // config.batch_size)
    epochs = config.epochs or min(MOST_EPOCHS, max(FEWEST_EPOCHS, round(FEWEST_STEPS / per_epoch)))
    optimizer = torch.optim.Adam(network.parameters(), lr=config.learning_rate)
    metric, best, kept, step = setup.task.metrics[0], -np.inf, network.flat(), 0
    steps = f"{epochs} epochs of {per_epoch:,} steps of {config.batch_size} examples"
    say(f"{len(kept) / 1e6:.1f} M parameters; {steps}, Adam, learning rate {config.learning_rate:g}")
    for epoch in range(epochs):
        network.train()
        losses = 0.0
        for rows in _batches(examples, config.batch_size, draw):
            loss = _loss(network, setup, [examples[row] for row in rows], [targets[row] for row in rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            clip_grad_norm_(network.parameters(), MOST_NORM)
            optimizer.step()
            losses, step = losses + loss.item(), step + 1
        metrics = score_on_dev()
        setup.lines.append({"step": step, "loss": losses / per_epoch, "learning_rate": config.learning_rate})
        setup.lines.append({"step": step, "metrics": metrics})
        say(f"epoch {epoch + 1} of {epochs}: loss {losses / per_epoch:.4f}, dev {metric} {metrics[metric]:.2f}")
        if metrics[metric] > best:
            best, kept = metrics[metric], network.flat()
    return kept


def _loss(network: Recurrent, setup: Fitting, examples: WordIds, targets: list[Any]) -> Tensor:
    """The mean loss of a batch, by the kind of the task."""
    logits = network(examples)
    if len(examples[0]) > 1:  # an input a choice
        logits = logits.reshape(len(examples), -1)  # [E, C]
    joined = np.concatenate(targets) if network.shape.is_tagger else np.stack(targets)
    batch: Any = SimpleNamespace(labels={"labels": torch.from_numpy(joined)})
    return setup.kind.losses({"logits": logits}, batch)["loss"] / len(joined)


def _batches(examples: WordIds, size: int, draw: np.random.Generator) -> list[list[int]]:
    """The rows of each batch, in random order; those of a batch have like lengths."""
    lengths, order = np.array([_length(each) for each in examples]), draw.permutation(len(examples))
    batches = []
    for start in range(0, len(order), BUCKET * size):
        part = order[start : start + BUCKET * size]
        part = part[np.argsort(lengths[part], kind="stable")]
        batches += [part[first : first + size].tolist() for first in range(0, len(part), size)]
    return [batches[row] for row in draw.permutation(len(batches))]


def _length(example: list[list[Any]]) -> int:
    """The words of an example."""
    return sum(len(text) for parts in example for text in parts)
