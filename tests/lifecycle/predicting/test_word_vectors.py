"""A word's vectors in its contexts are those of transformers, and tell its senses apart."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from bertcli.config.use import PredictConfig
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import UserError
from bertcli.lifecycle.predict import predict, stream
from bertcli.lifecycle.predicting.word_vectors import word_vectors
from bertcli.models.loading import load_model
from tests.cli.test_main import run

LogCapture = pytest.LogCaptureFixture
MODEL = "runs/pretrain-tiny"
# A word, two texts with it in one sense, and one text with it in another.
SENSES = [
    (
        "bank",
        "They walked along the river bank.",
        "Fish swam close to the bank of the lake.",
        "The bank approved her loan.",
    ),
    (
        "bat",
        "A bat flew out of the cave at night.",
        "The bat hung upside down in the dark cave.",
        "He swung the bat and hit the ball.",
    ),
    ("spring", "Flowers bloom in spring.", "The birds return every spring.", "The spring in the mattress is broken."),
    (
        "crane",
        "The crane lifted the steel beams.",
        "Workers moved the concrete with a crane.",
        "A crane stood in the marsh and caught a fish.",
    ),
    (
        "seal",
        "A seal lay on the ice and ate a fish.",
        "The seal swam back to its pup.",
        "The king put his seal on the letter.",
    ),
    (
        "mouse",
        "The cat chased a mouse.",
        "A mouse ate the cheese in the kitchen.",
        "Click the left button of the mouse.",
    ),
    (
        "match",
        "Our team won the match.",
        "The players left the field after the match.",
        "He lit the candle with a match.",
    ),
    (
        "pitcher",
        "The pitcher threw a fast ball.",
        "The coach replaced the pitcher in the ninth inning.",
        "She filled the pitcher with cold water.",
    ),
    (
        "bark",
        "The bark of the old tree was rough.",
        "Beetles live under the bark of pines.",
        "The bark of the dog woke the neighbours.",
    ),
    ("palm", "A palm grew on the beach.", "Coconuts fell from the palm.", "She held the coin in her palm."),
]


@pytest.mark.parametrize("word", ["cat", "happily", "greenest"])
def test_vectors_are_the_mean_of_the_words_pieces_in_transformers(at_home: Path, word: str) -> None:
    texts = [f"the {word} sat on the mat", f"birds sang while a {word.upper()} ran"]
    found = word_vectors(load_model(f"{MODEL}/model"), load_tokenizer(f"{MODEL}/model"), texts, word)
    tokenizer = AutoTokenizer.from_pretrained(f"{MODEL}/model")
    model = AutoModel.from_pretrained(f"{MODEL}/model").eval()
    pieces = len(tokenizer.tokenize(word))
    assert (pieces > 1) == (word == "greenest")
    for number, text in enumerate(texts):
        inputs = tokenizer(text, return_tensors="pt")
        first = 1 + len(tokenizer.tokenize(text.lower().partition(word)[0]))
        with torch.no_grad():
            hidden = model(**inputs, output_hidden_states=True).hidden_states
        expected = [state[0, first : first + pieces].mean(0).numpy() for state in hidden]
        np.testing.assert_allclose(found[:, number], expected, atol=1e-5)


def test_each_pair_of_texts_has_a_cosine_a_layer(at_home: Path) -> None:
    texts = ["the cat sat", "a cat ran", "the cat sat"]
    (record,) = predict(compare=texts, word="cat", model=MODEL).records
    assert record["pairs"] == [[texts[0], texts[1]], [texts[0], texts[2]], [texts[1], texts[2]]]
    assert [layer["layer"] for layer in record["layers"]] == [0, 1, 2]
    for layer in record["layers"]:
        assert layer["cosines"][1] == pytest.approx(1, abs=1e-5)
        assert layer["cosines"][0] == pytest.approx(layer["cosines"][2], abs=1e-5)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"compare": ["the cat"], "word": "cat"}, "needs two texts"),
        ({"compare": ["the cat", "a cat"]}, "needs two texts, and the --word"),
        ({"compare": ["the cat", "a cat"], "word": "cat", "text": "a"}, "has its own texts, and takes no text"),
        ({"compare": ["the cat", "a concatenation"], "word": "cat"}, "does not contain the word `cat`"),
        ({"compare": ["the cat", "dog " * 600 + "cat"], "word": "cat"}, "is beyond the"),
        ({"word": "cat", "text": "a"}, "--word needs --compare"),
    ],
)
def test_a_wrong_request_is_said(at_home: Path, options: dict[str, object], what: str) -> None:
    with pytest.raises(UserError, match=what):
        predict(model=MODEL, **options)


def test_of_a_word_that_is_there_twice_the_first_is_compared(at_home: Path, said: LogCapture) -> None:
    predict(compare=["the cat and the cat", "a cat"], word="cat", model=MODEL)
    assert "`cat` occurs 2 times in `the cat and the cat`" in said.text


def test_the_command_takes_texts_one_after_the_other(
    at_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ["predict", "--compare", "the cat", "a cat ran", "--word", "cat", "--model", MODEL]
    code, out, err = run(request, capsys, monkeypatch)
    assert code == 0, err
    assert json.loads(out)["texts"] == ["the cat", "a cat ran"]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    _, out, _ = run(request, capsys, monkeypatch)
    assert "1 and 2" in out


def test_senses_are_told_apart_in_the_upper_layers(minilm: Path) -> None:
    """How often of ten a word is nearer to itself in the same sense than in another, by layer; the embeddings know no sense."""
    model, tokenizer = load_model(str(minilm)), load_tokenizer(str(minilm))
    counts = np.zeros(7, dtype=int)
    for word, *texts in SENSES:
        vectors = word_vectors(model, tokenizer, texts, word)  # [L + 1, 3, H]
        unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
        counts += (unit[:, 0] * unit[:, 1]).sum(-1) > (unit[:, 0] * unit[:, 2]).sum(-1)
    assert counts[0] <= 5
    assert (counts[4:] >= 8).all()
    assert counts[-1] == 9


def test_a_word_that_the_vocabulary_lacks_has_no_vectors_to_compare(at_home: Path) -> None:
    with pytest.raises(UserError, match="The vocabulary does not have `銀行`"):
        predict(compare=["the 銀行", "a 銀行"], word="銀行", model=MODEL)


def test_dry_run_reads_no_model(at_home: Path) -> None:
    assert stream(PredictConfig(compare=["a cat", "cat"], word="cat", dry_run=True, model=MODEL)).count == 0
