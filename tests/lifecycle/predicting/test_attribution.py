"""Explanations sum to the difference of the logits, name the words of the text, and are shown as a page."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import WORDS

from bertcli import errors
from bertcli.data.packing.windows import WindowRules
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import UserError
from bertcli.kinds import KINDS
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.predicting import attribution
from bertcli.lifecycle.scoring.task_model import load_for_rows
from bertcli.models.loading import save_model
from tests.cli.test_main import run
from tests.data.text.tokenizers import SAVERS
from tests.families.checks import SIZES, save
from tests.support import build

TEXT, PAIR = "the happily green cat, sat slowly", "a dog ran"
LABELS = ("good", "bad", "<b>neither</b>")
HOSTILE = '<script>alert(1)</script> the cat & "dog" {{ 7 * 7 }} </style>'


@pytest.fixture(scope="session")
def models(home: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Tiny models with large weights, one of each kind that is explained."""
    folder = tmp_path_factory.mktemp("models")
    tokenizer = load_tokenizer(home / "vocab")
    names = dict(enumerate(LABELS))
    for kind in ("classify", "multilabel", "regress"):
        labels: dict[str, Any] = {"num_labels": 1} if kind == "regress" else {"num_labels": 3, "id2label": names}
        labels["problem_type"] = KINDS[kind].problem_type
        save_model(build(kind, "tiny", tokenizer, labels, 0, deviation=0.2), tokenizer, folder / kind)
    return {path.name: str(path) for path in folder.iterdir()}


