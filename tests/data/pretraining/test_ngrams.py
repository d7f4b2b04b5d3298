"""N-gram masks and sentence orders are those of ALBERT's create_pretraining_data.py, draw for draw."""

import gzip
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import GOLDENS

from bertcli.data.pretraining.draws import Draws
from bertcli.data.pretraining.instances import InstanceRules, make_instances
from bertcli.data.pretraining.masking import MaskingRules, mask_batch
from bertcli.data.text.corpus import Corpus, tokenize
from bertcli.data.text.documents import read_documents
from bertcli.data.text.tokenization import WordPiece
from bertcli.families.albert import ALBERT as ALBERT_FAMILY
from bertcli.objectives import MLM_AND_NSP, MLM_AND_SOP
from tests.data.pretraining.test_masking import mask_tokens

ALBERT = GOLDENS / "albert"
UNITS = json.loads((ALBERT / "units.json").read_text())


def draws_of(seed: int, numpy_seed: int) -> Draws:
    draws = Draws(seed)
    draws.numpy_seed = numpy_seed
    return draws


def rules_of(tokenizer: WordPiece, options: dict[str, Any], prob: float, most: int) -> MaskingRules:
    rules = MaskingRules.of(tokenizer, prob, most, options["do_whole_word_mask"])
    rules = replace(rules, ngram_mask=options["ngram"], permutes=options["do_permutation"])
    return replace(rules, favors_longer=not options["favor_shorter_ngram"])


def test_masks_equal_the_originals_on_single_instances(google_tokenizer: WordPiece) -> None:
    vocab, tokens = google_tokenizer.vocab, google_tokenizer.tokens
    for unit in UNITS["create_masked_lm_predictions"]:
        rules = rules_of(google_tokenizer, unit["flags"], unit["masked_lm_prob"], unit["max_predictions"])
        ids, draws = [vocab[token] for token in unit["tokens"]], draws_of(unit["seed"], unit["np_seed"])
        positions, originals = mask_tokens(ids, rules, draws)
        assert [tokens[token] for token in ids] == unit["out_tokens"]
        assert positions == unit["positions"]
        assert [tokens[token] for token in originals] == unit["labels"]
        assert draws.random() == unit["rng_random_after"]


def check_instances(name: str, corpus: Corpus, tokenizer: WordPiece) -> None:
    golden = json.loads(gzip.decompress((ALBERT / f"{name}.json.gz").read_bytes()))
    asked = golden["params"]
    rules = rules_of(tokenizer, asked, asked["masked_lm_prob"], asked["max_predictions_per_seq"])
    cut = (MLM_AND_NSP if asked["random_next_sentence"] else MLM_AND_SOP).cut
    sizes = asked["max_seq_length"], asked["short_seq_prob"], asked["dupe_factor"]
    draws = draws_of(asked["random_seed"], asked["np_seed"])
    of_instances = InstanceRules(cut, tokenizer, tokenizer.layout, rules, True, *sizes)
    instances, order = make_instances(corpus, of_instances, draws)
    columns = instances.columns(order)
    assert len(columns.offsets) == golden["n_instances"] + 1
    for row, wanted in enumerate(golden["instances"]):
        tokens = slice(*columns.offsets[row : row + 2])
        masks = slice(*columns.masked_lm_offsets[row : row + 2])
        assert columns.input_ids[tokens].tolist() == wanted["ids"]
        assert (columns.token_type_ids[tokens] == 0).sum() == wanted["n_a"]
        assert columns.next_sentence_labels[row] == wanted["label"]
        assert columns.masked_lm_positions[masks].tolist() == wanted["pos"]
        assert columns.masked_lm_ids[masks].tolist() == wanted["labels"]
    assert draws.random() == golden["rng_random_after"]
    assert draws.numpy.random_sample() == golden["np_random_after"]


@pytest.mark.parametrize("name", ["sop_128_s12345", "sop_64_s1_short50", "sop_64_s3_nowwm_ngram1", "permute_64_s5"])
def test_instances_equal_the_originals_row_for_row(name: str, google_tokenizer: WordPiece) -> None:
    documents = read_documents([GOLDENS / "pretraining" / "sample_text.txt"])
    check_instances(name, tokenize(documents, google_tokenizer), google_tokenizer)


def test_instances_of_sentence_pieces_equal_the_originals_row_for_row() -> None:
    vocab = [tuple(piece) for piece in json.loads((ALBERT / "pieces.json").read_text())]
    tokenizer = ALBERT_FAMILY.new_tokenizer("pieces", vocab=vocab)
    documents = read_documents([GOLDENS / "pretraining" / "sample_text.txt"])
    check_instances("sp_sop_96_s6", tokenize(documents, tokenizer), tokenizer)


@pytest.mark.parametrize("longest", [1, 2, 3, 5])
def test_the_lengths_of_ngrams_have_the_papers_probabilities(longest: int, google_tokenizer: WordPiece) -> None:
    rules = replace(MaskingRules.of(google_tokenizer, 0.15, 20, True), ngram_mask=longest)
    assert np.diff([0, *rules.ngram_shares]).tolist() == pytest.approx(UNITS["ngram_probabilities"][str(longest)])


def test_dynamic_masks_of_a_row_are_ngrams_alike_in_any_company(google_tokenizer: WordPiece) -> None:
    rules = replace(MaskingRules.of(google_tokenizer, 0.15, 20, True), ngram_mask=3)
    row = [
        rules.cls_id,
        *google_tokenizer.encode_ids(["the cat sat on the mat near the old house " * 5])[0],
        rules.sep_id,
    ]
    ids, lengths = np.array(row * 300), np.full(300, len(row))
    together = ids.copy()
    positions, originals = mask_batch(together, np.arange(300), lengths, rules, key=3)
    assert (originals == ids[positions]).all()
    assert len(positions) == 300 * round(0.15 * len(row))
    alone = np.array(row)
    mask_batch(alone, np.array([7]), lengths[:1], rules, key=3)
    assert (alone == together[7 * len(row) : 8 * len(row)]).all()
    neighbours = np.isin(positions + 1, positions).mean()
    assert neighbours > 0.3  # of single words, 0.15
