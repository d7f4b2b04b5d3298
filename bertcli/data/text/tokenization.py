"""Tokenizers: WordPiece as in the original BERT, but in Rust, and those of other families."""

import hashlib
import json
import string
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, cast

from tokenizers import Encoding, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from bertcli.data.checksums import check_files
from bertcli.data.json_files import Types, check_values, read_json
from bertcli.data.text.layout import Layout
from bertcli.data.text.sentence_pieces import ORIGINALS, AlbertPieces
from bertcli.errors import UserError, check_regular, first_line

# Any of which a folder must have for a tokenizer of transformers.
VOCABULARIES = ("tokenizer.json", "vocab.json", "spm.model", "spiece.model", "sentencepiece.bpe.model")
TOKENIZER_FILES = ("vocab.txt", "tokenizer.json", "tokenizer_config.json")
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MAX_CHARACTERS_PER_WORD = 200  # tokenization.py; the tokenizers library's own default is 100
RULES: dict[str, Types] = {  # of tokenizer_config.json
    "do_lower_case": bool,
    "strip_accents": bool | None,
    "tokenize_chinese_chars": bool,
}
ALGORITHMS = {"WordPiece": "wordpiece", "BPE": "byte-bpe", "Unigram": "sentencepiece"}  # by the type in tokenizer.json
SPACES = "Ġ▁"  # the space before a word, as pieces have it
HIDES_SYMBOLS = {"XLNetTokenizer", "DebertaV2Tokenizer"}  # of whose special tokens only <eop> is found in texts
MARKS_BEGIN_WORDS = {"DebertaTokenizer", "DebertaV2Tokenizer"}  # (part_of_whole_word of DeBERTa's tokenizers)
LARGEST_VOCABULARY = 100_000_000  # bytes


@dataclass(frozen=True)
class WordPiece:
    """A WordPiece vocabulary with its rules. Raises UserError if a special token is missing.

    `backend` takes plain text: "[MASK]" in it is text, as in the original, never a special token.
    """

    vocab: dict[str, int]
    cased: bool
    source: str
    strip_accents: bool | None = None  # None: if lower-cased, as in the original
    tokenize_chinese_chars: bool = True
    backend: Tokenizer = field(init=False, repr=False)
    is_wordpiece: ClassVar[bool] = True

    def __post_init__(self) -> None:
        backend = plain_backend(self.vocab, self.cased, self.strip_accents, self.tokenize_chinese_chars)
        object.__setattr__(self, "backend", backend)
        missing = [token for token in SPECIAL_TOKENS if token not in self.vocab]
        if missing:
            what = f"The vocabulary `{self.source}` lacks {', '.join(missing)}."
            raise UserError(what, "Use a BERT vocabulary; `bert build-vocab TEXT` makes one.")

    @property
    def size(self) -> int:
        """Number of ids, and of rows that the embedding needs."""
        return max(self.vocab.values()) + 1

    @property
    def digest(self) -> str:
        """A hash, equal for tokenizers that give the same ids for every text."""
        rules = (self.cased, self.strip_accents, self.tokenize_chinese_chars)
        return hashlib.sha256(json.dumps([sorted(self.vocab.items()), *rules], ensure_ascii=False).encode()).hexdigest()

    @property
    def tokens(self) -> list[str]:
        """The token of each id; if vocab.txt has a token twice, its first id has none."""
        named = {number: token for token, number in self.vocab.items()}
        return [named.get(number, f"[duplicate{number}]") for number in range(self.size)]

    def special(self, name: str) -> int:
        """The id of a special token, by a name such as `cls`."""
        return self.vocab[f"[{name.upper()}]"]

    @property
    def algorithm(self) -> str:
        """What `bert build-vocab --algorithm` calls its kind of vocabulary."""
        return "wordpiece"

    @property
    def layout(self) -> Layout:
        """The special tokens around the texts of an input."""
        sep = (self.special("sep"),)
        return Layout((self.special("cls"),), sep, sep)

    @property
    def continues_word(self) -> list[bool]:
        """For each id, whether it is a piece of a word that is not its first, [V]; a special token is a word."""
        is_continuation = [False] * self.size
        for token, index in self.vocab.items():
            is_continuation[index] = token.startswith("##")
        return is_continuation

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Tokenize plain texts into ids, tokens and character offsets, without special tokens."""
        return self.backend.encode_batch(texts, add_special_tokens=False)

    def encode_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize plain texts into ids only, which is faster."""
        return [found.ids for found in self.backend.encode_batch_fast([*texts], add_special_tokens=False)]

    def encode_words(self, words: Sequence[str]) -> list[Encoding]:
        """Tokenize words as in the middle of a text."""
        return self.encode(words)

    def spell(self, tokens: list[str]) -> str:
        """The text of tokens; for WordPiece, normalized as they are, and with a space on both sides of punctuation."""
        return " ".join(" ".join(tokens).replace(" ##", "").replace("##", "").split())

    def shown(self, token: str) -> str:
        """A token as a person reads it, `##` included."""
        return token

    def save(self, folder: Path, model_max_length: int | None = None) -> None:
        """Write vocab.txt, tokenizer.json and tokenizer_config.json, which `AutoTokenizer` reads."""
        folder.mkdir(parents=True, exist_ok=True)
        backend = Tokenizer.from_str(self.backend.to_str())
        backend.add_special_tokens(list(SPECIAL_TOKENS))
        backend.decoder = decoders.WordPiece()
        ends = [(token, self.vocab[token]) for token in ("[CLS]", "[SEP]")]
        single, pair = "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"
        backend.post_processor = processors.TemplateProcessing(single, pair, special_tokens=ends)
        backend.save(str(folder / "tokenizer.json"))
        rules: dict[str, Any] = {"do_lower_case": not self.cased, "strip_accents": self.strip_accents}
        config = {"tokenizer_class": "BertTokenizer", **rules}
        config |= {"tokenize_chinese_chars": self.tokenize_chinese_chars, "model_max_length": model_max_length or 512}
        config |= {f"{token[1:-1].lower()}_token": token for token in SPECIAL_TOKENS}
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in self.tokens), encoding="utf-8")


