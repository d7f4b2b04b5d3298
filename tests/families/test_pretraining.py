"""Each family goes from raw text to a fine-tuned model, and what it writes opens in its own class of transformers."""

from pathlib import Path

import pytest
import transformers
from conftest import write_corpus, write_reviews

from bertcli.config.training import PretrainConfig
from bertcli.data.pretraining.shards import load_pretraining_examples
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import UserError
from bertcli.families import get_family
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.lifecycle.pretrain import pretrain
from tests.cli.test_main import run

SIZES = {"roberta": 330, "albert": 100, "deberta": 330}  # of the vocabulary
SHAPE = {"layers": 1, "hidden_size": 32, "heads": 2}


@pytest.mark.parametrize("name", SIZES)
def test_a_family_is_pretrained_from_text_and_finetuned_without_being_named(name: str, workspace: Path) -> None:
    family = get_family(name)
    write_corpus(Path("corpus.txt"), 12)
    build_vocab("corpus.txt", family=name, vocab_size=SIZES[name])
    make_pretraining_data("corpus.txt", family=name, max_seq_length=32, dupe_factor=2, workers=1)
    run = pretrain(size="tiny", **SHAPE, steps=2, batch_size=4)
    model, info = transformers.AutoModelForPreTraining.from_pretrained(run.model, output_loading_info=True)
    assert (model.config.model_type, info["missing_keys"], info["unexpected_keys"]) == (name, set(), set())
    assert ("fills masks by the last layer" in Path(run.run, "README.md").read_text()) == (name == "deberta")
    tokenizer = transformers.AutoTokenizer.from_pretrained(run.model)
    assert type(tokenizer).__name__ == family.tokenizer_class
    assert tokenizer.model_max_length == 512  # the positions of the model, not the length of the data
    assert not family.has_types(model.config) or 1 in tokenizer("a cat", "a dog")["token_type_ids"]
    write_reviews(Path("reviews.csv"), 24)
    tuned = finetune("reviews.csv", limit=16, epochs=1, learning_rate=0.0, baseline=False)
    assert Path(tuned.model).parent.name == "reviews"
    assert 0 <= tuned.metrics["accuracy"] <= 100
    assert tuned.advice == "bert finetune reviews.csv --limit 16 --no-baseline"


def test_robertas_rows_are_whole_lines_that_end_in_a_separator(workspace: Path) -> None:
    Path("corpus.txt").write_text("a cat sat\nthe dog\n\na tree\n\n" * 20, encoding="utf-8")
    build_vocab("corpus.txt", algorithm="byte-bpe", vocab_size=300)
    lengths = {}
    for objective in ("full-sentences", "doc-sentences"):
        make_pretraining_data(
            "corpus.txt", family="roberta", objective=objective, max_seq_length=16, out=objective, workers=1
        )
        examples = load_pretraining_examples(objective, 0)
        lengths[objective] = examples.lengths[list(range(len(examples)))].tolist()
        ids = examples.take([0]).input_ids.tolist()
        cat, dog, tree = load_tokenizer("vocab").encode_ids(["a cat sat", "the dog", "a tree"])
        own = [0, *cat, 2, *dog, 2] + ([2, *tree, 2] if objective == "full-sentences" else [])
        assert ids[: len(own)] == own[: len(ids)]
    assert len(lengths["full-sentences"]) < len(lengths["doc-sentences"])


