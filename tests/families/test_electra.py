"""ELECTRA runs packed as it runs padded in transformers, and is trained with its generator."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import transformers
from conftest import GOLDENS, write_reviews
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy
from transformers import AutoTokenizer, ElectraConfig, ElectraModel

from bertcli.data.packing.batches import PackedBatch, pack
from bertcli.data.text.tokenization import load_tokenizer
from bertcli.errors import Interrupted, UserError
from bertcli.families.bert import BERT
from bertcli.families.electra import ELECTRA
from bertcli.lifecycle.add_words import add_words
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.pretrain import pretrain
from bertcli.models.encoder import encode
from bertcli.models.formats.tensorflow_names import to_parameters
from bertcli.models.loading import with_trained_padding
from bertcli.models.packed import PACKED
from bertcli.models.working_copy import WorkingCopy
from bertcli.training.optimizer import make_optimizer
from bertcli.training.plan import learning_rate_at
from bertcli.training.run_folder import RunFolder
from tests.families.checks import KINDS, SIZES, check_finetuning, check_gradients, check_outputs
from tests.training.test_loop import stop_after

CONFIGS = {"Electra": {**SIZES, "embedding_size": 16}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CONFIGS)
def test_outputs_are_those_of_transformers(name: str, kind: str, tmp_path: Path) -> None:
    check_outputs(name, CONFIGS[name], kind, tmp_path)


@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    check_gradients(name, CONFIGS[name], tmp_path)


def test_it_is_finetuned_and_predicts(workspace: Path) -> None:
    check_finetuning("Electra", CONFIGS["Electra"])


TINY = {"size": "tiny", "batch_size": 8, "learning_rate": 1e-3}
WORDS = "electra.embeddings.word_embeddings.weight"


@pytest.fixture(scope="module")
def data(home: Path) -> str:
    out, text = home / "data-of-families" / "electra", str(home / "corpus.txt")
    return make_pretraining_data(
        text, family="electra", tokenizer=str(home / "vocab"), max_seq_length=48, out=str(out), workers=1
    ).out


@pytest.fixture(scope="module")
def run(home: Path, data: str) -> Path:
    """A model with its generator, pre-trained in one piece."""
    out = home / "runs-of-families" / "electra"
    return Path(pretrain(**TINY, data=data, steps=4, log_steps=2, out=str(out)).run)


def test_data_of_another_family_are_refused_with_how_to_make_its_own(run: Path, home: Path, workspace: Path) -> None:
    with pytest.raises(UserError, match="cannot be trained by --objective") as refused:
        pretrain(data=str(home / "pretraining-data"), from_=str(run), steps=1)
    wanted = f"bert make-pretraining-data TEXT --family electra --tokenizer {run}/model"
    assert refused.value.hint == f"It learns from other data: {wanted}"


def test_both_models_open_in_transformers(run: Path) -> None:
    for folder, name in ((run / "model", "ElectraForPreTraining"), (run / "model" / "generator", "ElectraForMaskedLM")):
        model, info = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
        assert not info["missing_keys"]
        assert not info["unexpected_keys"]
        assert model.config.architectures == [name]
        assert AutoTokenizer.from_pretrained(folder).mask_token == "[MASK]"
    model, generator = (
        load_file(folder / "model.safetensors") for folder in (run / "model", run / "model" / "generator")
    )
    shared = [name for name in generator if name.startswith("electra.embeddings.")]
    assert len(shared) == 5
    assert all(torch.equal(model[name], generator[name]) for name in shared)


def test_a_resumed_run_ends_with_the_same_bits(
    run: Path, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**TINY, "data": data, "steps": 4, "log_steps": 2, "out": str(tmp_path / "again")}
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(Interrupted):
            pretrain(**options)
    pretrain(resume=True, out=str(tmp_path / "again"))
    for folder in ("model", "model/generator"):
        one, other = (load_file(each / folder / "model.safetensors") for each in (run, tmp_path / "again"))
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one), folder


def test_micro_batches_give_the_gradients_of_one_large_batch(data: str, tmp_path: Path) -> None:
    options = {**TINY, "data": data, "steps": 2, "precision": "float32", "log_steps": 1}
    logged = []
    for tokens in (64, 100_000):
        out = tmp_path / str(tokens)
        pretrain(**options, micro_batch_tokens=tokens, out=str(out))
        logged.append([line for line in RunFolder(out).metrics() if "loss" in line])
    for one, other in zip(*logged, strict=True):
        assert one["masked_lm_loss"] == pytest.approx(other["masked_lm_loss"], rel=1e-5)
        assert one["replaced_tokens_loss"] == pytest.approx(other["replaced_tokens_loss"], rel=1e-4)
        assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-3)


def test_pretraining_goes_on_from_a_run_with_its_generator(data: str, run: Path, tmp_path: Path) -> None:
    options = {**TINY, "data": data, "steps": 1, "learning_rate": 0.0}
    del options["size"]
    again = Path(pretrain(**options, from_=str(run), out=str(tmp_path / "run")).run)
    for folder in ("model", "model/generator"):
        one, other = (load_file(each / folder / "model.safetensors") for each in (run, again))
        assert all(torch.equal(one[name], other[name]) for name in one), folder


def test_words_are_added_to_the_model_and_to_its_generator(data: str, run: Path, home: Path, workspace: Path) -> None:
    Path("words.txt").write_text("treehouse\ngreenhouse\n")
    add_words(add_words="words.txt", to=str(run), out="grown")
    assert load_file("grown/model.safetensors")[WORDS][-1].equal(
        load_file("grown/generator/model.safetensors")[WORDS][-1]
    )
    assert predict("the [MASK] sat", model="grown").records[0]["fills"]
    new = make_pretraining_data(
        str(home / "corpus.txt"), family="electra", tokenizer="grown", max_seq_length=48, out="new-data", workers=1
    ).out
    again = Path(pretrain(batch_size=8, data=new, steps=1, learning_rate=0.0, from_="grown").run) / "model"
    for folder in ("", "generator"):
        one, other = (load_file(each / folder / "model.safetensors") for each in (Path("grown"), again))
        assert all(torch.equal(one[name], other[name]) for name in one), folder


def test_the_generator_fills_masks_and_the_model_is_finetuned(run: Path, workspace: Path) -> None:
    (record,) = predict("the [MASK] sat", model=str(run)).records
    (alone,) = predict("the [MASK] sat", model=str(run / "model" / "generator")).records
    assert record["fills"] == alone["fills"]
    write_reviews(workspace / "reviews.csv", 40)
    assert finetune("reviews.csv", from_=str(run), epochs=1, baseline=False).metrics


class Classifier(torch.nn.Module):
    """The authors' head: one layer on the state of [CLS]."""

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__()
        self.electra = with_trained_padding(ElectraModel(config))
        self.classifier = torch.nn.Linear(config.hidden_size, 2)

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        return self.classifier(encode(self.electra, batch, batch.first_tokens))


