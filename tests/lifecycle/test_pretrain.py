"""Pre-training begins from what fits, and ends in a run folder that other tools open."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForPreTraining, AutoTokenizer, BertConfig, BertForPreTraining

from bertcli.data.pretraining.shards import load_pretraining_examples
from bertcli.errors import Interrupted, UserError
from bertcli.families.bert import BERT
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.lifecycle.pretrain import pretrain
from bertcli.models.loading import build_model
from bertcli.objectives import get_objective
from bertcli.objectives.objective import ObjectiveExamples
from bertcli.training.run_folder import RunFolder
from tests.training.test_loop import SHORT, assert_same_bits, stop_after


def test_pretraining_writes_the_promised_run_folder(at_home: Path) -> None:
    run = Path("runs/pretrain-tiny")
    names = {path.name for path in run.iterdir()}
    assert names >= {
        "config.yaml",
        "environment.json",
        "metrics.jsonl",
        "model",
        "start",
        "checkpoints",
        "README.md",
        "report.html",
        "loss.svg",
    }
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    parts = {"masked_lm_loss", "next_sentence_loss"}
    timed = {"tokens_per_second", "share_of_peak"}
    assert lines[0].keys() == {"step", "loss", "learning_rate", "gradient_norm", *timed, *parts}
    assert lines[0]["loss"] == pytest.approx(sum(lines[0][name] for name in parts), abs=1e-4)
    assert "knowing only how frequent each token is gives" in (run / "README.md").read_text()
    assert lines[-1]["metrics"]["masked_lm_accuracy"] >= 0


def test_a_pretrained_folder_opens_in_plain_transformers_with_the_same_logits(at_home: Path) -> None:
    model, info = AutoModelForPreTraining.from_pretrained("runs/pretrain-tiny/model", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert AutoTokenizer.from_pretrained("runs/pretrain-tiny/model").vocab_size == model.config.vocab_size
    examples = load_pretraining_examples("pretraining-data", 0)
    objective = get_objective("mlm+nsp")
    batch = ObjectiveExamples(objective, examples).pack(np.array([5]), 0)
    ours = objective.outputs(packed_twin(model), batch)
    theirs = model.eval()(input_ids=batch.input_ids[None], token_type_ids=batch.token_type_ids[None])
    masked = theirs.prediction_logits[0, batch.labels["masked_lm_positions"]]
    torch.testing.assert_close(ours["masked_lm"], masked, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours["next_sentence"], theirs.seq_relationship_logits, atol=1e-5, rtol=1e-5)


def packed_twin(model: BertForPreTraining) -> BertForPreTraining:
    config = BertConfig.from_dict(model.config.to_dict(), attn_implementation="packed")
    twin = BertForPreTraining(config).eval()
    twin.load_state_dict(model.state_dict())
    return twin


def test_new_weights_are_drawn_as_the_original_draws_them(at_home: Path) -> None:
    examples = load_pretraining_examples("pretraining-data", 0)
    model = build_model(AutoModelForPreTraining, BERT, "tiny", examples.tokenizer, {}, 0)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            assert parameter.abs().max() <= 0.04, name
            assert parameter.std().item() == pytest.approx(0.0176, abs=0.004), name
        else:
            assert set(parameter.unique().tolist()) == {1.0 if "LayerNorm.weight" in name else 0.0}, name
    assert model.config.layer_norm_eps == 1e-12


def test_held_out_data_is_measured_before_and_after(at_home: Path, tmp_path: Path) -> None:
    result = pretrain(**SHORT, steps=4, eval_data="pretraining-data", eval_steps=2, out=str(tmp_path / "run"))
    measured = [line for line in RunFolder(tmp_path / "run").metrics() if "metrics" in line]
    assert [line["step"] for line in measured] == [0, 2, 4]
    assert measured[-1]["metrics"] == result.metrics
    assert result.metrics["masked_lm_loss"] < measured[0]["metrics"]["masked_lm_loss"]


@pytest.mark.parametrize("stopped_after", [20, 31])
def test_sentences_are_filled_every_so_many_steps_wherever_a_run_is_stopped(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_after: int
) -> None:
    with monkeypatch.context() as patch:
        stop_after(patch, stopped_after)
        with pytest.raises(Interrupted):
            pretrain(**SHORT, steps=50, out=str(tmp_path / "run"))
    pretrain(resume=True, out=str(tmp_path / "run"))
    lines = RunFolder(tmp_path / "run").metrics()
    filled, scored = ([line["step"] for line in lines if key in line] for key in ("fills", "metrics"))
    assert (filled, scored) == ([20, 40, 50], [50])


def test_the_models_of_given_steps_are_kept_also_by_a_resumed_run(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(pretrain(**SHORT, steps=4, keep_steps="1,3", out=str(tmp_path / "run")).run)
    assert sorted(path.name for path in (run / "models").iterdir()) == ["step-1", "step-3"]
    again = {**SHORT, "steps": 4, "keep_steps": "1,3", "out": str(tmp_path / "again")}
    stop_after(monkeypatch, 2)
    with pytest.raises(Interrupted):
        pretrain(**again)
    monkeypatch.undo()
    monkeypatch.chdir(at_home)
    pretrain(resume=True, out=str(tmp_path / "again"))
    for step in (1, 3):
        kept = [load_file(folder / f"models/step-{step}/model.safetensors") for folder in (run, tmp_path / "again")]
        assert all(torch.equal(kept[0][name], kept[1][name]) for name in kept[0])
    for wrong in ("4", "0", "a", "1,,2"):
        with pytest.raises(UserError, match="--keep-steps"):
            pretrain(**SHORT, steps=4, keep_steps=wrong, out=str(tmp_path / "wrong"))


def test_pretraining_goes_on_from_another_run(at_home: Path, tmp_path: Path) -> None:
    result = pretrain(from_="runs/pretrain-tiny", steps=1, batch_size=8, learning_rate=0.0, out=str(tmp_path / "run"))
    assert_same_bits("runs/pretrain-tiny", result.run)


def test_data_held_out_are_not_trained_on_and_may_not_change_under_a_run(
    home: Path, workspace: Path, said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"tokenizer": str(home / "vocab"), "max_seq_length": 32, "workers": 1}
    for number, out in enumerate(("first", "held")):
        made = make_pretraining_data(str(home / "corpus.txt"), **options, seed=number, out=out).out
        os.utime(Path(made, "manifest.json"), (number, number))
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(Interrupted):
            pretrain(**SHORT, steps=4, eval_data="held", out="run")
    assert "data: first (latest in this folder)" in said.text
    make_pretraining_data(str(home / "corpus.txt"), **options, seed=7, out="held", overwrite=True)
    with pytest.raises(UserError, match="`held` holds other data than the run in `run` was evaluated on"):
        pretrain(resume=True, out="run")
    assert pretrain(resume=True, out="run", eval_data="first").metrics


def test_that_more_pretraining_undoes_a_sentence_encoder_is_said(
    at_home: Path, tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    start = tmp_path / "encoder"
    shutil.copytree("runs/pretrain-tiny/model", start)
    pretrain(from_=str(start), steps=1, dry_run=True)
    assert "mean of its states" not in said.text
    (start / "1_Pooling").mkdir()
    (start / "1_Pooling/config.json").write_text('{"pooling_mode_mean_tokens": true}')
    pretrain(from_=str(start), steps=1, dry_run=True)
    assert f"{start} was trained so that the mean of its states stands for a text. More pre-training" in said.text


def test_a_run_from_a_model_has_its_name_and_the_defaults_of_its_width(
    home: Path, workspace: Path, said: pytest.LogCaptureFixture
) -> None:
    start, data = str(home / "runs" / "pretrain-tiny" / "model"), str(home / "pretraining-data")
    named = Path(pretrain(from_=start, data=data, size="large", steps=1, batch_size=8).run)
    assert (named.name, RunFolder(named).config["size"]) == ("pretrain-tiny", None)
    assert "--size large has no effect" in said.text
    options = {"family": "electra", "tokenizer": str(home / "vocab"), "max_seq_length": 32, "workers": 1}
    make_pretraining_data(str(home / "corpus.txt"), **options, out="data")
    electra = pretrain(size="tiny", data="data", steps=1, out="electra")
    again = pretrain(from_=electra.run, data="data", steps=1)
    begun, config = RunFolder(Path(electra.run)).config, RunFolder(Path(again.run)).config
    assert Path(again.run).name == "pretrain-electra"
    for name in ("learning_rate", "batch_size", "family"):
        assert config[name] == begun[name]


def test_a_relative_without_berts_heads_is_not_pretrained(at_home: Path, tmp_path: Path) -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
    for family in ("Electra", "BigBird"):
        model = getattr(transformers, f"{family}ForPreTraining")(getattr(transformers, f"{family}Config")(**sizes))
        model.save_pretrained(tmp_path / family)
        with pytest.raises(UserError, match="cannot be trained by --objective"):
            pretrain(from_=str(tmp_path / family), steps=1, out=str(tmp_path / "run"))


def test_data_without_next_sentences_trains_the_masked_lm_alone(at_home: Path, tmp_path: Path) -> None:
    from bertcli.lifecycle.make_pretraining_data import make_pretraining_data

    options = {"next_sentence": False, "masked_lm_prob": 0.4, "whole_word_mask": True}
    make_pretraining_data("corpus.txt", max_seq_length=32, out=str(tmp_path / "data"), **options)
    result = pretrain(**SHORT, steps=2, data=str(tmp_path / "data"), out=str(tmp_path / "run"))
    assert "masked_lm_accuracy" in result.metrics
    assert "next_sentence_accuracy" not in result.metrics
    card = (tmp_path / "run" / "README.md").read_text()
    assert re.search(r"Data: [\d,]+ instances without next sentences, .* static masks of 40% of words\.", card)


def test_an_unknown_tracker_is_refused_with_a_hint(at_home: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--track nosuch"):
        pretrain(**SHORT, steps=1, track="nosuch", out=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_model_is_not_trained_on_with_another_vocabulary(at_home: Path, tmp_path: Path) -> None:
    from bertcli.lifecycle.finetune import finetune
    from bertcli.lifecycle.make_pretraining_data import make_pretraining_data

    vocab = (at_home / "vocab" / "vocab.txt").read_text().splitlines()
    (tmp_path / "vocab.txt").write_text("\n".join([*vocab[:-2], vocab[-1], vocab[-2]]) + "\n")
    make_pretraining_data(
        "corpus.txt", tokenizer=str(tmp_path / "vocab.txt"), max_seq_length=32, out=str(tmp_path / "data")
    )
    with pytest.raises(UserError, match="is not the model's own: it does not fit"):
        pretrain(from_="runs/pretrain-tiny", data=str(tmp_path / "data"), out=str(tmp_path / "run"))
    (tmp_path / "a.csv").write_text("text,label\n" + "a,x\nb,y\n" * 20)
    with pytest.raises(UserError, match="is not the model's own: it does not fit"):
        finetune(str(tmp_path / "a.csv"), tokenizer=str(tmp_path / "vocab.txt"), out=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_pretraining_starts_from_neighbours_when_asked(
    at_home: Path, tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    words = Path("vocab/vocab.txt").read_text() + "".join(f"unseen{number}\n" for number in range(60))
    (tmp_path / "vocab.txt").write_text(words)
    data = str(tmp_path / "data")
    make_pretraining_data("corpus.txt", tokenizer=str(tmp_path / "vocab.txt"), out=data, dupe_factor=1, workers=1)
    options = {"data": data, "size": "tiny", "steps": 2, "batch_size": 4, "embeddings": "cooccurrence", "dropout": 0.0}
    plain = pretrain(**{**options, "embeddings": "random"}, out=str(tmp_path / "plain"))
    said.clear()
    started = pretrain(**options, initializer_range=0.05, out=str(tmp_path / "started"))
    assert "initialized from co-occurrence counts in" in said.text
    assert plain.losses != started.losses
    assert "embeddings: cooccurrence" in (tmp_path / "started" / "README.md").read_text()


def test_too_small_a_vocabulary_is_refused(at_home: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="too few for --embeddings cooccurrence"):
        pretrain(size="mini", steps=1, embeddings="cooccurrence", dry_run=True)


@pytest.mark.parametrize("option", [{"embeddings": "cooccurrence"}, {"initializer_range": 0.05}])
def test_learnt_weights_are_not_begun_anew(at_home: Path, option: dict[str, object]) -> None:
    with pytest.raises(UserError, match="is for new weights only"):
        pretrain(from_="runs/pretrain-tiny", steps=1, dry_run=True, **option)


def test_masked_lm_alone_is_trained_on_pairs_when_asked(at_home: Path, tmp_path: Path) -> None:
    result = pretrain(**SHORT, steps=2, objective="mlm", out=str(tmp_path / "run"))
    assert "masked_lm_accuracy" in result.metrics
    assert "next_sentence_accuracy" not in result.metrics
    assert RunFolder(tmp_path / "run").config["objective"] == "mlm"


def test_pairs_are_not_learnt_from_data_without_them(at_home: Path, tmp_path: Path) -> None:
    from bertcli.lifecycle.make_pretraining_data import make_pretraining_data

    make_pretraining_data("corpus.txt", next_sentence=False, max_seq_length=32, out=str(tmp_path / "data"))
    with pytest.raises(UserError, match=r"--objective mlm\+nsp needs pairs"):
        pretrain(**SHORT, objective="mlm+nsp", data=str(tmp_path / "data"), out=str(tmp_path / "run"))


def test_a_wrong_request_is_answered_without_torch_or_datasets(at_home: Path, tmp_path: Path) -> None:
    requests = (
        ("pretrain", {"objective": "nsp"}),
        ("pretrain", {"data": "nowhere"}),
        ("pretrain", {"heads": 5}),
        ("pretrain", {"tokenizer": str(tmp_path / "other.txt")}),
        ("pretrain", {"from_": "./nowhere"}),
        ("make_pretraining_data", {"text": "nowhere.txt"}),
        ("build_vocab", {"text": "corpus.txt", "out": "runs"}),
        ("convert", {"source": "corpus.txt", "out": "new"}),
        ("demo", {"out": "runs"}),
        ("add_words", {"add_words": "nowhere.txt", "to": "runs/pretrain-tiny"}),
    )
    (tmp_path / "other.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    program = (
        "import sys\nfrom importlib import import_module\nfrom bertcli.errors import UserError\n"
        f"for name, options in {requests!r}:\n"
        "    try:\n"
        "        getattr(import_module(f'bertcli.lifecycle.{name}'), name)(**options)\n"
        "    except UserError:\n"
        "        continue\n"
        "    raise SystemExit(f'{name} {options} was not refused')\n"
        "heavy = {'torch', 'transformers', 'datasets', 'evaluate', 'accelerate', 'numba', 'scipy', 'sklearn'}\n"
        "sys.exit(str(heavy & sys.modules.keys()) if heavy & sys.modules.keys() else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_warm_up_that_does_not_end_is_said(at_home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="bertcli"):
        pretrain(**{**SHORT, "warmup_steps": 5}, steps=2, out=str(tmp_path / "run"))
    assert "--warmup-steps 5 is more than the 2 steps, so --learning-rate is not reached" in caplog.text


def test_data_larger_than_the_cache_are_resumed_to_the_bit_with_another_cache(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_pretraining_data(
        "corpus.txt", out=str(tmp_path / "data"), dupe_factor=2, max_seq_length=32, shards=5, workers=1
    )
    options = {**SHORT, "steps": 12, "batch_size": 16, "data": str(tmp_path / "data"), "save_steps": 1}
    pretrain(**options, data_cache_gb=1e-5, out=str(tmp_path / "whole"))
    with monkeypatch.context() as patch:
        stop_after(patch, 7)
        with pytest.raises(UserError, match="Stopped"):
            pretrain(**options, data_cache_gb=1e-5, out=str(tmp_path / "run"))
    pretrain(resume=True, out=str(tmp_path / "run"), data_cache_gb=1.0)
    assert_same_bits(tmp_path / "whole", tmp_path / "run")
    assert RunFolder(tmp_path / "run").config["shards_per_window"] > 0


def test_options_of_masking_change_dynamic_masks_and_nothing_else(at_home: Path, tmp_path: Path) -> None:
    options = {"max_seq_length": 32, "dupe_factor": 1, "workers": 1, "masking": "dynamic"}
    make_pretraining_data("corpus.txt", **options, out=str(tmp_path / "data"))
    make_pretraining_data("corpus.txt", **options, mask_shares="0,0,100", out=str(tmp_path / "random"))
    recorded = load_pretraining_examples(tmp_path / "random", 0)
    assert recorded.manifest["options"]["mask_shares"] == "0,0,100"
    assert recorded.rules.shares == (0, 0, 100)
    request = {**SHORT, "steps": 1, "data": str(tmp_path / "data")}
    result = pretrain(**request, mask_shares="100,0,0", masked_lm_prob=0.8, span_mask=True, out=str(tmp_path / "run"))
    card = (tmp_path / "run" / "README.md").read_text()
    assert "dynamic masks of 80% of tokens in spans of words (100,0,0)." in card
    assert "--mask-shares 100,0,0" in card
    other = pretrain(**request, out=str(tmp_path / "other"))
    with pytest.raises(AssertionError):
        assert_same_bits(result.run, other.run)
    masked = load_pretraining_examples(tmp_path / "data", 0).masked_by({"masked_lm_prob": 0.9})
    assert masked.rules.num_to_predict(32) == 29  # more than the data's limit, which is for 15 %
    with pytest.raises(UserError, match="has static masks, which --mask-shares cannot change") as caught:
        pretrain(**{**request, "data": "pretraining-data"}, mask_shares="100,0,0", out=str(tmp_path / "static"))
    hint = "--tokenizer pretraining-data/tokenizer --max-seq-length 48 --family bert --masking dynamic --out pretraining-data-2"
    assert hint in caught.value.hint
    options = {"tokenizer": "pretraining-data/tokenizer", "max_seq_length": 48, "family": "bert", "masking": "dynamic"}
    make_pretraining_data("corpus.txt", **options, out=str(tmp_path / "data-2"), workers=1)
    assert load_pretraining_examples(tmp_path / "data-2", 0).masked_by({"mask_shares": "100,0,0"})
    with pytest.raises(UserError, match="masks nothing, so --span-mask has no effect"):
        pretrain(**request, objective="left-to-right", span_mask=True, out=str(tmp_path / "nothing"))
    with pytest.raises(UserError, match="not three percentages"):
        make_pretraining_data("corpus.txt", mask_shares="80,10,20", out=str(tmp_path / "never"))
