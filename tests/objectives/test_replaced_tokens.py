"""ELECTRA's data, masks, samples, losses and gradients are those of the authors' code."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import GOLDENS
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

from bertcli.data.packing.batches import PackedBatch, pack
from bertcli.data.pretraining.draws import Draws
from bertcli.data.pretraining.instances import InstanceRules, Instances
from bertcli.data.pretraining.masking import MaskingRules
from bertcli.data.pretraining.shards import load_pretraining_examples
from bertcli.data.text.corpus import tokenize
from bertcli.data.text.documents import read_documents
from bertcli.data.text.tokenization import WordPiece
from bertcli.families.electra import ELECTRA, generator_settings
from bertcli.lifecycle.make_pretraining_data import make_pretraining_data
from bertcli.models.formats.tensorflow_names import to_parameters
from bertcli.models.loading import with_trained_padding
from bertcli.models.model_with_loss import Detector
from bertcli.models.own.samples import put_samples, sample
from bertcli.models.packed import PACKED
from bertcli.models.working_copy import WorkingCopy
from bertcli.objectives.masked_lm import MLM
from bertcli.objectives.replaced_tokens import (
    DETECTION,
    Detection,
    mask_with_repeats,
    put_masks,
    share_embeddings,
    whole_lines,
)
from bertcli.training.optimizer import make_optimizer
from bertcli.training.plan import learning_rate_at

FOLDER = GOLDENS / "electra"
UNITS = json.loads((FOLDER / "units.json").read_text())
TEXTS = {
    "sample_text.txt": GOLDENS / "pretraining" / "sample_text.txt",
    "edge_text.txt": FOLDER / "dataset" / "edge_text.txt",
}
DATA = sorted(path.stem for path in (FOLDER / "dataset").glob("*.json"))


def rules_of(tokenizer: WordPiece, probability: float = 0.15, length: int = 128) -> InstanceRules:
    options = SimpleNamespace(masked_lm_prob=probability, max_seq_length=length)
    most = ELECTRA.data_defaults["max_predictions_per_seq"](options)
    masking = MaskingRules.of(tokenizer, probability, most, False, ELECTRA.data_defaults["mask_shares"])
    return InstanceRules(
        whole_lines, tokenizer, tokenizer.layout, masking, False, length, short_seq_prob=0.05, dupe_factor=1
    )


@pytest.mark.parametrize("name", DATA)
def test_instances_are_those_of_the_original(name: str, google_tokenizer: WordPiece) -> None:
    golden = json.loads((FOLDER / "dataset" / f"{name}.json").read_text())
    given = golden["params"]
    strip = None if given["strip_accents"] else False
    tokenizer = WordPiece(google_tokenizer.vocab, not given["do_lower_case"], "golden", strip)
    files = [TEXTS[file] for file in given["files_in_order"]]
    documents = read_documents(files, blanks_separate=given["blanks_separate_docs"])
    corpus, draws = tokenize(documents, tokenizer), Draws(given["seed"])
    rules = rules_of(tokenizer, length=given["max_seq_length"])
    instances = Instances(corpus, replace(rules, dupe_factor=given["passes"]))
    columns = instances.columns(np.array(whole_lines(instances, draws)))
    bounds = list(zip(columns.offsets, columns.offsets[1:], strict=False))
    made = [
        {"ids": columns.input_ids[start:end].tolist(), "n_a": int((columns.token_type_ids[start:end] == 0).sum())}
        for start, end in bounds
    ]
    assert made == golden["examples"]
    assert draws.random() == golden["random_after"]


@pytest.mark.parametrize("name", DATA)
def test_the_command_writes_these_instances(name: str, tmp_path: Path, google_tokenizer: WordPiece) -> None:
    golden = json.loads((FOLDER / "dataset" / f"{name}.json").read_text())
    given = golden["params"]
    options = {each: given[each] for each in ("seed", "max_seq_length", "blanks_separate_docs")}
    strip = None if given["strip_accents"] else False
    WordPiece(google_tokenizer.vocab, not given["do_lower_case"], "golden", strip).save(tmp_path / "vocab")
    files = [str(TEXTS[file]) for file in given["files_in_order"]]
    places = {"tokenizer": str(tmp_path / "vocab"), "out": str(tmp_path / "data"), "workers": 1}
    made = make_pretraining_data(files, family="electra", dupe_factor=given["passes"], **options, **places)
    read = load_pretraining_examples(made.out, 0).take(np.arange(made.instances))
    ends = read.lengths.cumsum()[:-1]
    rows = zip(np.split(read.input_ids, ends), np.split(read.token_type_ids, ends), strict=True)
    wanted = [(row["ids"], row["n_a"]) for row in golden["examples"]]
    assert [(ids.tolist(), int((types == 0).sum())) for ids, types in rows] == wanted


def test_as_many_tokens_are_masked_as_in_the_original(google_tokenizer: WordPiece) -> None:
    for probability, length, wanted in UNITS["num_to_predict"]:
        rules = rules_of(google_tokenizer, probability, length).masking
        assert [[given, rules.num_to_predict(given)] for given, _ in wanted] == wanted
    for probability, length, most in UNITS["max_predictions_per_seq"]:
        assert rules_of(google_tokenizer, probability, length).masking.max_predictions_per_seq == most


def test_the_share_that_is_masked_is_rounded_in_float32(google_tokenizer: WordPiece) -> None:
    rules, lengths = rules_of(google_tokenizer, 0.15, 512).masking, np.array([190, 350, 390])  # 28.5 and so on
    ids = np.random.default_rng(0).integers(1000, 2000, lengths.sum())
    positions, _ = mask_with_repeats(ids, np.arange(3), lengths, rules, 0)
    rows = np.searchsorted(lengths.cumsum(), positions, side="right")
    assert np.bincount(rows).tolist() == [29, 53, 59]


def test_masks_are_drawn_with_replacement_from_what_is_no_special_token(google_tokenizer: WordPiece) -> None:
    rules = rules_of(google_tokenizer, 0.5, 60).masking
    lengths, rows = np.array([60, 20, 3]), np.array([7, 1, 4])
    ids = np.random.default_rng(0).integers(1000, 2000, lengths.sum())
    starts = np.cumsum(lengths) - lengths
    ids[starts], ids[starts + lengths - 1], ids[5] = rules.cls_id, rules.sep_id, rules.mask_id
    fixed = np.isin(ids, (rules.cls_id, rules.sep_id, rules.mask_id))
    before, masked, repeats = ids.copy(), np.zeros(0), 0
    for key in range(40):
        now = before.copy()
        positions, originals = mask_with_repeats(now, rows, lengths, rules, key)
        assert (originals == before[positions]).all()
        assert not fixed[positions].any()
        assert len(positions) == sum(map(rules.num_to_predict, lengths.tolist()))
        untouched = np.setdiff1d(np.arange(len(ids)), positions)
        assert (now[untouched] == before[untouched]).all()
        masked = np.append(masked, now[positions] == rules.mask_id)
        repeats += len(positions) - len(np.unique(positions))
        alone = before[60:80].copy()
        own, _ = mask_with_repeats(alone, rows[1:2], lengths[1:2], rules, key)
        assert (alone == now[60:80]).all()
        assert own.tolist() == (positions[(positions >= 60) & (positions < 80)] - 60).tolist()
    assert repeats > 100
    assert 0.85 < masked.mean() < 0.92  # one draw of two is enough


def test_samples_are_those_of_the_original() -> None:
    unit = UNITS["sample_from_softmax"]
    logits, uniform, never = (torch.tensor(unit[name]) for name in ("logits", "uniform", "disallowed_ids"))
    flat = (logits.flatten(0, 1), uniform.flatten(0, 1))
    options = {"plain": {}, "temp_0.25": {"temperature": 0.25}, "disallow": {"never": never.flatten()}}
    for name, given in options.items():
        assert sample(*flat, **given).view(2, 3).tolist() == unit["sampled"][name]
    unit = {name: torch.tensor(value) for name, value in UNITS["scatter_update"].items()}
    wanted, (rows, length) = unit["positions"], unit["sequence"].shape
    is_drawn = wanted > 0
    places = (wanted + length * torch.arange(rows)[:, None])[is_drawn]
    found = put_samples(unit["sequence"].flatten(), places, unit["updates"][is_drawn])
    assert torch.equal(found.view(rows, length), unit["out"])


def test_one_draw_a_token_samples_as_gumbel_noise_does() -> None:
    logits, count = torch.tensor([0.3, -2.0, 1.5, 0.0, 2.2]), 20_000
    draws = torch.from_numpy(np.random.default_rng(0).random((count, 6)))
    for options in ({}, {"temperature": 0.5}, {"never": torch.full((count,), 4)}):
        many = logits.repeat(count, 1)
        samples = (sample(many, draws[:, 0], **options), sample(many, draws[:, 1:].float(), **options))
        np.testing.assert_allclose(*(np.bincount(tokens, minlength=5) / count for tokens in samples), atol=0.015)


PLACES = {
    "electra.": "model.electra.",
    "discriminator_predictions.": "model.discriminator_predictions.",
    "generator.": "generator.electra.",
    "generator_predictions.": "generator.generator_predictions.",
}


def of_detector(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, torch.Tensor]:
    """The weights of a Detector by the names of the original's variables."""
    found = {}
    chosen = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
    for name, value in to_parameters(chosen).items():
        name = name.replace("generator_predictions.output_bias", "generator.generator_lm_head.bias")
        place = next((place for place in PLACES if name.startswith(place)), "")
        name = PLACES[place] + name.removeprefix(place) if "lm_head" not in name else name
        found[name.replace("dense_1", "dense_prediction")] = torch.from_numpy(np.array(value))
    return found


