"""A named size whose parts are replaced by options, and the rows of Table 6 as recipes."""

import json
from pathlib import Path

import pytest

from bertcli.config.architecture import PARTS
from bertcli.config.recipes import read_recipe, recipe_names
from bertcli.config.training import FinetuneConfig, PretrainConfig
from bertcli.errors import UserError
from bertcli.families.bert import BERT
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.pretrain import pretrain
from tests.training.test_loop import SHORT, stop_after

ROWS = ((3, 768, 12), (6, 768, 3), (6, 768, 12), (12, 768, 12), (12, 1024, 16), (24, 1024, 16))


def test_each_option_replaces_its_part_of_the_size() -> None:
    whole, config = BERT.get_size("base"), PretrainConfig(size="base", layers=3)
    assert (config.model_size.layers, config.model_size.hidden, config.model_size.heads) == (3, whole.hidden, 12)
    assert config.size_name == "3-768-12"
    assert PretrainConfig(size="base").size_name == "base"
    assert FinetuneConfig(size="tiny", hidden_size=96).model_size.intermediate == 4 * 96
    assert FinetuneConfig(size="tiny", intermediate_size=100).model_size.intermediate == 100


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"heads": 7}, "A hidden size of 768 cannot be divided among 7 heads"),
        ({"layers": 1000, "hidden_size": 96_000, "heads": 1500}, r"takes [\d,]+ GB, and this machine has"),
        ({"family": "xlnet", "size": "tiny", "hidden_size": 35, "heads": 5}, "hidden size of XLNet must be even"),
        ({"layers": 0}, "--layers is 0; the minimum is 1"),
        ({"intermediate_size": 10**9}, "--intermediate-size is 1000000000; the maximum is 1000000"),
    ],
)
def test_sizes_that_cannot_be_are_refused(options: dict[str, int], what: str) -> None:
    with pytest.raises(UserError, match=what):
        _ = PretrainConfig(**options).model_size


def test_the_hint_names_heads_that_divide_the_hidden_size() -> None:
    with pytest.raises(UserError) as error:
        _ = PretrainConfig(hidden_size=96, heads=5).model_size
    assert error.value.hint.endswith("--heads 4")
    assert PretrainConfig(hidden_size=96, heads=4).model_size.heads == 4


@pytest.mark.parametrize("row", ROWS)
def test_each_row_of_table_6_is_a_recipe_with_the_settings_of_the_paper(row: tuple[int, int, int]) -> None:
    config = PretrainConfig.from_values(read_recipe("pretrain/table-6-{}-{}-{}".format(*row)))
    size = config.model_size
    assert (size.layers, size.hidden, size.heads, size.intermediate) == (*row, 4 * row[1])
    settings = (config.steps, config.batch_size, config.learning_rate, config.warmup_steps, config.phases)
    assert settings == (1_000_000, 256, 1e-4, 10_000, "128:0.9,512:0.1")


def test_there_are_as_many_recipes_as_rows() -> None:
    assert len([name for name in recipe_names() if name.startswith("pretrain/table-6-")]) == len(ROWS)


def test_a_model_of_any_size_is_trained_resumed_and_not_changed(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: pytest.LogCaptureFixture
) -> None:
    own = {"layers": 1, "hidden_size": 24, "heads": 3, "intermediate_size": 20}
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        with pytest.raises(UserError, match="Stopped"):
            pretrain(**SHORT, **own, steps=2, out=str(tmp_path / "run"))
    assert "1-24-3 (1 layer, hidden size 24, 3 heads, intermediate size 20)" in said.text
    with pytest.raises(UserError, match=r"--heads is 6, but the run in .* was started with 3"):
        pretrain(resume=True, heads=6, out=str(tmp_path / "run"))
    result = pretrain(resume=True, out=str(tmp_path / "run"))
    saved = json.loads(Path(result.model, "config.json").read_text())
    named = {"layers": "num_hidden_layers", "heads": "num_attention_heads"}
    assert {name: saved[named.get(name, name)] for name in PARTS} == own


@pytest.mark.parametrize("start", ["runs/pretrain-tiny", None])
def test_parts_of_a_size_are_for_new_weights(at_home: Path, start: str | None) -> None:
    Path("reviews.csv").write_text("text,label\n" + "good,x\nbad,y\n" * 20)
    with pytest.raises(UserError, match="--layers is for new weights only"):
        finetune("reviews.csv", from_=start, layers=3, dry_run=True)
    if start:
        with pytest.raises(UserError, match="--heads is for new weights only"):
            pretrain(from_=start, heads=2, dry_run=True)


def test_resume_finds_the_run_of_the_same_parts(workspace: Path) -> None:
    from bertcli.lifecycle.start import begin
    from bertcli.training.run_folder import RunFolder

    for name, options in {"whole": {}, "three": {"layers": 3}}.items():
        config = PretrainConfig(size="base", **options)
        with RunFolder(Path("runs", name)) as folder:
            folder.create("pretrain", config.values())
    for name, options in {"whole": {"size": "base"}, "three": {"layers": 3}}.items():
        config = PretrainConfig.from_values({**options, "resume": True})
        assert begin("pretrain", config, "new")[1].path == Path("runs", name)
