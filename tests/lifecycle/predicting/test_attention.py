"""The attention of each head is that of transformers, in numbers and in the page."""

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from bertcli.errors import UserError
from bertcli.lifecycle.predict import predict
from bertcli.lifecycle.predicting.attention import attention


@pytest.mark.parametrize("pair", [None, "a dog ran"])
def test_weights_and_page_are_those_of_transformers(at_home: Path, tmp_path: Path, pair: str | None) -> None:
    model, text, page = "runs/pretrain-tiny/model", "the cat sat on the green mat", tmp_path / "page.html"
    given = {"text": text, **({"text_pair": pair} if pair else {})}
    (record,) = predict(**given, model=model, explain="attention", explain_page=str(page)).records
    inputs = AutoTokenizer.from_pretrained(model)(text, pair, return_tensors="pt")
    plain = AutoModel.from_pretrained(model, attn_implementation="eager").eval()
    with torch.no_grad():
        expected = torch.cat(plain(**inputs, output_attentions=True).attentions).numpy()
    tokens, weights = attention(model, given)
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.DOTALL)[1])
    shown = np.frombuffer(base64.b64decode(data["weights"]), np.uint8).reshape(weights.shape) / 255
    np.testing.assert_allclose(shown, expected, atol=0.003)
    assert data["tokens"] == tokens == record["tokens"]
    assert (record["layers"], record["heads"]) == weights.shape[:2]


def test_the_page_loads_nothing_and_runs_nothing_of_the_text(at_home: Path, tmp_path: Path) -> None:
    text, page = "</script><script>alert(1)</script><img src=x onerror=alert(1)>", tmp_path / "page.html"
    predict(text=text, model="runs/pretrain-tiny", explain="attention", explain_page=str(page))
    html = page.read_text()
    assert html.count("<script") == 2  # the data and the program of the page
    assert "<img" not in html
    assert "http" not in html.replace("http-equiv", "")
    assert "default-src 'none'" in html


def test_a_text_that_is_too_long_and_a_file_are_refused(at_home: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a page shows 128"):
        predict(text="cat " * 127, model="runs/pretrain-tiny", explain="attention")
    (tmp_path / "in.txt").write_text("cat\n")
    with pytest.raises(UserError, match="A page shows one text"):
        predict(file=str(tmp_path / "in.txt"), model="runs/pretrain-tiny", explain="attention")