class Golden:
    """A golden of the pre-training model: its batch with its draws, and a Detector with its weights."""

    def __init__(self, name: str) -> None:
        self.arrays = dict(np.load(FOLDER / "pretrain" / f"{name}.npz"))
        self.saved = json.loads((FOLDER / "pretrain" / f"{name}.json").read_text())
        self.config = self.saved["config"]
        self.real = self["in/input_mask"].bool()
        self.weights = self["out/masked_lm_weights"].bool()

    def __getitem__(self, name: str) -> torch.Tensor:
        return torch.from_numpy(self.arrays[name])

    @property
    def objective(self) -> Detection:
        options = {"temperature": "temperature", "never_right": "disallow_correct", "weight": "disc_weight"}
        return replace(DETECTION, **{name: self.config[own] for name, own in options.items()})

    def settings(self, of: str) -> ElectraConfig:
        more = {"embedding_size": self.config["embedding_size"], "layer_norm_eps": 1e-12, "pad_token_id": 0}
        return ElectraConfig(**self.saved[of], **more, attn_implementation=PACKED)

    def detector(self, weights: dict[str, torch.Tensor]) -> Detector:
        model = with_trained_padding(ElectraForPreTraining(self.settings("disc_bert_config")))
        settings = self.settings("generator_bert_config")
        if self.config["untied_generator_embeddings"]:
            settings.embedding_size = settings.hidden_size
        generator = with_trained_padding(ElectraForMaskedLM(settings))
        if not self.config["untied_generator"]:
            generator = with_trained_padding(ElectraForMaskedLM(model.config))
            generator.electra = model.electra
        if not self.config["untied_generator_embeddings"]:
            share_embeddings(model, generator)
        detector = Detector(model, generator, self.objective.outputs, self.objective.losses).eval()
        missing, unexpected = detector.load_state_dict(weights, strict=False)
        assert not unexpected
        assert not {name for name, _ in detector.named_parameters()} & {*missing}
        return detector

    def batch(self) -> PackedBatch:
        """The masked batch, packed; the numbers that the original was fed make its masks and samples."""
        lengths = self.real.sum(1)
        assert (lengths.diff() <= 0).all()
        ids = self["in/input_ids"][self.real].long().numpy()
        types = self["in/segment_ids"][self.real].long().numpy()
        starts = (lengths.cumsum(0) - lengths)[:, None]
        positions = (self["in/position_draws"] + starts)[self.weights].long()
        labels = {"masked_lm_positions": positions, "masked_lm_ids": torch.from_numpy(ids[positions.numpy()])}
        labels["sample_draws"] = self["in/gumbel_uniform"][self.weights]
        draw = self.arrays["in/mask_uniform"][self.weights.numpy()]
        put_masks(ids, positions.numpy(), TINY_RULES, draw, np.zeros_like(draw))
        assert ids.tolist() == self["out/masked_input_ids"][self.real].tolist()
        assert labels["masked_lm_ids"].tolist() == self["out/masked_lm_ids"][self.weights].tolist()
        packed = pack(ids, types, lengths.numpy(), np.arange(len(lengths)), labels)
        return replace(packed, counts={"masked_lm": len(positions), "replaced_tokens": len(ids)})