def test_updates_of_fine_tuning_are_those_of_the_original() -> None:
    arrays = dict(np.load(GOLDENS / "electra" / "finetune" / "cola.npz"))
    saved = json.loads((GOLDENS / "electra" / "finetune" / "cola.json").read_text())
    more = {"embedding_size": saved["embedding_size"], "layer_norm_eps": 1e-12, "attn_implementation": PACKED}
    model = Classifier(ElectraConfig(**saved["bert_config"], **more)).eval()

    def weights(prefix: str) -> dict[str, torch.Tensor]:
        chosen = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
        named = {
            each.replace("task_specific.cola.dense", "classifier"): value
            for each, value in to_parameters(chosen).items()
        }
        return {name: torch.from_numpy(np.array(value)) for name, value in named.items()}

    assert not model.load_state_dict(weights("w/"), strict=False).unexpected_keys
    real = arrays["in/input_mask"][:3].astype(bool)  # the fourth is a padding example
    columns = (arrays[f"in/{name}"][:3][real].astype(np.int64) for name in ("input_ids", "segment_ids"))
    batch = pack(*columns, real.sum(1), np.arange(3))
    labels = torch.from_numpy(arrays["in/cola_label_ids"][:3]).long()
    rules = ELECTRA.finetuning_of(768)
    assert rules.layer_decay == saved["layerwise_lr_decay"]
    assert rules.warmup(34.3) == 34.3  # the original's is no whole number; that of others is
    assert BERT.finetuning_of(768).warmup(34.3) == 34
    optimizer = make_optimizer(model, "bert", WorkingCopy(model, torch.float32), rules)
    steps, warmup = saved["num_train_steps"], saved["num_train_steps"] * saved["warmup_proportion"]
    for step, wanted in enumerate(saved["lr_per_step_and_key"]):
        loss = cross_entropy(model(batch), labels)
        if step == 0:
            assert 3 * loss.item() == pytest.approx(float(arrays["out/total_loss"]), rel=1e-5)
        loss.backward()
        if step == 0:
            for name, gradient in weights("grad/").items():
                torch.testing.assert_close(3 * model.get_parameter(name).grad, gradient, atol=1e-5, rtol=1e-4)
        norm = optimizer.clip_by_global_norm(count=3.0)
        rate = learning_rate_at(step, saved["learning_rate"], steps, warmup, rules)
        for group in optimizer.param_groups:
            group["lr"] = rate * group["rate"]
        found = sorted({group["lr"] for group in optimizer.param_groups})
        assert found == pytest.approx(sorted({*wanted.values()}), rel=1e-5, abs=1e-12)
        assert step or 3 * norm.item() == pytest.approx(float(arrays["out/grad_global_norm"]), rel=1e-5)
        optimizer.step()
        optimizer.zero_grad()
    for name, value in weights("params_after_4/").items():
        torch.testing.assert_close(model.get_parameter(name).detach(), value, atol=1e-6, rtol=1e-5)


