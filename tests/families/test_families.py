"""Relatives of BERT are run too: packed where their attention is transformers' own, else padded, which is said."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tokenizers import ByteLevelBPETokenizer, SentencePieceUnigramTokenizer
from tokenizers.processors import RobertaProcessing, TemplateProcessing

from bertcli.data.labelled.official_files import TextExamples
from bertcli.data.labelled.squad import SpanExample
from bertcli.data.packing.batches import PackedBatch, pack
from bertcli.data.packing.span_answers import TextFinder
from bertcli.data.packing.span_features import WindowRules, encode_spans
from bertcli.data.packing.text_features import encode_texts
from bertcli.data.text.tokenization import load_tokenizer, load_wordpiece
from bertcli.errors import UserError
from bertcli.kinds.architecture import load, with_loss
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.predict import predict
from bertcli.models.dropout import set_dropout
from bertcli.models.encoder import NO_END, encode, encode_layers, longest_input
from bertcli.models.heads import tag_outputs
from bertcli.models.packed import PACKED
from bertcli.models.working_copy import WorkingCopy
from tests.models.test_packed import pad

SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 32,
    "num_labels": 2,
    "pad_token_id": 0,
}
CONFIGS = {
    "Bert": SIZES,
    "Roberta": {**SIZES, "type_vocab_size": 1, "pad_token_id": 1},
    "XLMRoberta": {**SIZES, "type_vocab_size": 1},
    "Electra": {**SIZES, "embedding_size": 16},
    "Albert": {**SIZES, "embedding_size": 16},
    "Ernie": SIZES,
    "DistilBert": {
        "vocab_size": 50,
        "dim": 32,
        "n_layers": 2,
        "n_heads": 4,
        "hidden_dim": 64,
        "max_position_embeddings": 32,
    },
    "FNet": SIZES,
    "ModernBert": {**SIZES, "bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3},
    "ConvBert": {**SIZES, "embedding_size": 16},
    "MobileBert": {**SIZES, "intra_bottleneck_size": 32, "embedding_size": 16},
    "Xmod": {**SIZES, "languages": ["en_XX", "de_DE"]},
    "RobertaPreLayerNorm": {**SIZES, "type_vocab_size": 1},
    "XLMRobertaXL": {**SIZES, "type_vocab_size": 1},
    "Data2VecText": {**SIZES, "type_vocab_size": 1},
}
BART = {
    "vocab_size": 50,
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
}
IS_PADDED = ("ConvBert", "MobileBert", "FNet", "ModernBert", "Xmod")
HEADS = {
    "classify": "SequenceClassification",
    "choose": "MultipleChoice",
    "tag": "TokenClassification",
    "span": "QuestionAnswering",
}
LENGTHS = [17, 9, 9, 5, 2]


def save(family: str, kind: str, folder: Path) -> torch.nn.Module:
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**CONFIGS[family])
    model = getattr(transformers, f"{family}For{HEADS[kind]}")(config).eval()
    model.save_pretrained(folder)
    return model


def make_batch(labels: dict[str, torch.Tensor], has_types: bool) -> tuple[PackedBatch, dict[str, torch.Tensor]]:
    generator = np.random.default_rng(1)
    ids = [generator.integers(5, 50, length) for length in LENGTHS]
    types = [(np.arange(length) > length // 2).astype(np.int64) for length in LENGTHS]
    packed = pack(np.concatenate(ids), np.concatenate(types), np.array(LENGTHS), np.arange(5))
    packed = PackedBatch(**{**packed.__dict__, "labels": labels})
    padded = {"input_ids": pad(ids), "attention_mask": pad([np.ones_like(row) for row in ids])}
    return packed, {**padded, **({"token_type_ids": pad(types)} if has_types else {})}


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("family", CONFIGS)
def test_outputs_equal_those_of_the_familys_own_padded_model(
    family: str, kind: str, tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    theirs = save(family, kind, tmp_path)
    ours = load(kind, str(tmp_path))
    assert (ours.config._attn_implementation == PACKED) == (family not in IS_PADDED)
    assert ("batches are padded" in said.text) == (family in IS_PADDED)
    assert ("language: en_XX" in said.text) == (family == "Xmod")
    if family == "Xmod":
        theirs.set_default_language("en_XX")
    objective = with_loss(ours, kind).eval()
    words = [(0, 1), (0, 5), (1, 2), (2, 1), (2, 7), (4, 1)]  # (sequence, position)
    starts = np.cumsum(LENGTHS) - LENGTHS
    labels = {
        "choice_sequences": torch.tensor([[1, 2]]),
        "word_positions": torch.tensor([starts[sequence] + place for sequence, place in words]),
    }
    batch, padded = make_batch(labels, getattr(ours.config, "type_vocab_size", 0) > 1)
    if theirs.config.pad_token_id == 1:  # what fills a row up, and is not to be taken for a token
        padded["input_ids"] = padded["input_ids"].masked_fill(padded["attention_mask"] == 0, 1)
    outputs = objective.outputs(batch)
    with torch.no_grad():
        if kind == "choose":
            padded = {name: value[[1, 2]][None] for name, value in padded.items()}
        wanted = theirs(**padded)
    if kind == "span":
        for side, logits in (("start", wanted.start_logits), ("end", wanted.end_logits)):
            expected = logits.masked_fill(padded["attention_mask"] == 0, -torch.inf)
            torch.testing.assert_close(outputs[side], expected, atol=1e-5, rtol=1e-4)
        return
    expected = torch.stack([wanted.logits[row, place] for row, place in words]) if kind == "tag" else wanted.logits
    torch.testing.assert_close(outputs["logits"], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("family", [family for family in CONFIGS if family not in IS_PADDED])
def test_gradients_equal_those_of_the_familys_own_padded_model(family: str, tmp_path: Path) -> None:
    theirs = save(family, "tag", tmp_path).train()
    ours = load("tag", str(tmp_path)).train()
    for model in (ours, theirs):
        set_dropout(model, 0.0)
        for module in model.modules():
            if hasattr(module, "dropout_prob"):  # ALBERT's rate for its attention
                module.dropout_prob = 0.0
    words = torch.arange(0, sum(LENGTHS), 3)
    batch, padded = make_batch({"word_positions": words}, getattr(ours.config, "type_vocab_size", 0) > 1)
    there = padded["attention_mask"].bool()
    if theirs.config.pad_token_id == 1:
        padded["input_ids"] = padded["input_ids"].masked_fill(~there, 1)
    given = torch.randn(len(words), 2)
    (tag_outputs(with_loss(ours, "tag").model, batch)["logits"] * given).sum().backward()
    (theirs(**padded).logits[there][words] * given).sum().backward()
    wanted = dict(theirs.named_parameters())
    for name, weight in ours.named_parameters():
        assert (weight.grad is None) == (wanted[name].grad is None), name
        if weight.grad is not None:
            torch.testing.assert_close(
                weight.grad, wanted[name].grad, atol=1e-5, rtol=1e-4, msg=lambda m, n=name: f"{n}: {m}"
            )


def test_in_bfloat16_positions_stay_as_precise_as_in_transformers(tmp_path: Path) -> None:
    save("ModernBert", "classify", tmp_path)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path, dtype=torch.bfloat16)
    copy = WorkingCopy(with_loss(load("classify", str(tmp_path)), "classify"), torch.bfloat16).module
    batch, padded = make_batch({}, has_types=False)
    for ours, wanted in zip(copy.model.buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(ours, wanted)
    torch.testing.assert_close(copy.eval().outputs(batch)["logits"], theirs.eval()(**padded).logits.detach())


def test_a_fourier_transform_is_made_in_float32(tmp_path: Path) -> None:
    save("FNet", "classify", tmp_path)
    objective = with_loss(load("classify", str(tmp_path)), "classify").eval()
    batch, _ = make_batch({"labels": torch.zeros(5, dtype=torch.long)}, has_types=True)
    copy = WorkingCopy(objective, torch.bfloat16)
    wanted = objective.outputs(batch)["logits"]
    torch.testing.assert_close(copy.module.outputs(batch)["logits"].float(), wanted, atol=0.02, rtol=0.02)
    copy.module(batch)["loss"].backward()


@pytest.mark.parametrize("family", ["DistilBert", "ConvBert"])
def test_every_hidden_state_of_every_token_is_there(family: str, tmp_path: Path) -> None:
    theirs = save(family, "classify", tmp_path)
    ours = load("classify", str(tmp_path)).eval()
    batch, padded = make_batch({}, family == "ConvBert")
    with torch.no_grad():
        states = encode_layers(ours, batch)
        wanted = theirs.base_model(**padded, output_hidden_states=True).hidden_states
        last = encode(ours, batch, batch.first_tokens)
    there = padded["attention_mask"].bool()
    for state, expected in zip(states, wanted, strict=True):
        torch.testing.assert_close(state, expected[there], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(last, wanted[-1][:, 0], atol=1e-5, rtol=1e-4)


def save_bytes(folder: Path) -> None:
    """RoBERTa's kind of tokenizer, learnt from the words below."""
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    backend = ByteLevelBPETokenizer()
    backend.train_from_iterator(SENTENCES * 20, vocab_size=300, special_tokens=names)
    backend._tokenizer.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend._tokenizer,
        cls_token="<s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
    ).save_pretrained(folder)