@pytest.fixture
def without_captum(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (errors, attribution):
        monkeypatch.setattr(module, "find_spec", lambda name: None)


def explained(model: str, **given: Any) -> dict[str, Any]:
    (record,) = predict(model=model, explain="words", **given).records
    return record


def sum_of(found: dict[str, Any]) -> float:
    return sum(word["attribution"] for word in found["words"])


@pytest.mark.parametrize("kind", ["classify", "multilabel", "regress"])
@pytest.mark.parametrize("pair", [None, PAIR])
def test_the_words_sum_to_the_difference_of_the_logits(models: dict[str, str], kind: str, pair: str | None) -> None:
    pytest.importorskip("captum")
    record = explained(models[kind], text=TEXT, text_pair=pair)
    found = record["explanation"]
    difference = found["output"] - found["baseline"]
    assert abs(sum_of(found) - difference) <= 0.05 * abs(difference)
    assert found["method"] == "integrated gradients"
    for word in found["words"]:
        assert {"text": TEXT, "text_pair": pair}[word["part"]][word["start"] : word["end"]] == word["text"]
    assert [word["text"] for word in found["words"]] == ["the", "happily", "green", "cat", ",", "sat", "slowly"] + (
        ["a", "dog", "ran"] if pair else []
    )
    if kind == "regress":
        assert found["output"] == pytest.approx(record["value"], abs=1e-4)
    else:
        share = max(record["scores"].values())
        assert found["label"] == max(record["scores"], key=record["scores"].get)
        assert found["output"] == pytest.approx(np.log(share / (1 - share)), abs=1e-2)


@pytest.mark.usefixtures("float32", "without_captum")
@pytest.mark.parametrize("pair", [None, PAIR])
def test_without_captum_a_short_text_gets_exact_shapley_values(models: dict[str, str], pair: str | None) -> None:
    found = explained(models["classify"], text="green cats sat", text_pair=pair)["explanation"]
    assert sum_of(found) == pytest.approx(found["output"] - found["baseline"], abs=1e-4)
    loaded = load_for_rows(models["classify"], KINDS["classify"], "auto", 5, has_gradients=True)
    row = {"text": "green cats sat", **({"text_pair": "a"} if pair else {})}
    explainer = attribution.Explainer(loaded, row)
    of_words = np.zeros(len(explainer.words))
    orders = list(itertools.permutations(range(len(of_words))))
    with torch.no_grad():
        for order in orders:
            ids = [explainer.masked.copy()]
            for word in order:
                ids.append(ids[-1].copy())
                ids[-1][explainer.places[word]] = explainer.ids[explainer.places[word]]
            scores = explainer._evidence(explainer._logits(torch.from_numpy(np.stack(ids)))).cpu().numpy()
            of_words[list(order)] += np.diff(scores) / len(orders)
    np.testing.assert_allclose(explainer._shapley_values(), of_words, atol=1e-4)


@pytest.mark.usefixtures("float32")
@pytest.mark.parametrize("kind", ["classify", "regress"])
@pytest.mark.parametrize("stride", [3, 10])  # of windows that overlap, and of others
@pytest.mark.parametrize("pair", [None, PAIR])
def test_a_text_in_windows_is_explained_as_it_is_predicted(
    models: dict[str, str], kind: str, stride: int, pair: str | None
) -> None:
    pytest.importorskip("captum")
    loaded = load_for_rows(models[kind], KINDS[kind], "auto", 5, has_gradients=True)
    loaded = replace(loaded, rules=WindowRules(12, stride, 0, True))
    text = " ".join(WORDS)
    row = {"text": text, **({"text_pair": pair} if pair else {})}
    (record,), _ = loaded.predict_rows([row])
    explainer = attribution.Explainer(loaded, row)
    assert len(explainer.windows) > 2
    of_text = [places for word, places in zip(explainer.words, explainer.places, strict=True) if word.part == "text"]
    assert (sum(map(len, of_text)) > len(loaded.tokenizer.encode_ids([text])[0])) == (stride == 3)
    found = explainer.explain()
    assert " ".join(word["text"] for word in found["words"] if word["part"] == "text") == text
    difference = found["output"] - found["baseline"]
    assert abs(sum_of(found) - difference) <= max(0.05 * abs(difference), 1e-4)
    share = max(record["scores"].values()) if kind == "classify" else 0.5
    wanted = np.log(share / (1 - share)) if kind == "classify" else record["value"]
    assert found["output"] == pytest.approx(wanted, abs=1e-3)


@pytest.mark.usefixtures("without_captum")
def test_without_captum_a_long_text_says_what_to_install(models: dict[str, str]) -> None:
    with pytest.raises(UserError, match="11 words needs captum") as error:
        explained(models["classify"], text=" ".join(WORDS[:11]))
    assert "pip install 'bertcli[explain]'" in error.value.hint


@pytest.mark.usefixtures("without_captum")
def test_words_that_the_model_does_not_read_are_not_explained(models: dict[str, str]) -> None:
    loaded = load_for_rows(models["classify"], KINDS["classify"], "auto", 5, has_gradients=True)
    explainer = attribution.Explainer(loaded, {"text": "cat " * 600, "text_pair": "dog " * 5})
    assert [word.text for word in explainer.words] == ["cat"] * (512 - 8) + ["dog"] * 5
    assert max(itertools.chain(*explainer.places)) == 510


@pytest.mark.parametrize("name", SAVERS)
@pytest.mark.parametrize("pair", [None, "the ship sank"])
def test_the_words_of_other_tokenizers_are_explained(workspace: Path, name: str, pair: str | None) -> None:
    SAVERS[name](Path("model"))
    sizes = {**SIZES, "type_vocab_size": 2 if name == "Albert" else 1, "vocab_size": 300, "initializer_range": 0.3}
    save(name, {**sizes, "embedding_size": 16, "pad_token_id": 1}, "SequenceClassification", Path("model"))
    row = {"text": "the king, out", **({"text_pair": pair} if pair else {})}
    found = explained("model", **row)["explanation"]
    difference = found["output"] - found["baseline"]
    assert abs(sum_of(found) - difference) <= 0.05 * abs(difference) + 1e-3
    assert all(row[word["part"]][word["start"] : word["end"]] == word["text"] for word in found["words"])
    words = ["the", "king,", "out"] if name == "Albert" else ["the", "king", ",", "out"]
    assert [word["text"] for word in found["words"]] == words + (["the", "ship", "sank"] if pair else [])


@pytest.mark.usefixtures("without_captum")
def test_a_file_gets_an_explanation_a_row(models: dict[str, str], workspace: Path) -> None:
    Path("in.txt").write_text("the cat\n\na dog ran\n")
    predict(file="in.txt", output="out.jsonl", model=models["classify"], explain="words")
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [len(row["explanation"]["words"]) for row in rows] == [2, 0, 3]


def test_the_page_holds_the_words_and_runs_nothing_of_the_text(models: dict[str, str], workspace: Path) -> None:
    pytest.importorskip("captum")
    record = explained(models["classify"], text=HOSTILE, text_pair=TEXT, explain_page="page.html")
    page = Path("page.html").read_text()
    of_legend = 2
    assert page.count('class="word ') == of_legend + len(record["explanation"]["words"])
    assert page.count("</style>") == 1
    assert not any(each in page for each in ("<script", "<b>", "<img"))
    assert "http" not in page.replace("http-equiv", "")
    assert "default-src 'none'" in page


@pytest.mark.usefixtures("without_captum")
def test_a_page_is_written_atomically_of_one_text(models: dict[str, str], workspace: Path) -> None:
    explained(models["regress"], text="the cat", explain_page="page.html")
    assert [path.name for path in workspace.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"question": "who", "context": "cat"}, "takes a text or a pair"),
        ({"text": "a", "choice": ["a", "b"]}, "takes a text or a pair"),
        ({"text": "a", "precision": "bfloat16"}, "does not run in bfloat16"),
        ({"file": "in.txt", "explain_page": "a.html"}, "A page shows one text"),
        ({"text": "a", "explain_page": "a.csv"}, "is not HTML"),
        ({"text": "a", "features": "a.npz"}, "--features and --explain do not go together"),
    ],
)
def test_a_wrong_request_is_said(models: dict[str, str], workspace: Path, options: dict[str, Any], what: str) -> None:
    Path("in.txt").write_text("a\n")
    with pytest.raises(UserError, match=what):
        predict(model=models["classify"], explain="words", **options)


def test_a_model_without_a_decision_is_refused(at_home: Path) -> None:
    with pytest.raises(UserError, match="needs a model that gives a label or a value"):
        predict(text="the [MASK] sat", model="runs/pretrain-tiny", explain="words")


@pytest.mark.usefixtures("without_captum")
def test_the_terminal_shades_the_words_and_lists_them(
    models: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ["predict", "--text", "the green cat", "--model", models["classify"], "--explain"]
    code, out, _ = run(request, capsys, monkeypatch)
    assert code == 0
    assert len(json.loads(out)["explanation"]["words"]) == 3
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    _, out, _ = run(request, capsys, monkeypatch)
    assert "green" in out.partition("adds")[0]
    assert "Shapley" in out
    assert "without words" in out
