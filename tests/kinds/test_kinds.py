"""Each kind of task from its files to its records: multiple choice, tags, several labels, and the diagnostic set."""

import gzip
import json
import lzma
import random
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
from conftest import WORDS
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForTokenClassification,
    AutoTokenizer,
    BertForSequenceClassification,
)

from bertcli.data.labelled.conll import read_conll
from bertcli.data.labelled.examples import Sentences, TextExamples
from bertcli.data.labelled.own_labels import split_labels
from bertcli.data.packing.tag_features import encode_sentences
from bertcli.data.packing.text_features import encode_choices, encode_texts
from bertcli.data.packing.windows import WindowRules
from bertcli.data.text.tokenization import WordPiece
from bertcli.errors import UserError
from bertcli.kinds.text import label_ids
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.own_files import own_task
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.sources import find_source
from bertcli.reports.evaluation import evaluation_tables
from bertcli.reports.tables import score_table
from bertcli.tasks import TASKS, get_task

SWAG_COLUMNS = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"
LEARNING = {"epochs": 6, "batch_size": 8, "learning_rate": 2e-3}


# --- Multiple choice


def write_swag(path: Path, count: int, seed: int) -> None:
    """A task that can be learnt: the right ending is the one of happy words."""
    draw = random.Random(seed)
    rows = [SWAG_COLUMNS]
    for number in range(count):
        label = draw.randrange(4)
        endings = [f"slowly under {draw.choice(WORDS)}" for _ in range(4)]
        endings[label] = '"happily, green garden"'
        rows.append(f"{number},v,1,The cat sat. It,The cat sat.,It,gold,{','.join(endings)},{label}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def swag_run(home: Path) -> Path:
    folder = home / "official" / "swag"
    folder.mkdir(parents=True, exist_ok=True)
    write_swag(folder / "train.csv", 64, 1)
    write_swag(folder / "val.csv", 20, 2)
    (folder / "val.csv.gz").write_bytes(gzip.compress((folder / "val.csv").read_bytes()))
    (folder / "val.csv").unlink()
    run = finetune(
        "swag",
        data_dir=str(home / "official"),
        from_=str(home / "runs" / "pretrain-tiny"),
        out=str(home / "runs" / "swag"),
        **LEARNING,
    )
    assert run.metrics["accuracy"] > 80
    return Path(run.run)


def test_swags_choices_are_whole_sentences_after_the_first(home: Path, swag_run: Path) -> None:
    examples = find_source("swag", str(home / "official")).read("dev").examples
    assert examples.texts[0] == "The cat sat."
    assert all(choice.startswith("It ") for choice in examples.choices[0])
    assert examples.choices[0][int(examples.labels[0])] == "It happily, green garden"


def test_each_choice_is_a_pair_with_its_text(google_tokenizer: WordPiece) -> None:
    choices = [["He reads.", "He flies away."], ["left.", "ran."]]
    examples = TextExamples(["A man sits.", "She"], choices=choices, origin="")
    features = encode_choices(examples, google_tokenizer, 8, None)
    pairs = TextExamples(["A man sits.", "A man sits.", "She", "She"], [*choices[0], *choices[1]], origin="")
    expected = encode_texts(pairs, google_tokenizer, 8, None)
    everything = np.arange(4)
    assert features.sequences.input_ids.take(everything)[0].tolist() == expected.input_ids.take(everything)[0].tolist()
    assert features.lengths.tolist() == [16, 12]
    assert features.truncated == expected.truncated == 2


def test_a_swag_model_is_found_scored_and_asked(home: Path, swag_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    scored = evaluate("SWAG")
    assert scored.metrics["accuracy"] > 80
    assert scored.paper == {"base accuracy": 81.6, "large accuracy": 86.6}
    again = evaluate("swag", data_dir="official", predictions=str(swag_run / "predictions.jsonl"))
    assert again.metrics == scored.metrics
    choices = ["It slowly under the tree", "It happily, green garden"]
    record = predict("The cat sat.", choice=choices).records[0]
    assert (record["choice"], record["text"]) == (1, choices[1])
    assert sum(record["scores"]) == pytest.approx(1, abs=1e-5)
    model, info = AutoModelForMultipleChoice.from_pretrained(swag_run / "model", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    inputs = AutoTokenizer.from_pretrained(swag_run / "model")(
        ["The cat sat."] * 2, choices, return_tensors="pt", padding=True
    )
    theirs = model.eval()(**{name: rows[None] for name, rows in inputs.items()}).logits[0]
    assert record["scores"] == pytest.approx(torch.softmax(theirs, -1).tolist(), abs=1e-5)


def test_a_file_of_choices_is_answered_in_its_order(
    home: Path, swag_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    file = tmp_path / "in.csv"
    file.write_text(
        "context,choice_a,choice_b\nThe cat,under mat,happily green garden\nA dog,happily green garden,under mat\n"
    )
    predict(file=str(file), output=str(tmp_path / "out.csv"))
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "choice,text,score,scores"
    assert [line.split(",")[0] for line in lines[1:]] == ["1", "0"]


@pytest.mark.parametrize(("labels", "first"), [("0 1 2", "0"), ("1 3 2", "1"), ("A C B", "A"), ("c a b", "a")])
def test_choices_of_an_own_file_may_be_counted_in_several_ways(workspace: Path, labels: str, first: str) -> None:
    rows = [f"p{row},x,y,z,{label}" for row, label in enumerate(labels.split())]
    Path("mine.csv").write_text("\n".join(["prompt,choice_0,choice_1,choice_2,answer", *rows]))
    task, _ = own_task("mine.csv", {}, None)
    assert (task.kind, task.labels, task.file_labels[0]) == ("choose", ("0", "1", "2"), first)
    assert find_source("mine.csv", None, {}).read("train").examples.choices[0] == ["x", "y", "z"]
    Path("labels.csv").write_text("\n".join(["label", *labels.split()]))
    assert evaluate("mine.csv", predictions="labels.csv").metrics == {"accuracy": 100}
    numbers = [task.file_labels.index(label) for label in labels.split()]
    Path("choices.jsonl").write_text("\n".join(json.dumps({"choice": number}) for number in numbers))
    assert evaluate("mine.csv", predictions="choices.jsonl").metrics == {"accuracy": 100}


def test_choices_may_stand_in_a_list(workspace: Path, swag_run: Path) -> None:
    rows = [
        {"ctx": f"p{row}", "choices": ["under mat", "happily green garden"], "answer": row % 2} for row in range(12)
    ]
    Path("mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    task, parts = own_task("mine.jsonl", {}, None)
    assert (task.kind, task.labels) == ("choose", ("0", "1"))
    assert parts["train"].choices[0] == ["under mat", "happily green garden"]
    run = finetune("mine.jsonl", from_=str(swag_run), epochs=1).run
    Path("new.jsonl").write_text(json.dumps({"ctx": "The cat", "choices": ["happily green garden", "under mat"]}))
    record = predict(file="new.jsonl", model=run).records[0]
    assert record["text"] == ["happily green garden", "under mat"][record["choice"]]
    swag = predict(file="new.jsonl", model=str(swag_run)).records[0]  # whose own columns have other names
    alone = predict(text="The cat", choice=["happily green garden", "under mat"], model=str(swag_run)).records[0]
    assert swag["scores"] == pytest.approx(alone["scores"], abs=1e-5)
    rows[3]["choices"] = ["one"]
    Path("mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(UserError, match="line 4 has 1 choices, the first row 2"):
        own_task("mine.jsonl", {}, None)


def test_a_choice_that_is_not_there_is_an_error(workspace: Path) -> None:
    Path("mine.csv").write_text("prompt,choice_0,choice_1,label\nx,a,b,0\ny,a,b,5\n")
    with pytest.raises(UserError, match="label `5`, which is none of 2 choices"):
        own_task("mine.csv", {}, None)


# --- Tags


CONLL = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER


"""


def test_conll_files_are_read_by_sentences(tmp_path: Path) -> None:
    path = tmp_path / "train.txt.xz"
    with lzma.open(path, "wt", encoding="utf-8", newline="") as file:
        file.write("\ufeff" + CONLL.replace("\n", "\r\n"))
    sentences = read_conll(path)
    assert sentences.words == [["EU", "rejects"], ["Peter", "Blackburn"]]
    assert sentences.tags == [["B-ORG", "O"], ["B-PER", "I-PER"]]
    tabs = tmp_path / "tabs.conll"
    tabs.write_text("New York\tI-LOC\nis\tO\n\nbig\tS-X", encoding="utf-8")
    assert read_conll(tabs).words == [["New York", "is"], ["big"]]
    assert read_conll(tabs).tags == [["I-LOC", "O"], ["S-X"]]


@pytest.mark.parametrize(
    ("text", "message"), [("a O\nb\n", "line 2 has 1 columns, not 2"), ("a\n", "line 1 has 1"), ("\n", "no sentences")]
)
def test_a_broken_conll_file_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(UserError, match=message):
        read_conll(tmp_path / "a.txt")


def test_conll2003_has_its_official_counts(shared: Path) -> None:
    source = find_source("CoNLL-2003", str(shared / "data"), {})
    counts = [len(source.read(split)) for split in ("train", "dev", "test")]
    assert counts == [14041, 3250, 3453]


def test_a_tag_that_the_task_has_not_is_an_error(google_tokenizer: WordPiece) -> None:
    with pytest.raises(UserError, match="`x` sentence 2: the sentence has the tag `S-PER`"):
        encode_sentences(
            Sentences([["a"], ["b"]], [["O"], ["S-PER"]], origin="x"), google_tokenizer, WindowRules(16, 128, 0), ("O",)
        )


@given(
    sentences=st.lists(
        st.lists(st.sampled_from(["the", "unbelievably", "xyzzyx", "\u200b", "U.S.", "a"]), max_size=40), max_size=5
    ),
    max_seq_length=st.integers(5, 40),
    doc_stride=st.integers(1, 40),
)
@settings(max_examples=60, deadline=None)
def test_every_word_is_read_once_off_its_first_piece(
    google_tokenizer: WordPiece, sentences: list[list[str]], max_seq_length: int, doc_stride: int
) -> None:
    given_tags = [[f"T{len(word)}" for word in sentence] for sentence in sentences]
    labels = tuple(f"T{length}" for length in range(13))
    features = encode_sentences(
        Sentences(sentences, given_tags, origin=""),
        google_tokenizer,
        WindowRules(max_seq_length, doc_stride, 0),
        labels,
    )
    firsts = [
        (google_tokenizer.encode_ids([word])[0] or [google_tokenizer.special("unk")])[0]
        for s in sentences
        for word in s
    ]
    read, tags = [], []
    for window in range(len(features.lengths)):
        ids, _ = features.input_ids.take(np.array([window]))
        assert len(ids) <= max_seq_length
        places, _ = features.places.take(np.array([window]))
        assert len(places)
        read += ids[places].tolist()
        tags += features.tags.take(np.array([window]))[0].tolist()
    assert read == firsts
    assert tags == [len(word) for sentence in sentences for word in sentence]


def test_a_word_is_read_where_most_stands_around_it(google_tokenizer: WordPiece) -> None:
    sentence = Sentences([["the"] * 10], origin="")
    features = encode_sentences(
        sentence, google_tokenizer, WindowRules(8, 128, 0), ()
    )  # 6 words a window, 3 further on
    assert [features.places.take(np.array([window]))[0].tolist() for window in range(3)] == [
        [1, 2, 3, 4, 5],
        [3, 4, 5],
        [3, 4],
    ]


def write_conll(path: Path, count: int, seed: int) -> None:
    """A task that can be learnt: two words are names."""
    draw = random.Random(seed)
    lines = ["-DOCSTART- -X- -X- O", ""]
    for _ in range(count):
        for word in draw.choices(WORDS, k=draw.randint(1, 9)):
            tag = {"cat": "I-PER", "garden": "I-LOC", "green": "I-LOC"}.get(word, "O")  # IOB1, as the official files
            lines.append(f"{word} NN I-NP {tag}")
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture(scope="session")
def conll_run(home: Path) -> Path:
    folder = home / "official" / "conll2003"
    folder.mkdir(parents=True, exist_ok=True)
    write_conll(folder / "eng.train", 80, 1)
    write_conll(folder / "eng.testa", 30, 2)
    run = finetune(
        "conll2003",
        data_dir=str(home / "official"),
        from_=str(home / "runs" / "pretrain-tiny"),
        out=str(home / "runs" / "conll2003"),
        max_seq_length=8,
        **LEARNING,
    )
    assert run.metrics["f1"] > 80
    return Path(run.run)


def test_a_tagger_is_found_and_scored_on_entities(
    home: Path, conll_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    scored = evaluate("conll2003")
    assert scored.metrics.keys() == {"f1", "precision", "recall"}
    assert scored.paper == {"base f1": 96.4, "large f1": 96.6}
    assert (
        evaluate("conll2003", predictions=str(conll_run / "predictions.jsonl"), data_dir="official").metrics
        == scored.metrics
    )
    assert evaluate("conll2003", predictions="official/conll2003/eng.testa", data_dir="official").metrics["f1"] == 100
    write_conll(tmp_path / "short.txt", 3, 2)
    with pytest.raises(UserError, match="3 predictions"):
        evaluate("conll2003", predictions=str(tmp_path / "short.txt"), data_dir="official")


def test_entities_of_a_text_stand_at_their_characters(conll_run: Path, tmp_path: Path) -> None:
    text = "  The cat, the Cat! sat near the green  garden while the old dog ran slowly on under the tree."
    entities = predict(text, model=str(conll_run)).records[0]["entities"]
    assert all(entity["text"] == text[entity["start"] : entity["end"]] for entity in entities)
    assert {"text": "green  garden", "label": "LOC", "start": 33, "end": 46} in [
        {key: value for key, value in entity.items() if key != "score"} for entity in entities
    ]
    (tmp_path / "in.txt").write_text(f"{text}\n\nthe tree\n", encoding="utf-8")
    records = predict(file=str(tmp_path / "in.txt"), model=str(conll_run)).records
    assert [[entity["text"] for entity in record["entities"]] for record in records] == [
        ["cat", "Cat", "green  garden"],
        [],
        [],
    ]


def test_a_tagger_opens_in_plain_transformers_with_its_tags_and_the_same_logits(conll_run: Path) -> None:
    model, info = AutoModelForTokenClassification.from_pretrained(conll_run / "model", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert model.config.id2label == dict(enumerate(TASKS["conll2003"].labels))
    inputs = AutoTokenizer.from_pretrained(conll_run / "model")("cat", return_tensors="pt")
    shares = torch.softmax(model.eval()(**inputs).logits[0, 1].detach(), -1)
    entity = predict("cat", model=str(conll_run)).records[0]["entities"][0]
    assert entity["score"] == pytest.approx(float(shares.max()), abs=1e-5)


# --- Several labels


def test_several_labels_are_learnt_scored_and_predicted(at_home: Path, tmp_path: Path) -> None:
    draw = random.Random(1)
    names = {"cat": "animal", "dog": "animal", "tree": "plant", "garden": "plant"}
    lines = ["text,tags"]
    for _ in range(400):
        words = draw.choices([*names, *["the", "old"] * 2], k=3)
        lines.append(f"{' '.join(words)},{'; '.join(sorted({names[word] for word in words if word in names}))}")
    file = tmp_path / "several.csv"
    file.write_text("\n".join(lines) + "\n")
    run = finetune(str(file), label="tags", kind="multilabel", out=str(tmp_path / "run"), **{**LEARNING, "epochs": 8})
    assert list(run.metrics) == ["micro_f1", "macro_f1", "subset_accuracy"]
    assert run.metrics["micro_f1"] > 80
    config = BertForSequenceClassification.from_pretrained(run.model).config
    assert (config.problem_type, config.id2label) == ("multi_label_classification", {0: "animal", 1: "plant"})
    both, none = (predict(text, model=run.run).records[0] for text in ("the cat tree", "the old the"))
    assert both["labels"] == ["animal", "plant"]
    assert none["labels"] == []
    other = file.rename(tmp_path / "other.csv")
    scored = evaluate(str(other), model=run.run)
    assert scored.examples == 400  # those without a label too
    predict(file=str(other), model=run.run, output=str(tmp_path / "out.csv"))
    again = evaluate(str(other), model=run.run, predictions=str(tmp_path / "out.csv"))
    assert again.metrics == scored.metrics


@pytest.mark.parametrize(
    ("cell", "separator", "labels"),
    [
        ('["a, b", "c"]', "", ["a, b", "c"]),
        ("['a', 3]", "", ["a", "3"]),
        ("[]", "", []),
        ("['a b' 'c']", "", ["a b", "c"]),
        ("a|b | c", "|", ["a", "b", "c"]),
        ("", "|", []),
    ],
)
def test_several_labels_are_a_list_or_have_separators(cell: str, separator: str, labels: list[str]) -> None:
    assert split_labels(cell, separator) == labels


def test_labels_may_be_lists_in_json(workspace: Path) -> None:
    rows = [{"text": "x", "labels": ["a", "b, c"]}, {"text": "y", "labels": []}, {"text": "z", "labels": ["a"]}]
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = find_source("mine.jsonl", None, {})
    assert source.task.kind == "multilabel"
    assert (source.task.labels, source.task.files.label_separator) == (("a", "b, c"), "")
    with pytest.raises(UserError, match="which are no list"):
        split_labels("[a", "")
    rows[2]["labels"] = "a"  # a single one without brackets
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert find_source("mine.jsonl", None, {}).task.labels == ("a", "b, c")
    Path("names.csv").write_text("text,label\nx,good\ny,[other]\nz,bad\n")  # a name in brackets is no list
    assert find_source("names.csv", None, {}, scored="dev").task.kind == "classify"


# --- The diagnostic set


def test_the_diagnostic_set_is_scored_with_the_mnli_model(at_home: Path, tmp_path: Path) -> None:
    mnli, diagnostic = tmp_path / "glue" / "MNLI", tmp_path / "glue" / "diagnostic"
    mnli.mkdir(parents=True)
    diagnostic.mkdir()
    pairs = [
        ("the cat sat", "a cat sat", "entailment"),
        ("the dog", "no dog", "contradiction"),
        ("a tree", "birds", "neutral"),
    ] * 8
    table = "\n".join(["index\tsentence1\tsentence2\tgold_label", *("\t".join(("1", *pair)) for pair in pairs)])
    for name in ("train", "dev_matched"):
        (mnli / f"{name}.tsv").write_text(table)
    with pytest.raises(UserError, match="no finished run of glue/mnli"):
        evaluate("glue/ax", data_dir=str(tmp_path))
    with pytest.raises(UserError, match="has no training data"):
        finetune("glue/ax", data_dir=str(tmp_path))
    run = finetune("mnli", data_dir=str(tmp_path), epochs=1, out=str(tmp_path / "run"))
    unlabelled = ["index\tsentence1\tsentence2", *("\t".join(("1", *pair[:2])) for pair in pairs)]
    (diagnostic / "diagnostic.tsv").write_text("\n".join(unlabelled))
    with pytest.raises(UserError, match="no column `Label`"):
        evaluate("ax", data_dir=str(tmp_path), model=run.run)
    assert len(find_source("ax", str(tmp_path)).read("test")) == 24
    head = "Lexical Semantics\tPredicate-Argument Structure\tLogic\tKnowledge\tDomain\tPremise\tHypothesis\tLabel"
    full = "\n".join([head, *("\t".join(("", "", "", "", "News", *pair)) for pair in pairs)])
    (diagnostic / "diagnostic-full.tsv").write_text(full)
    scored = evaluate("ax", data_dir=str(tmp_path), model=run.run)
    assert list(scored.metrics) == ["matthews_correlation", "accuracy"]
    assert scored.metrics["accuracy"] == evaluate("mnli", data_dir=str(tmp_path), model=run.run).metrics["accuracy"]
    (mnli / "dev_mismatched.tsv").write_text("\n".join(table.splitlines()[:7]))
    both = evaluate("mnli", data_dir=str(tmp_path), model=run.run)
    (mismatched,) = both.to_json()["other_splits"]
    assert (both.split, both.examples) == ("dev", 24)
    assert (mismatched["split"], mismatched["examples"]) == ("dev_mismatched", 6)
    assert [table.title for table in evaluation_tables(both)].count("dev_mismatched, 6 examples") == 1
    compared = evaluate("mnli", data_dir=str(tmp_path), model=[run.run, run.run])
    (mismatched,) = compared.other_splits
    assert [len(split.others[0].to_first) for split in (compared, mismatched)] == [1, 1]
    titles = [table.title for table in evaluation_tables(compared)]
    assert titles == ["glue/mnli dev", "dev_mismatched, 6 examples"]


# --- All of them


def test_the_hub_gives_what_the_official_files_give(monkeypatch: pytest.MonkeyPatch) -> None:
    tags = datasets.ClassLabel(names=list(TASKS["conll2003"].labels))
    sets = {
        "allenai/swag": datasets.Dataset.from_dict(
            {"sent1": ["A."], "sent2": ["He"], **{f"ending{n}": [f"goes {n}."] for n in range(4)}, "label": [2]},
            datasets.Features(
                {
                    **{
                        name: datasets.Value("string")
                        for name in ("sent1", "sent2", "ending0", "ending1", "ending2", "ending3")
                    },
                    "label": datasets.ClassLabel(names=["0", "1", "2", "3"]),
                }
            ),
        ),
        "stanfordnlp/imdb": datasets.Dataset.from_dict(
            {"text": ["A film."], "label": [1]},
            datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])}),
        ),
        "tomaarsen/conll2003": datasets.Dataset.from_dict(
            {"tokens": [["EU", "rejects"]], "ner_tags": [[3, 0]]},
            datasets.Features(
                {"tokens": datasets.Sequence(datasets.Value("string")), "ner_tags": datasets.Sequence(tags)}
            ),
        ),
    }
    monkeypatch.delenv("BERT_DATA", raising=False)
    monkeypatch.setattr(datasets, "load_dataset", lambda name, subset, split: sets[name])
    swag = find_source("swag", None, {}).read("dev").examples
    assert (swag.texts, swag.choices[0][2], swag.labels) == (["A."], "He goes 2.", ["2"])
    imdb = find_source("imdb", None, {})
    assert label_ids(imdb.task, imdb.read("dev").examples).tolist() == [1]
    sentences = find_source("conll2003", None, {}).read("dev").examples
    assert (sentences.words, sentences.tags) == ([["EU", "rejects"]], [["B-ORG", "O"]])


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("CoNLL-2003", "conll2003"),
        ("Swag", "swag"),
        ("AX", "glue/ax"),
        ("SQuAD-v2", "squad_v2"),
        ("squad2", "squad_v2"),
        ("SQuAD 1.1", "squad"),
        ("squad_v1.1", "squad"),
        ("SQuAD 2.0", "squad_v2"),
    ],
)
def test_names_of_tasks_are_forgiving(name: str, task: str) -> None:
    assert get_task(name) is TASKS[task]


def test_a_run_has_one_name_however_its_task_was_spelled(
    at_home: Path, swag_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="is finished"):  # and not: was begun with another task
        finetune("SWAG", resume=True, out=str(swag_run))
    named = []
    monkeypatch.setattr("bertcli.lifecycle.finetune.begin", lambda command, config, name: named.append(name) or 1 / 0)
    for spelled in ("sst-2", "SST2", "glue/sst2"):
        with pytest.raises(ZeroDivisionError):
            finetune(spelled)
    assert named == ["glue-sst2"] * 3


def test_a_split_without_labels_is_refused_before_the_model_runs(
    at_home: Path, swag_run: Path, tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "swag").mkdir()
    (tmp_path / "swag" / "test.csv").write_text("sent1,sent2,ending0,ending1,ending2,ending3\nx,He,a,b,c,d\n")
    with pytest.raises(UserError, match="The split `test` of swag has no labels"):
        evaluate("swag", split="test", model=[str(swag_run)], data_dir=str(tmp_path))
    assert "loaded" not in said.text


def test_the_papers_scores_say_their_split() -> None:
    rows = score_table("glue/mnli", "dev", {"accuracy": 80.0, "dev_mismatched_accuracy": 81.0}).rows
    assert [row[1:] for row in rows] == [
        ["dev", "accuracy", 80.0, 84.4, "-4.40", 86.6, "-6.60", "dev"],
        ["dev_mismatched", "accuracy", 81.0, 83.4, "-2.40", 85.9, "-4.90", "test_mismatched"],
    ]
    assert TASKS["swag"].paper_scores("test") == {"large accuracy": 86.3}
    assert TASKS["glue/ax"].paper_scores("dev") == {}


def test_a_model_of_another_kind_is_refused(at_home: Path, swag_run: Path, conll_run: Path) -> None:
    with pytest.raises(UserError, match=r"BertForMultipleChoice\) is not of the kind `tag`"):
        evaluate("conll2003", model=str(swag_run), data_dir="official")
    with pytest.raises(UserError, match="needs a text with choices"):
        predict("the cat", model=str(swag_run))
    with pytest.raises(UserError, match="two at least"):
        predict("the cat", choice=["sat"], model=str(swag_run))
    with pytest.raises(UserError, match="needs one text"):
        predict("the cat", text_pair="the dog", model=str(conll_run))


def test_another_kind_can_be_learnt_from_a_fine_tuned_model(
    at_home: Path, swag_run: Path, conll_run: Path, tmp_path: Path
) -> None:
    run = finetune("swag", data_dir="official", from_=str(conll_run), epochs=0.1, out=str(tmp_path / "run"))
    assert AutoModelForMultipleChoice.from_pretrained(run.model).classifier.weight.shape[0] == 1
