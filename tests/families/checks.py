"""Small models of any family, and checks that they run here as in transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch.nn.utils.rnn import pad_sequence

from bertcli.data.packing.batches import PackedBatch, pack
from bertcli.families import family_of
from bertcli.kernels import prepack
from bertcli.lifecycle.build_vocab import build_vocab
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.predict import predict
from bertcli.models.dropout import set_dropout
from bertcli.models.heads import word_logits
from bertcli.models.packed import is_packed, reads_last
from tests.support import load, with_loss

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
DISTILBERT = {  # the same sizes by its names
    "vocab_size": 50,
    "dim": 32,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 64,
    "max_position_embeddings": 32,
}
KINDS = {
    "classify": "SequenceClassification",
    "choose": "MultipleChoice",
    "tag": "TokenClassification",
    "span": "QuestionAnswering",
}
LENGTHS = [17, 9, 9, 5, 2]


def save(name: str, config: dict[str, Any], head: str, folder: Path) -> Any:
    """Save a model of transformers with new weights; `name` is how its classes begin, `head` how they end."""
    torch.manual_seed(0)
    head = head if hasattr(transformers, f"{name}{head}") else f"For{head}"
    model = getattr(transformers, f"{name}{head}")(getattr(transformers, f"{name}Config")(**config)).eval()
    model.save_pretrained(folder)
    return model


def objective_of(kind: str, folder: Path, head: str | None = None) -> Any:
    """A saved model of a kind with its loss; with the head that was saved if `head` says which kind's outputs it has."""
    return with_loss(load(None if head else kind, str(folder)), head or kind).eval()


