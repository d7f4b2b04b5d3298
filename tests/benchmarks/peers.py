"""What a user would predict and tokenize with instead: a pipeline of transformers, and `datasets.map` as run_mlm.py has it."""

import json
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from datasets import load_dataset
from transformers import AutoTokenizer, pipeline


def predict(texts: str, model: str, length: str) -> dict[str, Any]:
    """Label the lines of a file."""
    lines = Path(texts).read_text(encoding="utf-8").splitlines()
    pipe = pipeline("text-classification", model=model, dtype=torch.float32, device="cpu")
    started = time.perf_counter()
    labels = [found["label"] for found in pipe(lines, batch_size=32, truncation=True, max_length=int(length))]
    return {"texts_per_second": len(labels) / (time.perf_counter() - started), "labels": labels}


def tokenize(books: str, vocab: str, out: str, length: int = 128) -> dict[str, Any]:
    """Text to rows of `length` tokens in Parquet, in two processes."""
    tokenizer = AutoTokenizer.from_pretrained(vocab)
    inside = length - tokenizer.num_special_tokens_to_add()

    def encode(rows: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        return {"input_ids": tokenizer(rows["text"], add_special_tokens=False)["input_ids"]}

    def group(rows: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
        ids = list(chain.from_iterable(rows["input_ids"]))
        parts = (ids[start : start + inside] for start in range(0, len(ids), inside))
        return {"input_ids": [[tokenizer.cls_token_id, *part, tokenizer.sep_token_id] for part in parts]}

    text = load_dataset("text", data_dir=books, split="train", cache_dir=f"{out}/cache")
    rows = text.map(encode, batched=True, num_proc=2, remove_columns="text").map(group, batched=True, num_proc=2)
    rows.to_parquet(f"{out}/rows.parquet")
    return {"instances": len(rows), "tokens": sum(map(len, rows["input_ids"]))}


if __name__ == "__main__":
    print(json.dumps({"predict": predict, "tokenize": tokenize}[sys.argv[1]](*sys.argv[2:])))