@dataclass(frozen=True)
class Subwords(WordPiece):
    """A tokenizer of another algorithm, such as RoBERTa's byte pairs or ALBERT's sentence pieces."""

    fast: Any = None  # a fast tokenizer of transformers
    is_wordpiece: ClassVar[bool] = False

    def __post_init__(self) -> None:
        state = json.loads(self.fast.backend_tokenizer.to_str())
        _hide_symbols(state, type(self.fast).__name__ in HIDES_SYMBOLS)
        plain = Tokenizer.from_str(json.dumps(state))
        plain.no_padding()  # which tokenizer.json may ask for
        plain.no_truncation()
        object.__setattr__(self, "backend", plain)
        object.__setattr__(self, "vocab", dict(sorted(self.vocab.items(), key=itemgetter(1))))  # for random ids
        if not (self.layout.before or self.layout.after):
            what = f"The tokenizer `{self.source}` puts no special tokens around a text, as BERT's does."
            raise UserError(what, "Use a model that does, such as a RoBERTa.")

    @cached_property
    def state(self) -> dict[str, Any]:
        """What tokenizer.json says."""
        return cast(dict[str, Any], json.loads(self.backend.to_str()))

    @cached_property
    def digest(self) -> str:
        """A hash that is equal for two tokenizers that give the same ids for every text."""
        state = json.loads(self.fast.backend_tokenizer.to_str())
        parts = [state[name] for name in ("normalizer", "pre_tokenizer", "model")]
        return hashlib.sha256(json.dumps(parts, ensure_ascii=False, sort_keys=True).encode()).hexdigest()

    @property
    def algorithm(self) -> str:
        """What `bert build-vocab --algorithm` calls its kind of vocabulary; "" for another kind."""
        return ALGORITHMS.get(self.state["model"].get("type"), "")

    @cached_property
    def layout(self) -> Layout:
        """The special tokens around the texts of an input."""
        first, second = (self.backend.encode(text, add_special_tokens=False).ids for text in ("a", "b"))
        one, two = self.backend.encode("a"), self.backend.encode("a", "b")
        start = _place(one.ids, first)
        before, after = tuple(one.ids[:start]), tuple(one.ids[start + len(first) :])
        of_second = len(two.ids) - len(after) - len(second)
        between = tuple(two.ids[start + len(first) : of_second])
        return Layout(before, between, after, two.type_ids[of_second], one.type_ids[-1] if not before else 0)

    @cached_property
    def original(self) -> AlbertPieces | None:
        """How the original tokenizes, where it does not do so as transformers does."""
        kind, keeps_accents = ORIGINALS.get(type(self.fast).__name__), getattr(self.fast, "keep_accents", False)
        return kind(self.state, self.vocab, self.cased) if kind and not keeps_accents else None

    def encode_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize plain texts into ids only."""
        return self.original.encode_ids(texts) if self.original else super().encode_ids(texts)

    @property
    def continues_word(self) -> list[bool]:
        """For each id, whether it is a piece of a word that is not its first, [V]; a special token is a word."""
        if self.original:
            return self.original.continues_word
        special, are_words = set(self.fast.all_special_ids), type(self.fast).__name__ in MARKS_BEGIN_WORDS
        decode = self.backend.decoder.decode

        def begins(number: int, token: str) -> bool:
            return number in special or token.startswith(tuple(SPACES)) or (are_words and is_mark(decode([token])))

        return [not begins(number, token) for number, token in enumerate(self.tokens)]

    def special(self, name: str) -> int:
        """The id of a special token, by a name such as `cls`."""
        return int(getattr(self.fast, f"{name}_token_id"))

    def encode_words(self, words: Sequence[str]) -> list[Encoding]:
        """Tokenize words as in the middle of a text: after a space."""
        return self.encode([f" {word}" for word in words])

    def spell(self, tokens: list[str]) -> str:
        """The text of tokens."""
        return str(self.backend.decoder.decode(tokens)).strip()

    def shown(self, token: str) -> str:
        """A token as a person reads it, without the space before it."""
        return self.spell([token]) or token

    def save(self, folder: Path, model_max_length: int | None = None) -> None:
        """Write the tokenizer of transformers; one that knows no maximum length gets that of its model, if there is one."""
        if model_max_length:
            self.fast.model_max_length = min(self.fast.model_max_length, model_max_length)
        self.fast.save_pretrained(folder)


def is_mark(text: str) -> bool:
    """Whether a text is a single punctuation, space or control character, as the original's BasicTokenizer has them."""
    return len(text) == 1 and (text in string.punctuation or text.isspace() or unicodedata.category(text)[0] in "PC")