def test_a_generator_of_another_width_is_asked_for_or_refused(data: str, home: Path, run: Path, tmp_path: Path) -> None:
    made = Path(pretrain(**TINY, data=data, steps=1, generator_size=0.5, out=str(tmp_path / "run")).run)
    widths = [ElectraConfig.from_pretrained(each / "model" / "generator").hidden_size for each in (made, run)]
    assert widths == [64, 32]
    for options, wanted in (
        ({"data": str(home / "pretraining-data")}, "BERT has no generator"),
        ({"data": data, "from_": str(run)}, "is for new weights only"),
    ):
        with pytest.raises(UserError, match=wanted):
            pretrain(**TINY, **options, steps=1, generator_size=0.5, out=str(tmp_path / "other"))


def test_a_model_without_a_generator_gets_a_new_one_and_fills_no_masks(data: str, run: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    shutil.copytree(run / "model", alone, ignore=shutil.ignore_patterns("generator"))
    with pytest.raises(UserError, match="cannot fill"):
        predict("the [MASK] sat", model=str(alone))
    made = Path(
        pretrain(**{**TINY, "size": "base"}, data=data, steps=1, from_=str(alone), out=str(tmp_path / "run")).run
    )
    assert ElectraConfig.from_pretrained(made / "model" / "generator").hidden_size == 32


def test_text_that_is_cut_off_is_counted(home: Path, workspace: Path, said: pytest.LogCaptureFixture) -> None:
    Path("long.txt").write_text(" ".join(["the cat sat on the mat"] * 40) + "\n\n" + "a dog ran .\n" * 3)
    tokenizer = str(home / "vocab")
    options = {"family": "electra", "tokenizer": tokenizer, "max_seq_length": 32, "dupe_factor": 1, "workers": 1}
    made = make_pretraining_data("long.txt", **options)
    rows = pq.read_table("pretraining-data/shard-00000.parquet")["input_ids"].to_pylist()
    ids = [each for row in rows for each in row]
    special = {load_tokenizer(tokenizer).special(name) for name in ("cls", "sep")}
    kept = sum(each not in special for each in ids)
    assert made.unused_tokens == made.text_tokens - kept > 100
    assert "not used: " in said.text
    thrice = make_pretraining_data("long.txt", **{**options, "dupe_factor": 3}, out="thrice")
    assert 100 < thrice.unused_tokens <= thrice.text_tokens
