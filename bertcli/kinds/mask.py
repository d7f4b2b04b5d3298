"""Filling in `[MASK]`: what a pre-trained model does, for `bert predict` alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

from bertcli.data.labelled.examples import Examples
from bertcli.data.text.tables import place_of
from bertcli.errors import UserError
from bertcli.kinds import types as t
from bertcli.kinds.kind import Encoder, Kind, Split
from bertcli.tasks.task import Task

MASK_TOKEN = "[MASK]"  # as a person writes it, whatever the model's own mask is called


@dataclass(frozen=True)
class MaskedTexts(Examples):
    """Texts with `[MASK]` in them."""

    texts: list[str]


class Mask(Kind):
    """The most probable tokens for each mask, by the masked-LM head."""

    name = "fill"
    pipeline = "fill-mask"
    architectures = ("MaskedLM", "PreTraining", "XLNetLMHead")
    inputs = ("mask",)
    needs = f"a text with {MASK_TOKEN} in it (so spelled for every model), and no second one"
    is_task = False
    sample: ClassVar[t.Row] = {"text": f"Paris is the {MASK_TOKEN} of France."}
    example = """place = encodings[0].ids.index(mask)
shares = np.exp(logits[0, place] - logits[0, place].max())
for token in shares.argsort()[:-6:-1]:
    print(json.dumps({"token": tokenizer.decode([int(token)]), "score": float(shares[token] / shares.sum())}))"""
    tokens_at_once = 2048  # each mask has a number for every token of the vocabulary

    def __init__(self, top_k: int = 5, vocab_size: int | None = None) -> None:
        self.top_k, self.vocab_size = top_k, vocab_size

    def for_prediction(self, top_k: int, vocab_size: int) -> Mask:
        return Mask(min(top_k, vocab_size), vocab_size)

    def model_class(self, saved: Any, config: dict[str, Any] | None) -> None:
        """The class that was saved."""

    def load_model(self, source: str, config: dict[str, Any] | None = None, seed: int = 0) -> t.Model:
        """Load a model, or the generator that was trained beside it. Raises UserError if it only detects replaced tokens."""
        from bertcli.models.model_with_loss import generator_beside

        model = super().load_model(generator_beside(source) or source, config, seed)
        if model.get_output_embeddings() is None:
            what = f"The model `{source}` ({type(model).__name__}) finds replaced tokens; it cannot fill {MASK_TOKEN}."
            raise UserError(what, "Give the generator that was trained beside it.")
        return model

    def check_input(self, row: t.Row, tokenizer: t.Tokenizer, longest: int, file: str | None) -> None:
        from bertcli.data.packing.text_features import encode_masks

        ids, places = encode_masks(row["text"], tokenizer)
        if len(ids) > longest or not places:
            where = place_of(Path(str(file)), row["line"]) if "line" in row else "The text"
            what = f"has {len(ids)} tokens; the model takes {longest}." if places else f"has no {MASK_TOKEN} in it."
            hint = "Shorten it." if places else f"Put {MASK_TOKEN} where a word is to be filled in."
            raise UserError(f"{where} {what}", hint)

    def input_examples(self, rows: Sequence[t.Row], tokenizer: t.Tokenizer) -> MaskedTexts:
        return MaskedTexts([row["text"] for row in rows], origin="the input")

    def encode(self, task: Task, examples: Examples, encoder: Encoder, training: bool = False) -> t.Features:
        from bertcli.data.packing.text_features import encode_masked_texts

        return encode_masked_texts(cast(MaskedTexts, examples).texts, encoder.tokenizer)

    def outputs(self, model: t.Model, batch: t.Batch) -> t.Outputs:
        """The probabilities of the best tokens for each mask, and their ids, [M, top_k] each."""
        logits = self.raw_outputs(model, batch)["logits"].float()
        shares, ids = logits.softmax(-1)[:, : self.vocab_size].topk(self.top_k)
        return {"shares": shares, "ids": ids}

    def raw_outputs(self, model: t.Model, batch: t.Batch) -> t.Outputs:
        """The logits of the vocabulary for each mask, [M, V]."""
        from bertcli.models.heads import masked_lm_logits

        return {"logits": masked_lm_logits(model, batch)}

    def decode(self, task: Task, split: Split, outputs: t.ModelOutputs, tokenizer: t.Tokenizer) -> t.Predictions:
        names, masks = tokenizer.tokens, zip(outputs["ids"], outputs["shares"], strict=True)
        predictions = []
        for count in cast(Any, split.features).places.lengths:
            fills = []
            for mask in range(count):
                ids, shares = next(masks)
                number = {"mask": mask} if count > 1 else {}
                fills += [
                    {"token": tokenizer.shown(names[int(id_)]), "score": round(float(share), 6), **number}
                    for id_, share in zip(ids, shares, strict=True)
                ]
            predictions.append({"fills": fills})
        return predictions


MASK = Mask()
