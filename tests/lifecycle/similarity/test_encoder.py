"""Vectors of texts are those of sentence-transformers."""

from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import GOLDENS

from bertcli.lifecycle.similarity.encoder import load_text_encoder

# As sentence-transformers 6.2.0 encodes them with all-MiniLM-L6-v2; the last is longer than its 256 tokens.
GOLDEN_TEXTS = ["The card is late.", "A man is eating food.", "Ünïcode – 日本語 (text)", "river bank " * 200]


def test_vectors_are_those_of_sentence_transformers(minilm: Path) -> None:
    encoder = load_text_encoder(str(minilm), "float32")
    np.testing.assert_allclose(encoder.encode(GOLDEN_TEXTS), np.load(GOLDENS / "sentence_vectors.npy"), atol=1e-5)


def test_in_bfloat16_weights_are_cast_once_and_vectors_are_nearly_the_same(minilm: Path) -> None:
    encoder = load_text_encoder(str(minilm), "bfloat16")
    assert {weight.dtype for weight in encoder.model.parameters()} == {torch.bfloat16}
    np.testing.assert_allclose(encoder.encode(GOLDEN_TEXTS), np.load(GOLDENS / "sentence_vectors.npy"), atol=0.02)


@pytest.mark.torture
def test_on_stsb_the_cosines_rank_as_those_of_sentence_transformers(minilm: Path, shared: Path) -> None:
    """Its published score of 82.0 is of the test split, whose scores GLUE does not hand out; this is the dev split."""
    from scipy.stats import spearmanr
    from sentence_transformers import SentenceTransformer

    lines = (shared / "data/glue/STS-B/dev.tsv").read_text(encoding="utf-8").splitlines()[1:]
    first, second, gold = zip(*(line.split("\t")[7:10] for line in lines), strict=True)
    scores = []
    for encoder in (load_text_encoder(str(minilm), "float32"), SentenceTransformer(str(minilm), device="cpu")):
        cosines = (encoder.encode(list(first)) * encoder.encode(list(second))).sum(axis=1)
        scores.append(100 * spearmanr(cosines, [float(score) for score in gold]).statistic)
    assert scores[0] == pytest.approx(scores[1], abs=0.01)
    assert scores[0] == pytest.approx(86.7, abs=0.2)