def test_what_does_not_fit_a_family_is_refused(workspace: Path) -> None:
    write_corpus(Path("corpus.txt"), 12)
    with pytest.raises(UserError, match="wordpiece does not make"):
        build_vocab("corpus.txt", family="roberta", algorithm="wordpiece")
    build_vocab("corpus.txt", vocab_size=120)
    with pytest.raises(UserError, match="is a wordpiece vocabulary, which RoBERTa does not take") as caught:
        make_pretraining_data("corpus.txt", family="roberta", workers=1)
    assert "bert build-vocab TEXT --family roberta" in caught.value.hint
    with pytest.raises(UserError, match="RoBERTa is not pre-trained by --objective mlm\\+nsp") as caught:
        make_pretraining_data("corpus.txt", family="roberta", objective="mlm+nsp", workers=1)
    assert "or --family bert or albert, with its own data" in caught.value.hint
    with pytest.raises(UserError, match="Masks are of n-grams or of spans") as caught:
        make_pretraining_data("corpus.txt", family="albert", span_mask=True, workers=1)
    assert "--ngram-mask 0" in caught.value.hint
    make_pretraining_data("corpus.txt", max_seq_length=32, workers=1)
    with pytest.raises(UserError, match="`typo` holds no pre-training data"):
        pretrain(data="typo", family="roberta")
    with pytest.raises(UserError, match="was made for BERT, not for RoBERTa") as caught:
        pretrain(PretrainConfig(family="roberta", size="tiny", steps=2))
    assert "build-vocab TEXT --family roberta --out vocab-roberta && bert make-pretraining-data" in caught.value.hint
    Path("short.txt").write_text("the cat sat\n")
    build_vocab("corpus.txt", family="xlnet", vocab_size=120, out="pieces")
    with pytest.raises(UserError, match=r"its [0-9]+ tokens are too few for a row of 512"):
        make_pretraining_data(
            "short.txt", family="xlnet", tokenizer="pieces", max_seq_length=512, out="never", workers=1
        )


@pytest.mark.parametrize("algorithm", ["byte-bpe", "sentencepiece"])
def test_a_vocabulary_does_not_depend_on_the_order_of_files(algorithm: str, workspace: Path) -> None:
    for number in range(3):
        write_corpus(Path(f"{number}.txt"), 12, seed=number)
    for out, files in (("a", ["0.txt", "1.txt", "2.txt"]), ("b", ["2.txt", "0.txt", "1.txt"])):
        build_vocab(files, algorithm=algorithm, vocab_size=300, out=out)
    assert Path("a/tokenizer.json").read_bytes() == Path("b/tokenizer.json").read_bytes()


def test_sentence_pairs_are_two_lines_in_the_familys_layout(workspace: Path) -> None:
    Path("corpus.txt").write_text("a cat sat\nthe dog\n\na tree\nthe mat\n\n" * 20, encoding="utf-8")
    build_vocab("corpus.txt", algorithm="byte-bpe", vocab_size=300)
    options = {"objective": "sentence-pairs", "max_seq_length": 16, "workers": 1}
    made = make_pretraining_data("corpus.txt", family="roberta", **options)
    examples = load_pretraining_examples("pretraining-data", 0)
    lines = load_tokenizer("vocab").encode_ids(["a cat sat", "the dog", "a tree", "the mat"])
    rows = [examples.take([row]).input_ids.tolist() for row in range(made.instances)]
    assert all(row in [[0, *a, 2, 2, *b, 2] for a in lines for b in lines] for row in rows)
    assert 0 < made.random_next < made.instances


def test_printed_options_are_those_of_the_family_and_give_the_same_run(
    home: Path, workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make = [
        "make-pretraining-data",
        str(home / "corpus.txt"),
        "--family",
        "electra",
        "--tokenizer",
        str(home / "vocab"),
    ]
    for number, command in enumerate(
        ([*make, "--max-seq-length", "32"], ["pretrain", "--size", "tiny", "--steps", "1"])
    ):
        code, out, _ = run([*command, "--print-config"], capsys, monkeypatch)
        assert code == 0
        Path("printed.yaml").write_text(out)
        told = []
        for arguments in (command, [command[0], "--recipe", "printed.yaml"]):
            code, _, err = run(
                [*arguments, "--dry-run"] if number else [*arguments, "--overwrite"], capsys, monkeypatch
            )
            assert code == 0
            told.append(err)
        if number:
            assert "learning rate 0.0005" in told[0]
            assert told[0] == told[1]
        else:
            assert "is complete already: the same text, vocabulary and options" in told[1]
    finetune = ["finetune", "glue/rte", "--family", "roberta", "--from", "scratch", "--size", "tiny", "--print-config"]
    code, out, _ = run(finetune, capsys, monkeypatch)
    assert code == 0
    assert "warmup_proportion: 0.06\n" in out
