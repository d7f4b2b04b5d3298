"""Pairs of texts that follow each other are swapped half of the time, and data of other pairs are refused."""

from pathlib import Path

import numpy as np
import pytest

from bertcli.data.pretraining.draws import Draws
from bertcli.data.pretraining.instances import InstanceRules, make_instances
from bertcli.data.pretraining.masking import MaskingRules
from bertcli.data.text.corpus import tokenize
from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import UserError
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.lifecycle.pretrain import pretrain
from bertcli.objectives import MLM_AND_SOP


def test_a_swapped_pair_has_what_follows_first(google_tokenizer: WordPiece) -> None:
    lines = [token for token in google_tokenizer.vocab if token.isascii() and token.isalpha()][:300]
    numbers = [google_tokenizer.vocab[line] for line in lines]  # each stands once, in its order
    corpus = tokenize([lines], google_tokenizer)
    masking = MaskingRules.of(google_tokenizer, 0.15, 20, False)
    rules = InstanceRules(MLM_AND_SOP.cut, google_tokenizer, google_tokenizer.layout, masking, False, 19, 0.0, 40)
    instances, order = make_instances(corpus, rules, Draws(1))
    columns, place = instances.columns(order), {number: index for index, number in enumerate(numbers)}
    for row, label in enumerate(columns.next_sentence_labels):
        ids = columns.input_ids[slice(*columns.offsets[row : row + 2])].tolist()
        middle = ids.index(google_tokenizer.special("sep"))
        before, after = ([place[each] for each in part] for part in (ids[1:middle], ids[middle + 1 : -1]))
        assert (after[0] - before[-1] == 1) == (label == 0)
        assert (before[0] - after[-1] == 1) == (label == 1)
    assert np.mean(columns.next_sentence_labels) == pytest.approx(0.5, abs=0.1)


def test_pairs_of_another_objective_are_refused(at_home: Path, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    made = make_pretraining_data("corpus.txt", objective="mlm+sop", out=data, dupe_factor=1, workers=1)
    assert 0 < made.random_next < made.instances
    with pytest.raises(UserError, match="has the pairs of --objective mlm\\+sop, not of mlm\\+nsp") as caught:
        pretrain(data=data, objective="mlm+nsp", size="tiny", steps=2)
    assert "--objective mlm+nsp" in caught.value.hint
