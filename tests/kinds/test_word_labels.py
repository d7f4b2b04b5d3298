"""Labels of words that are of no entities, such as parts of speech."""

import json
import random
from pathlib import Path

import pytest
from conftest import WORDS
from sklearn.metrics import accuracy_score, f1_score
from transformers import AutoConfig, BertConfig

from bertcli.errors import UserError
from bertcli.kinds import KINDS, kind_of_model
from bertcli.lifecycle.baseline import baseline
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.own_files import own_task
from bertcli.lifecycle.predict import predict
from bertcli.metrics.entities import WordLabels

CONLL_U = """# sent_id = 1
# text = I like a lot of old green tea
1-2\tI'd\t_\t_\t_\t_\t_\t_\t_\t_
1\tI\tI\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2\tlike\tlike\tVERB\tVBP\t_\t0\troot\t_\t_
2.1\tdrink\tdrink\tVERB\tVBP\t_\t_\t_\t_\t_
3\ttea\ttea\tNOUN\tNN\t_\t2\tobj\t_\t_

1\t#\t#\tSYM\tNN\t_\t0\troot\t_\t_
2\tNew York\tNew York\tPROPN\tNNP\t_\t1\tflat\t_\t_
"""


def write_parts_of_speech(path: Path, count: int, seed: int) -> str:
    """CoNLL-U that can be learnt: the label of a word is its number of letters."""
    draw = random.Random(seed)
    sentences = [draw.choices(WORDS, k=draw.randint(2, 7)) for _ in range(count)]
    lines = [
        "".join(f"{n}\t{word}\t_\tL{len(word)}\t{word[0]}\t_\t0\t_\t_\t_\n" for n, word in enumerate(words, 1))
        for words in sentences
    ]
    path.write_text(
        "\n".join(f"# text = {' '.join(words)}\n{own}" for words, own in zip(sentences, lines, strict=True))
    )
    return str(path)


@pytest.mark.parametrize("name", ["a.conllu", "a.conll", "train.iob"])
def test_conll_u_is_read_by_its_words_and_parts_of_speech(
    workspace: Path, name: str, said: pytest.LogCaptureFixture
) -> None:
    Path(name).write_text(CONLL_U)
    task, parts = own_task(name, {}, None)
    assert task.kind == "label-words"
    assert task.labels == ("NOUN", "PRON", "PROPN", "SYM", "VERB")
    sentences = own_task(name, {}, None, scored="dev")[1]["dev"]
    assert sentences.words == [["I", "like", "tea"], ["#", "New York"]]
    assert sentences.tags == [["PRON", "VERB", "NOUN"], ["SYM", "PROPN"]]
    assert "comments" not in said.text  # they belong to the form
    assert f"{name}: 2 lines with numbers such as 1-2 or 1.1 left out" in said.messages
    assert (
        f"{name}: train 2 sentences; CoNLL-U; the column `form` is the word, `upos` the tag; kind: label-words"
        in said.text
    )
    for label in ("xpos", "XPOS"):
        assert own_task(name, {"label": label}, None)[0].labels == ("NN", "NNP", "PRP", "VBP")
    for options, message, hint in (
        ({"label": "misc"}, "has only the label `_`", "--label COLUMN"),
        ({"label": "ner"}, "has no column `ner`", "lemma, upos, xpos"),
        ({"text": "form"}, "no columns to choose", "Leave --text and --text-pair out"),
    ):
        with pytest.raises(UserError, match=message) as caught:
            own_task(name, options, None)
        assert hint in caught.value.hint
    assert len(parts["train"]) == 2


def test_the_column_of_the_tags_may_be_chosen_and_tells_the_kind(workspace: Path) -> None:
    Path("a.txt").write_text("EU NNP B-ORG\nrejects VBZ O\n\nPeter NNP B-PER\nsaid VBD O\n")
    assert own_task("a.txt", {}, None)[0].kind == "tag"
    task, parts = own_task("a.txt", {"label": "2"}, None)
    assert (task.kind, task.labels) == ("label-words", ("NNP", "VBD", "VBZ"))
    assert parts["train"].tags == [["NNP", "VBZ"], ["NNP", "VBD"]]
    with pytest.raises(UserError, match="has no column `4`") as caught:
        own_task("a.txt", {"label": "4"}, None)
    assert "2, 3." in caught.value.hint
    rows = [{"tokens": ["EU", "left"], "ner_tags": ["B-ORG", "O"], "pos_tags": ["NNP", "VBD"]}] * 2
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert own_task("a.jsonl", {}, None)[0].labels == ("B-ORG", "O")
    assert own_task("a.jsonl", {"label": "pos_tags"}, None)[0].kind == "label-words"