def of_transformers(fast: Any, source: str) -> Subwords:
    """The tokenizer of a fast one of transformers that is not WordPiece."""
    return Subwords(fast.get_vocab(), not getattr(fast, "do_lower_case", False), source, fast=fast)


def _place(ids: list[int], part: list[int]) -> int:
    """Where a part of ids begins; their end if it is not in them."""
    return next((place for place in range(len(ids)) if part and ids[place : place + len(part)] == part), len(ids))


def plain_backend(vocab: dict[str, int], cased: bool, strip: bool | None = None, chinese: bool = True) -> Tokenizer:
    """The original's BasicTokenizer and WordpieceTokenizer in Rust, without special tokens."""
    backend = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=MAX_CHARACTERS_PER_WORD))
    strip = not cased if strip is None else strip
    backend.normalizer = normalizers.BertNormalizer(True, chinese, strip, lowercase=not cased)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return backend


def load_tokenizer(source: str | Path, cased: bool = False) -> WordPiece:
    """Load a tokenizer from a folder, a vocab.txt (uncased unless `cased`) or the Hub. Raises UserError if it cannot."""
    path = Path(source)
    check_regular(path)
    check_files(path.parent if path.is_file() else path, TOKENIZER_FILES)
    if path.is_file():
        return WordPiece(_read_vocab(path), cased, str(source))
    if (path / "vocab.txt").exists():
        config = path / "tokenizer_config.json"
        hint = "Restore it, or remove it: then the vocabulary is uncased."
        saved = read_json(config, hint) if config.exists() else {}
        check_values(config, hint, saved, {name: RULES[name] for name in RULES.keys() & saved.keys()})
        rules = saved.get("strip_accents"), saved.get("tokenize_chinese_chars", True)
        vocab, is_cased = _read_vocab(path / "vocab.txt"), not saved.get("do_lower_case", not cased)
        return WordPiece(vocab, is_cased, str(source), *rules)
    if path.is_dir() and not any((path / name).exists() for name in VOCABULARIES):
        raise UserError(f"The folder `{source}` holds no vocabulary.", "Make one: bert build-vocab TEXT --out vocab")
    return _load_from_transformers(str(source))


