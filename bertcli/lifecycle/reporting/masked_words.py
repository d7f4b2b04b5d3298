"""The masked words that a model finds in pre-training: by frequency, by type of token, and in a few sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertcli.data.packing.ragged import Ragged
from bertcli.data.packing.text_features import MASK, MaskFeatures
from bertcli.data.pretraining.shards import PretrainingExamples
from bertcli.data.text.tokenization import SPACES, WordPiece
from bertcli.kinds.kind import Split
from bertcli.kinds.mask import Mask, MaskedTexts
from bertcli.models.model_with_loss import ModelWithLoss, run_model
from bertcli.objectives.objective import Part
from bertcli.tasks.task import INPUT

SENTENCES, SENTENCE_TOKENS, GUESSES, SHORTEST_WORD = 6, 24, 3, 4
COUNTED_ROWS = 20_000  # of the data, from which the frequency of each token is known
RANKS = (10, 100, 1_000, 10_000)
TOKENS_AT_ONCE = 8192


@dataclass
class MaskedWords:
    """The answers of the latest evaluation, and the sentences that are filled a few times a run."""

    examples: PretrainingExamples  # evaluated on
    labels: list[NDArray[np.int64]] = field(default_factory=list)
    right: list[NDArray[np.bool_]] = field(default_factory=list)

    @cached_property
    def sentences(self) -> list[tuple[list[int], int]]:
        """Token ids of each sentence, and the place of the word that is masked."""
        return _choose_sentences(self.examples)

    def begin(self) -> Callable[[Part, torch.Tensor, torch.Tensor], None]:
        """Forget the last evaluation; return what sees the batches of the next."""
        self.labels, self.right = [], []
        return self.see

    def see(self, part: Part, labels: torch.Tensor, right: torch.Tensor) -> None:
        """Keep the answers of a batch, where they are tokens."""
        if part.predicts_tokens:
            self.labels.append(labels.cpu().numpy())
            self.right.append(right.cpu().numpy())

    def accuracies(self, examples: PretrainingExamples) -> dict[str, list[dict[str, Any]]]:
        """The accuracy, times 100, by the frequency of the masked tokens in `examples`, and by their type."""
        if not self.labels:
            return {}
        labels, right = np.concatenate(self.labels), np.concatenate(self.right)
        ranks, tokens = _ranks(examples)[labels], examples.tokenizer.tokens
        types = np.array([_type_of(token, examples.tokenizer) for token in tokens])[labels]
        groups = zip((0, *RANKS), (*RANKS, 10**9), strict=True)
        by_rank = {_rank_words(low, high): (ranks >= low) & (ranks < high) for low, high in groups}
        by_type = {str(each): types == each for each in np.unique(types)}
        return {"by frequency in the data": _shares(by_rank, right), "by type of token": _shares(by_type, right)}

    def fill(self, model: ModelWithLoss, device: torch.device) -> list[dict[str, Any]]:
        """The best guesses for the masked word of each sentence."""
        if not self.sentences:
            return []
        kind, tokenizer = Mask(GUESSES, self.examples.tokenizer.size), self.examples.tokenizer
        ids, places = zip(*self.sentences, strict=True)
        masked = [[*own[:place], tokenizer.special("mask"), *own[place + 1 :]] for own, place in self.sentences]
        features = MaskFeatures(Ragged.from_lists(masked), Ragged.from_lists([[place] for place in places]))
        outputs = run_model(ModelWithLoss(model.filler, kind.outputs), features, device, TOKENS_AT_ONCE, "float32")
        split = Split("", MaskedTexts([""] * len(ids), origin=""), features)
        names, fills = tokenizer.tokens, kind.decode(INPUT, split, outputs, tokenizer)
        guesses = [[[each["token"], each["score"]] for each in found["fills"]] for found in fills]
        return [
            {"text": _spelled(own, place, tokenizer), "answer": names[own[place]].lstrip(SPACES), "guesses": guessed}
            for (own, place), guessed in zip(self.sentences, guesses, strict=True)
        ]


def _choose_sentences(examples: PretrainingExamples) -> list[tuple[list[int], int]]:
    """The beginnings of some rows, spread over the data, each with the place of a whole word in its middle."""
    tokens, sep = [token.lstrip(SPACES) for token in examples.tokenizer.tokens], examples.tokenizer.special("sep")
    continues = examples.tokenizer.continues_word
    count, chosen = len(examples.lengths), []
    for row in np.unique(np.linspace(0, count - 1, 2 * SENTENCES).astype(int)):
        ids = examples.take(np.array([row])).unmasked_ids().tolist()
        ids = [*ids[: min(ids.index(sep) if sep in ids else len(ids), SENTENCE_TOKENS)], sep]
        whole = [at for at in range(1, len(ids) - 1) if not (continues[ids[at]] or continues[ids[at + 1]])]
        words = [at for at in whole if len(tokens[ids[at]]) >= SHORTEST_WORD and tokens[ids[at]].isalpha()]
        if words:
            chosen.append((ids, min(words, key=lambda place: abs(place - len(ids) / 2))))
    return chosen[:SENTENCES]


def _spelled(ids: list[int], place: int, tokenizer: WordPiece) -> str:
    return tokenizer.spell([MASK if number == place else tokenizer.tokens[id_] for number, id_ in enumerate(ids)][1:-1])


def _ranks(examples: PretrainingExamples) -> NDArray[np.int64]:
    """The rank of each token by its frequency in the first rows, from 0, [V]."""
    rows = np.arange(min(COUNTED_ROWS, len(examples.lengths)))
    counts = np.bincount(examples.take(rows).unmasked_ids(), minlength=examples.tokenizer.size)
    counts[[examples.tokenizer.special(name) for name in ("cls", "sep")]] = 0
    ranks = np.empty(len(counts), dtype=np.int64)
    ranks[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return ranks


def _rank_words(low: int, high: int) -> str:
    if not low:
        return f"the {high} most frequent"
    return f"ranks {low + 1:,} to {high:,}" if high < 10**9 else "rarer"


def _type_of(token: str, tokenizer: WordPiece) -> str:
    plain = token.lstrip(SPACES)
    if tokenizer.is_wordpiece and token.startswith("##"):
        return "pieces that continue a word"
    if plain.startswith("[") and plain.endswith("]") and len(plain) > 2:
        return "special tokens"
    if plain.isdecimal():
        return "numbers"
    return "words and first pieces" if any(map(str.isalpha, plain)) else "punctuation and signs"


def _shares(groups: dict[str, NDArray[np.bool_]], right: NDArray[np.bool_]) -> list[dict[str, Any]]:
    found = {name: right[rows] for name, rows in groups.items() if rows.any()}
    return [{"words": key, "accuracy": round(100 * float(of.mean()), 2), "count": len(of)} for key, of in found.items()]