def test_words_in_columns_of_a_tsv_are_no_rows_of_a_table(workspace: Path) -> None:
    sentences = "the\tDET\ncat\tNOUN\nsat\tVERB\n\n" * 4
    Path("a.tsv").write_text(sentences)
    assert own_task("a.tsv", {}, None)[1]["train"].words == [["the", "cat", "sat"]] * 4
    Path("a.tsv").write_text("word\tclass\n" + sentences)
    assert own_task("a.tsv", {}, None)[0].kind == "classify"
    Path("a.tsv").write_text("text\tlabel\nthe cat\tNOUN\n\nsat\tVERB\n\nsat there\tVERB\n" * 3)
    assert own_task("a.tsv", {}, None)[0].kind == "classify"


def test_labels_beside_o_are_named_unless_the_kind_is_given(workspace: Path) -> None:
    Path("a.conll").write_text("Rome LOC\nis O\n\nAda PER\n")
    with pytest.raises(UserError, match="has the tag `LOC`, which is not of an entity") as caught:
        own_task("a.conll", {}, None)
    assert caught.value.hint.endswith("--kind label-words")
    assert own_task("a.conll", {}, "label-words")[0].labels == ("LOC", "O", "PER")


def test_words_are_labelled_scored_and_predicted(at_home: Path, tmp_path: Path) -> None:
    file = write_parts_of_speech(tmp_path / "train.conllu", 120, 1)
    run = finetune(file, out=str(tmp_path / "run"), epochs=6, batch_size=8, learning_rate=2e-3)
    assert list(run.metrics) == ["accuracy", "macro_f1"]
    assert run.metrics["accuracy"] > 80
    text = "the cat  sat"
    words = predict(text, model=run.run).records[0]["words"]
    assert [(each["text"], each["label"]) for each in words] == [("the", "L3"), ("cat", "L3"), ("sat", "L3")]
    assert all(text[each["start"] : each["end"]] == each["text"] for each in words)
    other = write_parts_of_speech(tmp_path / "test.conllu", 30, 2)
    scored = evaluate(other, model=run.run, mistakes=3)
    predict(file=other, model=run.run, output=str(tmp_path / "out.jsonl"))
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    true, given = ([label for row in rows for label in row[key]] for key in ("gold_tags", "tags"))
    assert scored.metrics["accuracy"] == pytest.approx(100 * accuracy_score(true, given))
    assert scored.metrics["macro_f1"] == pytest.approx(100 * f1_score(true, given, average="macro"))
    assert scored.labels.keys() == {*true, *given}
    assert sum(map(sum, scored.confusion_matrix)) == len(true)
    assert sum(row[n] for n, row in enumerate(scored.confusion_matrix)) == sum(
        a == b for a, b in zip(true, given, strict=True)
    )
    assert evaluate(other, model=run.run, predictions=str(tmp_path / "out.jsonl")).metrics == scored.metrics
    kind = kind_of_model(AutoConfig.from_pretrained(run.model))
    assert kind is KINDS["label-words"]


def test_a_run_is_scored_on_the_column_that_it_learnt_and_with_labels_that_are_new(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write_parts_of_speech(tmp_path / "train.conllu", 40, 1)
    baseline(file, label="xpos", method="majority")
    path = Path(write_parts_of_speech(tmp_path / "new.conllu", 20, 2))
    path.write_text(path.read_text() + "\n1\tθ\t_\tL1\tθ\t_\t0\t_\t_\t_\n")
    scores = evaluate("new.conllu")
    assert 90 < scores.metrics["accuracy"] < 100
    assert any("others count as errors: `θ` (1)" in remark for remark in scores.remarks)
    Path("names.conll").write_text("Rome B-LOC\nis O\n\nAda B-PER\n")
    with pytest.raises(UserError, match="has no column `xpos`"):
        evaluate("names.conll")
    assert len(predict(file="names.conll").records) == 2
    Path("tagged.txt").write_text("Rome B-LOC\nis O\n\nAda B-PER\n")
    assert [len(each["words"]) for each in predict(file="tagged.txt").records] == [2, 1]


@pytest.mark.parametrize("method", ["bag-of-words", "bilstm"])
def test_baselines_label_words_too(at_home: Path, tmp_path: Path, method: str) -> None:
    file = write_parts_of_speech(tmp_path / "train.conllu", 60, 1)
    run = baseline(file, method=method, out=str(tmp_path / "run"), **({"epochs": 60} if method == "bilstm" else {}))
    assert run.metrics["accuracy"] > 60
    assert predict("the cat", model=run.run).records[0]["words"][0]["text"] == "the"


def test_the_metric_refuses_sentences_of_other_lengths() -> None:
    metric = WordLabels(None, keep_in_memory=True)
    with pytest.raises(UserError, match="Sentence 1 has 2 words, but 1 predicted tags"):
        metric.counts([["A"]], [["A", "B"]])


def test_a_model_from_elsewhere_is_told_by_its_labels() -> None:
    for labels, kind in (
        (("NOUN", "VERB"), "label-words"),
        (("O", "B-PER"), "tag"),
        (("LABEL_0", "LABEL_1"), "tag"),
        (("B", "I", "E", "S"), "tag"),
    ):
        saved = BertConfig(architectures=["BertForTokenClassification"], id2label=dict(enumerate(labels)))
        assert kind_of_model(saved) is KINDS[kind]