def save_sentence_pieces(folder: Path) -> None:
    """ALBERT's kind of tokenizer."""
    names = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    backend = SentencePieceUnigramTokenizer()
    backend.train_from_iterator(SENTENCES * 20, vocab_size=60, special_tokens=names, unk_token="<unk>")
    backend._tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend._tokenizer,
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="[MASK]",
    ).save_pretrained(folder)


def test_a_model_takes_as_many_tokens_as_it_has_positions_for() -> None:
    found = {}
    for family in ("Bert", "Roberta", "MPNet", "Longformer", "IBert", "Luke", "Esm"):
        config = getattr(transformers, f"{family}Config")(**{**SIZES, "pad_token_id": 1})
        found[family] = longest_input(transformers.AutoModel.from_config(config))
    assert found == {**dict.fromkeys(found, 30), "Bert": 32}
    endless = transformers.XLNetConfig(vocab_size=50, d_model=32, n_layer=1, n_head=4, d_inner=64)
    assert longest_input(transformers.AutoModel.from_config(endless)) == NO_END


@pytest.mark.parametrize(("family", "head"), [("MobileBert", "PreTraining"), ("Bart", "QuestionAnswering")])
def test_of_all_that_a_padded_model_gives_the_logits_of_tokens_are_taken(
    family: str, head: str, tmp_path: Path
) -> None:
    config = getattr(transformers, f"{family}Config")(**CONFIGS.get(family, BART))
    theirs = getattr(transformers, f"{family}For{head}")(config).eval()
    theirs.save_pretrained(tmp_path)
    batch, padded = make_batch({"masked_lm_positions": torch.arange(17)}, has_types=False)
    batch = replace(batch, token_type_ids=torch.zeros_like(batch.token_type_ids))
    kind, ours, name = (
        ("fill", "masked_lm", "prediction_logits") if head == "PreTraining" else ("span", "start", "start_logits")
    )
    outputs = with_loss(load(None, str(tmp_path)), kind).eval().outputs(batch)[ours]
    with torch.no_grad():
        wanted = theirs(**padded)[name][0]
    torch.testing.assert_close(outputs if kind == "fill" else outputs[0], wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("family", ["Bart", "Funnel"])
def test_layers_without_a_hidden_state_of_each_token_are_refused(family: str) -> None:
    sizes = {"vocab_size": 50, "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 64, "block_sizes": [1, 1]}
    config = getattr(transformers, f"{family}Config")(**{"Bart": BART, "Funnel": sizes}[family])
    with pytest.raises(UserError, match=f"Not every layer of a {family.lower()}"):
        encode_layers(getattr(transformers, f"{family}Model")(config).eval(), make_batch({}, has_types=False)[0])


@pytest.mark.parametrize("family", ["ConvBert", "MobileBert", "FNet"])
def test_a_padded_model_is_filled_up_with_its_own_padding_which_learns_nothing(family: str, tmp_path: Path) -> None:
    config = getattr(transformers, f"{family}Config")(**{**CONFIGS[family], "pad_token_id": 3})
    theirs = getattr(transformers, f"{family}ForSequenceClassification")(config)
    theirs.save_pretrained(tmp_path)
    objective = with_loss(load("classify", str(tmp_path)), "classify").eval()
    batch, padded = make_batch({"labels": torch.zeros(5, dtype=torch.long)}, has_types=True)
    padded["input_ids"] = padded["input_ids"].masked_fill(padded["attention_mask"] == 0, 3)
    wanted = theirs.eval()(**padded).logits.detach()
    torch.testing.assert_close(objective.outputs(batch)["logits"], wanted, atol=1e-5, rtol=1e-4)
    objective(batch)["loss"].backward()
    assert (objective.model.get_input_embeddings().weight.grad[3] == 0).all()


def test_a_head_that_fills_has_a_loss(tmp_path: Path) -> None:
    transformers.RobertaForMaskedLM(transformers.RobertaConfig(**CONFIGS["Roberta"])).save_pretrained(tmp_path)
    places, ids = torch.tensor([1, 4, 20]), torch.tensor([7, 9, 11])
    batch, _ = make_batch({"masked_lm_positions": places, "masked_lm_ids": ids}, has_types=False)
    objective = with_loss(load(None, str(tmp_path)), "fill").eval()
    logits = objective.outputs(batch)["masked_lm"]
    wanted = torch.nn.functional.cross_entropy(logits, ids, reduction="sum")
    torch.testing.assert_close(objective(batch)["masked_lm"].detach(), wanted)


def change_config(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize("saved", [{"return_dict": False}, {"output_attentions": True}, {"output_hidden_states": True}])
def test_what_a_saved_model_was_to_give_besides_its_logits_changes_nothing(
    saved: dict[str, bool], tmp_path: Path
) -> None:
    save("Bert", "tag", tmp_path)
    batch, _ = make_batch({"word_positions": torch.arange(17)}, has_types=True)
    wanted = with_loss(load("tag", str(tmp_path)), "tag").eval().outputs(batch)["logits"]
    change_config(tmp_path, **saved)
    found = with_loss(load("tag", str(tmp_path)), "tag").eval().outputs(batch)["logits"]
    torch.testing.assert_close(found, wanted)


def test_a_decoder_is_padded_and_its_tokens_see_what_is_before_them_only(
    tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    save("Bert", "tag", tmp_path)
    change_config(tmp_path, is_decoder=True)
    theirs = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path)
    batch, padded = make_batch({"word_positions": torch.arange(17)}, has_types=True)
    found = with_loss(load("tag", str(tmp_path)), "tag").eval().outputs(batch)["logits"]
    assert "is a bert decoder: its batches are padded" in said.text
    torch.testing.assert_close(found, theirs(**padded).logits[0].detach(), atol=1e-5, rtol=1e-4)


def test_what_transformers_cannot_open_is_one_error(tmp_path: Path) -> None:
    save("Bert", "classify", tmp_path / "heads")
    change_config(tmp_path / "heads", num_attention_heads=5)
    canine = transformers.CanineConfig(**{**SIZES, "num_hash_buckets": 64})
    transformers.CanineForSequenceClassification(canine).save_pretrained(tmp_path / "canine")
    for name, why in (("heads", "not a multiple of the number of attention heads"), ("canine", "get_input_embeddings")):
        with pytest.raises(UserError, match=f"cannot be opened: .*{why}"):
            load("classify", str(tmp_path / name))


SENTENCES = ["the king rode out", "the ship sank", "The Queen, in Rome, saw it."]
OTHER_TOKENIZERS = {"Roberta": save_bytes, "Albert": save_sentence_pieces}


@pytest.mark.parametrize("family", OTHER_TOKENIZERS)
def test_inputs_are_those_of_the_relatives_own_tokenizer(family: str, tmp_path: Path) -> None:
    OTHER_TOKENIZERS[family](tmp_path)
    theirs, ours = transformers.AutoTokenizer.from_pretrained(tmp_path), load_tokenizer(tmp_path)
    texts = TextExamples(SENTENCES, SENTENCES[::-1], origin="here")
    for examples in (texts, replace(texts, pairs=None)):
        features = encode_texts(examples, ours, 512, None)
        wanted = theirs(examples.texts, examples.pairs)["input_ids"]
        assert [features.input_ids.take(np.array([row]))[0].tolist() for row in range(3)] == wanted
    theirs.backend_tokenizer.enable_padding(length=40)
    theirs.backend_tokenizer.enable_truncation(2)
    theirs.save_pretrained(tmp_path / "padded")
    assert load_tokenizer(tmp_path / "padded").encode_ids(SENTENCES) == ours.encode_ids(SENTENCES)
    ours.save(tmp_path / "again")
    assert load_tokenizer(tmp_path / "again").digest == ours.digest
    with pytest.raises(UserError, match="not a WordPiece tokenizer"):
        load_wordpiece(tmp_path)


@pytest.mark.parametrize("family", OTHER_TOKENIZERS)
def test_an_answer_is_spelt_as_in_its_context(family: str, tmp_path: Path) -> None:
    OTHER_TOKENIZERS[family](tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    example = SpanExample("q", "who rode", ["The", "Queen,", "in", "Rome,", "saw", "it."], "Rome", 3, 3)
    (window,) = encode_spans([example], tokenizer, WindowRules(), training=True).windows
    finder = TextFinder(tokenizer)
    said = finder.find(window.tokens[window.start_position : window.end_position + 1], "Rome,")
    assert said in ("Rome", "Rome,")
    assert finder.find(["x"], "Rome,") == "Rome,"


@pytest.mark.parametrize("family", OTHER_TOKENIZERS)
def test_such_a_relative_is_finetuned_and_predicts(family: str, workspace: Path) -> None:
    OTHER_TOKENIZERS[family](Path("start"))
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**{**CONFIGS[family], "vocab_size": 300})
    getattr(transformers, f"{family}ForMaskedLM")(config).save_pretrained("start")
    assert len(predict("the [MASK] sank", model="start").records[0]["fills"]) == 5
    assert predict("the ship " * 200, model="start", features="states.npz").count == 1  # cut to the positions it has
    Path("nouns.tsv").write_text("text\tlabel\n" + "the king rode out\tking\nthe ship sank\tship\n" * 20)
    run = finetune("nouns.tsv", from_="start", epochs=20, learning_rate=3e-3, max_seq_length=30)
    assert run.metrics["accuracy"] == 100
    assert [row["label"] for row in predict("the king rode out", model=run.run).records] == ["king"]
    Path("tags.txt").write_text("the O\nking B-PER\nrode O\n\nthe O\nship B-MISC\nsank O\n\n" * 20)
    run = finetune("tags.txt", from_="start", epochs=20, learning_rate=3e-3, max_seq_length=30)
    assert run.metrics["f1"] == 100
    (record,) = predict("the ship sank", model=run.run).records
    assert [(entity["text"], entity["label"]) for entity in record["entities"]] == [("ship", "MISC")]


@pytest.mark.slow
def test_two_processes_train_a_relative_that_does_not_read_all_its_weights(workspace: Path) -> None:
    Path("words.txt").write_text("the king rode out\nthe ship sank\n" * 50)
    build_vocab("words.txt", vocab_size=40, out="start")
    transformers.BigBirdForMaskedLM(transformers.BigBirdConfig(**SIZES, block_size=4)).save_pretrained("start")
    Path("nouns.tsv").write_text("text\tlabel\n" + "the king rode out\tking\nthe ship sank\tship\n" * 10)
    run = finetune("nouns.tsv", from_="start", epochs=2, batch_size=8, max_seq_length=30, processes=2)
    assert run.steps == 4


@pytest.mark.parametrize("family", ["Electra", "DistilBert", "ConvBert"])
def test_a_relative_is_finetuned_and_predicts(family: str, workspace: Path) -> None:
    Path("words.txt").write_text("the king rode out\nthe ship sank\n" * 50)
    build_vocab("words.txt", vocab_size=40, out="start")
    save(family, "classify", Path("start"))
    Path("nouns.tsv").write_text("text\tlabel\n" + "the king rode out\tking\nthe ship sank\tship\n" * 20)
    run = finetune("nouns.tsv", from_="start", epochs=20, learning_rate=3e-3, max_seq_length=30)
    assert run.metrics["accuracy"] == 100
    assert [row["label"] for row in predict("the king rode out", model=run.run).records] == ["king"]