def make_batch(
    labels: dict[str, torch.Tensor], has_types: bool, side: str = "right"
) -> tuple[PackedBatch, dict[str, torch.Tensor]]:
    """Five sequences, packed, and the same padded."""
    generator = np.random.default_rng(1)
    ids = [generator.integers(5, 50, length) for length in LENGTHS]
    types = [(np.arange(length) > length // 2).astype(np.int64) for length in LENGTHS]
    packed = pack(np.concatenate(ids), np.concatenate(types), np.array(LENGTHS), np.arange(5))
    packed = PackedBatch(**{**packed.__dict__, "labels": labels})
    padded = {"input_ids": _pad(ids, side), "attention_mask": _pad([np.ones_like(row) for row in ids], side)}
    return packed, {**padded, **({"token_type_ids": _pad(types, side)} if has_types else {})}


def _pad(rows: list[np.ndarray], side: str) -> torch.Tensor:
    return pad_sequence([torch.from_numpy(row) for row in rows], batch_first=True, padding_side=side)


def _batch_for(
    model: Any, labels: dict[str, torch.Tensor], side: str = "right"
) -> tuple[PackedBatch, dict[str, torch.Tensor]]:
    packed, padded = make_batch(labels, family_of(model.config.model_type).has_types(model.config), side)
    is_padding = padded["attention_mask"] == 0
    padded["input_ids"] = padded["input_ids"].masked_fill(is_padding, model.config.pad_token_id or 0)
    return packed, padded


def check_outputs(
    name: str, config: dict[str, Any], kind: str, folder: Path, packed: bool = True, theirs: Any = None
) -> None:
    """The outputs of a kind are those of transformers' padded model."""
    theirs = theirs or save(name, config, KINDS[kind], folder)
    objective = objective_of(kind, folder)
    assert is_packed(objective.model) == packed
    words = [(0, 1), (0, 5), (1, 2), (2, 1), (2, 7), (4, 1)]  # (sequence, position)
    starts = np.cumsum(LENGTHS) - LENGTHS
    positions = torch.tensor([starts[sequence] + place for sequence, place in words])
    labels = {"choice_sequences": torch.tensor([[1, 2]]), "word_positions": positions}
    pads_left = reads_last(theirs) and kind in ("classify", "choose")  # their heads for texts read the last column
    batch, padded = _batch_for(theirs, labels, "left" if pads_left else "right")
    outputs = objective.outputs(batch)
    with torch.no_grad():
        if packed:
            prepack(objective.model)  # as where it only predicts
            torch.testing.assert_close(objective.outputs(batch), outputs, atol=1e-5, rtol=1e-4)
        if kind == "choose":
            padded = {column: value[[1, 2]][None] for column, value in padded.items()}
        wanted = theirs(**padded)
    if kind == "span":
        for side, logits in (("start", wanted.start_logits), ("end", wanted.end_logits)):
            expected = logits.masked_fill(padded["attention_mask"] == 0, -torch.inf)
            torch.testing.assert_close(outputs[side], expected, atol=1e-5, rtol=1e-4)
        return
    expected = torch.stack([wanted.logits[row, place] for row, place in words]) if kind == "tag" else wanted.logits
    torch.testing.assert_close(outputs["logits"], expected, atol=1e-5, rtol=1e-4)


def check_gradients(name: str, config: dict[str, Any], folder: Path) -> None:
    """The gradients are those of transformers' padded model."""
    theirs = save(name, config, KINDS["tag"], folder).train()
    ours = objective_of("tag", folder).train().model
    for model in (ours, theirs):
        set_dropout(model, 0.0)
        for module in model.modules():
            if hasattr(module, "dropout_prob"):  # ALBERT's rate for its attention
                module.dropout_prob = 0.0
    words = torch.arange(0, sum(LENGTHS), 3)
    batch, padded = _batch_for(theirs, {"word_positions": words})
    given = torch.randn(len(words), 2)
    (word_logits(ours, batch)["logits"] * given).sum().backward()
    (theirs(**padded).logits[padded["attention_mask"].bool()][words] * given).sum().backward()
    wanted = dict(theirs.named_parameters())
    for parameter, weight in ours.named_parameters():
        assert (weight.grad is None) == (wanted[parameter].grad is None), parameter
        if weight.grad is not None:
            message = f"{parameter}: {{}}".format
            torch.testing.assert_close(weight.grad, wanted[parameter].grad, atol=1e-5, rtol=1e-4, msg=message)


def check_finetuning(name: str, config: dict[str, Any]) -> None:
    """In an empty folder, a model with a WordPiece vocabulary learns a task and predicts."""
    Path("words.txt").write_text("the king rode out\nthe ship sank\n" * 50)
    build_vocab("words.txt", vocab_size=40, out="start")
    save(name, config, KINDS["classify"], Path("start"))
    learn_nouns()


def check_own_tokenizer(name: str, config: dict[str, Any], fills: str = "ForMaskedLM") -> None:
    """In the folder of `start`, which has a tokenizer, a model fills masks, and learns to classify and to tag."""
    save(name, {**config, "vocab_size": 300}, fills, Path("start"))
    assert len(predict("the [MASK] sank", model="start").records[0]["fills"]) == 5
    assert predict("the ship " * 200, model="start", features="states.npz").count == 1  # cut to the positions it has
    learn_nouns()
    Path("tags.txt").write_text("the O\nking B-PER\nrode O\n\nthe O\nship B-MISC\nsank O\n\n" * 20)
    run = finetune("tags.txt", from_="start", epochs=20, learning_rate=3e-3, max_seq_length=30)
    assert run.metrics["f1"] == 100
    (record,) = predict("the ship sank", model=run.run).records
    assert [(entity["text"], entity["label"]) for entity in record["entities"]] == [("ship", "MISC")]


def learn_nouns() -> None:
    """Fine-tune the model in `start` until it is right."""
    Path("nouns.tsv").write_text("text\tlabel\n" + "the king rode out\tking\nthe ship sank\tship\n" * 20)
    run = finetune("nouns.tsv", from_="start", epochs=20, learning_rate=3e-3, max_seq_length=30)
    assert run.metrics["accuracy"] == 100
    assert [row["label"] for row in predict("the king rode out", model=run.run).records] == ["king"]