TINY_RULES = SimpleNamespace(shares=(85, 15, 0), vocab_ids=range(40), mask_id=4)
DEFAULT = Golden("default")
WEIGHTS = {name: Golden(name) for name in ("default", "untied_embeddings", "tied_all")}
WEIGHTS["disallow_temp"] = DEFAULT


def loss_of(detector: Detector, batch: PackedBatch) -> torch.Tensor:
    """The original adds 1e-6 to what it divides by."""
    return sum(loss / (batch.counts[name] + 1e-6) for name, loss in detector(batch).items())


@pytest.mark.parametrize("name", WEIGHTS)
def test_samples_losses_and_gradients_are_those_of_the_original(name: str) -> None:
    golden = Golden(name)
    detector, batch = golden.detector(of_detector(WEIGHTS[name].arrays, "w/")), golden.batch()
    outputs = detector.outputs(batch)
    assert outputs["is_replaced"].tolist() == golden["out/disc_labels"][golden.real].tolist()
    close = {"atol": 1e-5, "rtol": 1e-5}
    torch.testing.assert_close(outputs["masked_lm"], golden["out/mlm_logits"][golden.weights], **close)
    torch.testing.assert_close(outputs["replaced_tokens"][:, 1], golden["out/disc_logits"][golden.real], **close)
    losses, (generated, detected) = detector.losses(outputs, batch), batch.counts.values()
    torch.testing.assert_close(losses["masked_lm"] / generated, golden["out/mlm_loss"], **close)
    weight = golden.config["disc_weight"]
    torch.testing.assert_close(losses["replaced_tokens"] / detected / weight, golden["out/disc_loss"], **close)
    total = loss_of(detector, batch)
    torch.testing.assert_close(total, golden["out/total_loss"], **close)
    total.backward()
    gradients = {each: weight.grad for each, weight in detector.named_parameters()}
    norm = torch.stack([gradient.norm() for gradient in gradients.values()]).norm()
    torch.testing.assert_close(norm.double(), golden["out/grad_global_norm"], **close)
    wanted = of_detector(golden.arrays, "grad/")
    for each, gradient in gradients.items() if wanted else ():
        torch.testing.assert_close(gradient, wanted[each], atol=1e-5, rtol=1e-4, msg=f"{each}: {{}}".format)


