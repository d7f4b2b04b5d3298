"""The example in the folder of an exported model: the shortest program that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bertcli.kinds.kind import Kind
from bertcli.kinds.mask import MASK_TOKEN

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from bertcli.data.text.tokenization import WordPiece

GRAPH = '''"""Run the model in this folder; needs: pip install onnxruntime tokenizers"""

import json
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

folder = Path(__file__).parent
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
tokenizer.enable_truncation({longest})
tokenizer.enable_padding(pad_id={pad_id}, pad_token="{pad}")
model = onnxruntime.InferenceSession(folder / "model.onnx")

texts = {texts}
encodings = tokenizer.encode_batch(texts)
columns = {{"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}}
names = [node.name for node in model.get_inputs()]
inputs = {{name: np.array([getattr(each, columns[name]) for each in encodings], dtype=np.int64) for name in names}}
outputs = model.run(None, {inputs})
'''
WEIGHTS = '''"""Run the model in this folder; needs: pip install transformers torch"""

import json
from pathlib import Path

import numpy as np
import torch
from transformers import {auto}, AutoTokenizer{logging}

folder = Path(__file__).parent
tokenizer = AutoTokenizer.from_pretrained(folder)
{quiet}model = {auto}.from_pretrained(folder, dtype=torch.float32)

texts = {texts}
inputs = tokenizer(texts, padding=True, truncation=True, max_length={longest}, return_tensors="pt")
encodings = inputs.encodings
with torch.no_grad():
    outputs = [each.numpy() for each in model(**{inputs}).to_tuple()]
'''
POOLED = """from safetensors.torch import load_file

weights = {name: weight.float().numpy() for name, weight in load_file(folder / "model.safetensors").items()}
mask = inputs["attention_mask"].numpy()[:, :, None]
pooled = (outputs[0] * mask).sum(1) / mask.sum(1)
outputs = [pooled @ weights["classifier.weight"].T + weights["classifier.bias"]]
"""
QUIET = "logging.set_verbosity_error()  # it would say that the head, which is read below, is no part of the model\n"
PROGRAMS = {"onnx": GRAPH, "safetensors": WEIGHTS}


def example_of(form: str, kind: Kind, model: PreTrainedModel, tokenizer: WordPiece, longest: int, is_pair: bool) -> str:
    """A program of some ten lines that runs the model in its folder on a sample of its kind, and prints the answer."""
    from bertcli.models.heads import MeanPooledBertForSequenceClassification

    # No class of transformers pools by the mean.
    pools = isinstance(model, MeanPooledBertForSequenceClassification) and "{auto}" in PROGRAMS[form]
    head = next((name for name in kind.architectures if not pools and name in type(model).__name__), "")
    sample, pad, mask = {**kind.sample}, tokenizer.special("pad"), tokenizer.special("mask")
    sample |= {"text_pair": "a bad film"} if is_pair else {}
    program = PROGRAMS[form].format(
        auto=f"AutoModelFor{head}" if head else "AutoModel",
        quiet=QUIET * pools,
        logging=", logging" * pools,
        texts=_texts(sample, tokenizer.tokens[mask]),
        inputs="{name: rows[None] for name, rows in inputs.items()}" if "choices" in sample else "inputs",
        longest=longest,
        pad_id=pad,
        pad=tokenizer.tokens[pad],
    )
    labels = 'json.loads((folder / "labels.json").read_text(encoding="utf-8"))'
    defined = {"labels": labels, "logits": "outputs[0]", "mask": mask}
    named = "".join(f"{name} = {value}\n" for name, value in defined.items() if name in kind.example)
    return f"{program}{POOLED * pools}{named}{kind.example}\n"


def _texts(sample: dict[str, Any], mask: str) -> str:
    """The texts of a sample as a tokenizer takes them: one, a pair, or a pair for each choice."""
    if "choices" in sample:
        return repr([(sample["text"], choice) for choice in sample["choices"]])
    texts = [text.replace(MASK_TOKEN, mask) for text in sample.values()]
    return repr([tuple(texts) if texts[1:] else texts[0]])