def load_wordpiece(source: str | Path, cased: bool = False) -> WordPiece:
    """Load a tokenizer as `load_tokenizer` does. Raises UserError if it is not a WordPiece tokenizer."""
    tokenizer = load_tokenizer(source, cased)
    if not tokenizer.is_wordpiece:
        what = f"`{source}` has a {tokenizer.algorithm or 'strange'} vocabulary; this needs a WordPiece one."
        raise UserError(what, "Give a BERT, an ELECTRA or a DistilBERT, or a vocabulary of bert build-vocab TEXT.")
    return tokenizer


def _read_vocab(path: Path) -> dict[str, int]:
    """Read one token per line; a token that is there twice has its last id, as in load_vocab."""
    if path.stat().st_size > LARGEST_VOCABULARY:
        what = f"The vocabulary `{path}` has more than {LARGEST_VOCABULARY / 1e6:.0f} MB."
        raise UserError(what, "Give a vocab.txt: one token per line.")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        what = f"The vocabulary `{path}` is not UTF-8 text."
        raise UserError(what, "Give a vocab.txt: one token per line.") from None
    if lines[-1] == "":
        lines.pop()
    if not lines:
        raise UserError(f"The vocabulary `{path}` is empty.", "Make one: bert build-vocab TEXT --out vocab")
    return {line.strip(): index for index, line in enumerate(lines)}


def _load_from_transformers(source: str) -> WordPiece:
    """Load a tokenizer from a folder with tokenizer.json, or from the Hub."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except Exception as error:  # the tokenizers library has no class of its own for what it cannot open
        what = f"There is no tokenizer `{source}` here or on the Hub ({first_line(error)})."
        raise UserError(what, "Give a folder, a vocab.txt or a Hub name; `bert build-vocab TEXT` makes one.") from None
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    if type(tokenizer).__name__ == "DebertaV2Tokenizer":
        tokenizer.backend_tokenizer.normalizer = _normalizer_of_pieces(tokenizer, Path(source, "tokenizer.json"))
    if state["model"].get("type") != "WordPiece":
        return of_transformers(tokenizer, source)
    normalizer = state.get("normalizer") or {}
    rules = normalizer.get("strip_accents"), normalizer.get("handle_chinese_chars", True)
    return WordPiece(dict(state["model"]["vocab"]), not normalizer.get("lowercase", True), source, *rules)


def _hide_symbols(state: dict[str, Any], is_hidden: bool) -> None:
    """Have a tokenizer take what a text spells out as text, and symbols that are pieces with what is around them."""
    special = {token["content"] for token in state["added_tokens"] if token["special"]} - {"<eop>"}
    scored = state["model"]["vocab"] if state["model"]["type"] == "Unigram" else []
    pieces = {piece for piece, _ in scored}
    words = (token for token in state["added_tokens"] if not token["special"])
    state["added_tokens"] = [token for token in words if token["content"] not in pieces]
    if is_hidden:  # no piece has a space
        state["model"]["vocab"] = [[" " * (piece in special) + piece, score] for piece, score in scored]


def _normalizer_of_pieces(tokenizer: Any, saved: Path) -> Any:
    """The normalizer of a DeBERTa 3 with the map of characters of its spm.model, which transformers 5 leaves out."""
    if saved.exists():
        return Tokenizer.from_file(str(saved)).normalizer
    from sentencepiece import sentencepiece_model_pb2

    own = tokenizer.backend_tokenizer.normalizer
    model = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    model.ParseFromString(Path(tokenizer.vocab_file).read_bytes() if tokenizer.vocab_file else b"")
    characters = model.normalizer_spec.precompiled_charsmap
    return normalizers.Sequence([normalizers.Precompiled(characters), own]) if characters else own