def test_updates_are_those_of_the_original() -> None:
    detector, batch, config = DEFAULT.detector(of_detector(DEFAULT.arrays, "w/")), DEFAULT.batch(), DEFAULT.config
    optimizer = make_optimizer(detector, "bert", WorkingCopy(detector, torch.float32), ELECTRA.optimizer)
    for step, wanted in enumerate(DEFAULT["out/step_losses"]):
        loss = loss_of(detector, batch)
        torch.testing.assert_close(loss, wanted, atol=1e-5, rtol=1e-5)
        loss.backward()
        optimizer.clip_by_global_norm()
        steps = (config["num_train_steps"], config["num_warmup_steps"])
        for group in optimizer.param_groups:
            group["lr"] = learning_rate_at(step, config["learning_rate"], *steps, ELECTRA.optimizer)
        optimizer.step()
        optimizer.zero_grad()
    wanted = of_detector(DEFAULT.arrays, "params_after_6/")
    for name, weight in detector.named_parameters():
        close = (
            1e-5 if name.endswith("key.bias") else 2e-6
        )  # its gradient is 0 but for rounding; some others are nearly so
        torch.testing.assert_close(weight.detach(), wanted[name], atol=close, rtol=1e-5, msg=f"{name}: {{}}".format)


def test_without_a_discriminator_it_is_masked_lm() -> None:
    golden = Golden("mlm_only")
    model = with_trained_padding(ElectraForMaskedLM(golden.settings("disc_bert_config")))
    of_model = MLM.with_loss(model).eval()
    weights = {f"model.{name.partition('.')[2]}": value for name, value in of_detector(golden.arrays, "w/").items()}
    assert not of_model.load_state_dict(weights, strict=False).unexpected_keys
    loss = of_model(batch := golden.batch())["masked_lm"] / batch.counts["masked_lm"]
    torch.testing.assert_close(loss, golden["out/mlm_loss"], atol=1e-5, rtol=1e-5)
    loss.backward()
    for name, wanted in of_detector(golden.arrays, "grad/").items():
        gradient = of_model.get_parameter(f"model.{name.partition('.')[2]}").grad
        torch.testing.assert_close(gradient, wanted, atol=1e-5, rtol=1e-4)


def test_a_generator_is_as_wide_as_in_the_original() -> None:
    for size, wanted in UNITS["sizes"].items():
        config = ELECTRA.new_config(size)
        ours = {name: getattr(config, name) for name in wanted["discriminator"]}
        assert ours == wanted["discriminator"]
        assert config.embedding_size == wanted["embedding_size"]
        for fraction in ("0.25", "1.0"):
            assert generator_settings(ELECTRA.get_size(size), float(fraction)) == wanted[f"generator_{fraction}"]
    third = generator_settings(ELECTRA.get_size("base"), 0.33333)
    assert third == UNITS["sizes"]["base"]["generator_0.33333"] == ELECTRA.new_config("base").generator_settings
