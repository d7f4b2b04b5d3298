"""A model takes the words of a field: the slots first, then new rows, each the mean of the word's pieces."""

import gzip
import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
import transformers
from conftest import write_corpus, write_reviews
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer

from bertcli.cli.main import main
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import UserError
from bertcli.families.bert import BERT
from bertcli.lifecycle.add_words import add_words
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.pretrain import pretrain
from bertcli.models.loading import build_model, save_model

EMBEDDING = "bert.embeddings.word_embeddings.weight"
BIAS = "cls.predictions.bias"
CHARACTERS = st.characters(exclude_characters="\n\0", exclude_categories=["Cs"])


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose vocabulary keeps two slots free."""
    folder = tmp_path_factory.mktemp("words")
    write_corpus(folder / "corpus.txt")
    build_vocab(str(folder / "corpus.txt"), vocab_size=90, unused_tokens=2, out=str(folder / "vocab"))
    tokenizer = load_tokenizer(folder / "vocab")
    made = build_model(AutoModelForPreTraining, BERT, "tiny", tokenizer, {}, seed=3)
    torch.nn.init.normal_(made.cls.predictions.bias)
    save_model(made, tokenizer, folder / "model")
    return folder / "model"


def weights(folder: str | Path) -> dict[str, Tensor]:
    return AutoModelForPreTraining.from_pretrained(folder).state_dict()


def test_words_take_the_slots_and_then_new_rows_as_means_of_their_pieces(workspace: Path, model: Path) -> None:
    Path("words.txt").write_text("treehouse\nMats\nbirdsong\ngreenhouse\n")
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    made = add_words(add_words="words.txt", to=str(model), out="grown")
    assert (made.in_slots, made.in_new_rows, made.skipped, made.vocab_size) == (2, 2, {}, 92)

    lines = Path("grown/vocab.txt").read_text().splitlines()
    assert lines[5:7] == ["treehouse", "mats"]
    assert lines[7:] == [*(model / "vocab.txt").read_text().splitlines()[7:], "birdsong", "greenhouse"]
    assert json.loads(Path("grown/config.json").read_text())["vocab_size"] == 92

    old, new = weights(model), weights("grown")
    tokenizer = load_tokenizer(model)
    for row, word in ((5, "treehouse"), (6, "mats"), (90, "birdsong"), (91, "greenhouse")):
        pieces = tokenizer.encode_ids([word])[0]
        assert len(pieces) > 1
        for name in (EMBEDDING, BIAS):
            torch.testing.assert_close(new[name][row], old[name][pieces].mean(0))
    for name, table in old.items():
        rows = [0, 1, 2, 3, 4, *range(7, 90)] if len(new[name]) == 92 else slice(None)
        assert torch.equal(new[name][rows], table[rows]), name
    assert torch.equal(new["cls.predictions.decoder.weight"], new[EMBEDDING])
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before


def test_transformers_opens_the_grown_model_and_reads_a_word_as_one_token(workspace: Path, model: Path) -> None:
    Path("words.txt").write_text("treehouse\nmats\nbirdsong\n")
    add_words(add_words="words.txt", to=str(model), out="grown")
    tokenizer = AutoTokenizer.from_pretrained("grown")
    assert tokenizer.tokenize("A Birdsong in the treehouse") == ["a", "birdsong", "in", "the", "treehouse"]
    opened, info = AutoModel.from_pretrained("grown", output_loading_info=True)
    assert not info["missing_keys"]
    assert opened(**tokenizer("birdsong", return_tensors="pt")).last_hidden_state.isfinite().all()


def test_every_line_that_gives_no_word_is_counted_by_its_reason(workspace: Path, model: Path) -> None:
    lines = [
        "treehouse",
        "",
        "TreeHouse",
        "the",
        "co-pilot",
        "tree house",
        "[MASK]",
        "a" * 201,
        "☃",
        "  birdsong ",
        "\u200b",
    ]
    with gzip.open("words.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(lines))
    made = add_words(add_words="words.txt.gz", to=str(model), out="grown")
    assert made.skipped == {"blank": 2, "repeated": 1, "known_already": 1, "several_words": 3, "too_long": 1}
    assert (made.in_slots, made.in_new_rows, made.were_unknown) == (2, 1, 1)
    assert torch.equal(weights("grown")[EMBEDDING][6], weights(model)[EMBEDDING][1])  # the snowman begins as [UNK]


def test_a_cased_model_keeps_the_case_of_a_word(workspace: Path) -> None:
    write_corpus(Path("corpus.txt"))
    build_vocab("corpus.txt", vocab_size=70, cased=True)
    tokenizer = load_tokenizer("vocab")
    save_model(build_model(AutoModelForPreTraining, BERT, "tiny", tokenizer, {}, seed=0), tokenizer, Path("model"))
    Path("words.txt").write_text("Treehouse\ntreehouse\n")
    assert add_words(add_words="words.txt", to="model").in_new_rows == 2
    assert AutoTokenizer.from_pretrained("model-words").tokenize("Treehouse treehouse") == ["Treehouse", "treehouse"]


@given(st.lists(st.text(CHARACTERS, min_size=1, max_size=8), min_size=1, max_size=40))
@settings(max_examples=15)
def test_any_word_is_one_token_afterwards(
    tmp_path_factory: pytest.TempPathFactory, model: Path, lines: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "words.txt").write_text("\n".join(["zebra", *lines]), encoding="utf-8")
    made = add_words(add_words=str(folder / "words.txt"), to=str(model), out=str(folder / "grown"))
    old, new = load_tokenizer(model), load_tokenizer(folder / "grown")
    added = set(new.vocab) - set(old.vocab)
    assert len(added) == made.in_slots + made.in_new_rows
    assert new.encode_ids(sorted(added)) == [[new.vocab[word]] for word in sorted(added)]
    assert weights(folder / "grown")[EMBEDDING].isfinite().all()


def test_coverage_is_measured_before_and_after(workspace: Path, model: Path) -> None:
    Path("words.txt").write_text("treehouse\n☃\n")
    Path("held-out.txt").write_text("The treehouse\n\nthe ☃ and the treehouse\n", encoding="utf-8")
    made = add_words("held-out.txt", add_words="words.txt", to=str(model), out="grown")
    pieces = len(load_tokenizer(model).encode_ids(["treehouse"])[0]), len(load_tokenizer(model).encode_ids(["and"])[0])
    assert (made.before.lines, made.before.words) == (made.after.lines, made.after.words) == (2, 7)
    assert (made.before.unknown_percent, made.after.unknown_percent) == (round(100 / 7, 4), 0)
    assert made.before.tokens_per_word == round((4 + 2 * pieces[0] + pieces[1]) / 7, 4)
    assert made.after.tokens_per_word == round((6 + pieces[1]) / 7, 4)


@pytest.mark.parametrize(
    ("architecture", "options"),
    [
        ("BertModel", {}),
        ("BertForMaskedLM", {"tie_word_embeddings": False}),
        ("BertForSequenceClassification", {"num_labels": 3}),
        ("BertForQuestionAnswering", {}),
    ],
)
def test_every_head_is_kept_and_every_table_of_the_vocabulary_grows(
    workspace: Path, model: Path, architecture: str, options: dict[str, object]
) -> None:
    model_class = getattr(transformers, architecture)
    config = transformers.AutoConfig.from_pretrained(model, **options)
    drawn = model_class(config)
    torch.nn.utils.vector_to_parameters(torch.randn(drawn.num_parameters()), drawn.parameters())
    save_model(drawn, load_tokenizer(model), Path("other"))
    Path("words.txt").write_text("treehouse\nmats\nbirdsong\n")
    add_words(add_words="words.txt", to="other")
    old, (opened, info) = (
        model_class.from_pretrained("other").state_dict(),
        model_class.from_pretrained("other-words", output_loading_info=True),
    )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    pieces = load_tokenizer(model).encode_ids(["birdsong"])[0]
    for name, table in opened.state_dict().items():
        if architecture == "BertForMaskedLM" and name == BIAS:
            continue  # without ties no forward pass reads it
        assert torch.equal(table[7:90], old[name][7:90]), name
        if len(old[name]) == 90:
            torch.testing.assert_close(table[90], old[name][pieces].mean(0))
        else:
            assert torch.equal(table, old[name]), name


def test_the_grown_model_goes_on_through_every_command(workspace: Path, model: Path) -> None:
    Path("words.txt").write_text("treehouse\nmats\nbirdsong\n")
    write_corpus(Path("corpus.txt"))
    with Path("corpus.txt").open("a") as file:
        file.write("\n\nthe birdsong near the treehouse\nbirdsong\n")
    add_words(add_words="words.txt", to=str(model), out="grown")
    make_pretraining_data("corpus.txt", tokenizer="grown", max_seq_length=32, dupe_factor=1, workers=1)
    run = pretrain(from_="grown", steps=1, batch_size=4)
    tuned = finetune(str(write_reviews(Path("reviews.csv"), count=20)), from_="grown", epochs=0.2)
    assert predict("the birdsong", model=tuned.run).records[0]["label"] in ("good", "bad")
    for each in ("grown", run.run):
        assert len(predict("the birdsong [MASK]", model=each, top_k=91).records[0]["fills"]) == 91


def test_a_dry_run_says_the_same_and_writes_nothing(workspace: Path, model: Path) -> None:
    Path("words.txt").write_text("treehouse\nmats\nbirdsong\n")
    made = add_words(add_words="words.txt", to=str(model), out="grown", dry_run=True)
    assert (made.in_slots, made.in_new_rows, made.vocab_size) == (2, 1, 91)
    assert sorted(path.name for path in workspace.iterdir()) == ["words.txt"]


def test_json_is_one_object(
    workspace: Path, model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("words.txt").write_text("treehouse\nthe\n")
    command = ["bert", "build-vocab", "words.txt", "--add-words", "words.txt", "--to", str(model), "--json", "--quiet"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit):
        main()
    made = json.loads(capsys.readouterr().out)
    assert (made["out"], made["in_slots"], made["in_new_rows"]) == ("model-words", 1, 0)
    assert made["skipped"] == {"known_already": 1}
    assert made["before"]["tokens_per_word"] > made["after"]["tokens_per_word"] == 1


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"to": None}, "go together"),
        ({"add_words": None}, "go together"),
        ({"add_words": "missing.txt"}, "no text file `missing.txt`"),
        ({"add_words": "known.txt"}, r"no word to add: 2 known already \(the, cat\), 1 blank"),
        ({"to": "nowhere/at/all"}, "no model"),
        ({"vocab_size": 50}, "--vocab-size does not go with"),
        ({"cased": True}, "--cased does not go with"),
        ({"out": "full"}, "is not empty"),
        ({"text": ["missing.txt"]}, "no text file `missing.txt`"),
    ],
)
def test_a_wrong_request_is_said_and_nothing_written(
    workspace: Path, model: Path, options: dict[str, object], what: str
) -> None:
    Path("words.txt").write_text("treehouse\n")
    Path("known.txt").write_text("the\ncat\n\n")
    Path("full").mkdir()
    Path("full/precious.txt").touch()
    before = sorted(workspace.rglob("*"))
    with pytest.raises(UserError, match=what):
        add_words(**{"add_words": "words.txt", "to": str(model), **options})
    assert sorted(workspace.rglob("*")) == before


def test_a_vocabulary_with_a_token_twice_is_refused_since_ids_would_shift(workspace: Path, model: Path) -> None:
    shutil.copytree(model, "twice")
    with Path("twice/vocab.txt").open("a") as file:
        file.write("the\n")
    Path("words.txt").write_text("treehouse\n")
    with pytest.raises(UserError, match="twice"):
        add_words(add_words="words.txt", to="twice")
