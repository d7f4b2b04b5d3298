"""Tokenizers of other families, trained on a few sentences."""

from pathlib import Path

import transformers
from tokenizers import ByteLevelBPETokenizer, SentencePieceUnigramTokenizer
from tokenizers.processors import RobertaProcessing, TemplateProcessing

SENTENCES = ["the king rode out", "the ship sank", "The Queen, in Rome, saw it."]


def save_bytes(folder: Path) -> None:
    """RoBERTa's kind of tokenizer."""
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    backend = ByteLevelBPETokenizer()
    backend.train_from_iterator(SENTENCES * 20, vocab_size=300, special_tokens=names)
    backend._tokenizer.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0))
    _save(backend, ("<s>", "</s>", "<pad>", "<unk>", "<mask>"), folder)


def save_sentence_pieces(folder: Path) -> None:
    """ALBERT's kind of tokenizer."""
    names = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    backend = SentencePieceUnigramTokenizer()
    backend.train_from_iterator(SENTENCES * 20, vocab_size=60, special_tokens=names, unk_token="<unk>")
    backend._tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    _save(backend, ("[CLS]", "[SEP]", "<pad>", "<unk>", "[MASK]"), folder)


def save_xlnet_pieces(folder: Path) -> None:
    """XLNet's kind of tokenizer."""
    names = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]
    words = sorted({f"▁{word}" for sentence in SENTENCES for word in sentence.split()})
    letters = sorted({letter for word in words for letter in word})
    vocab = [
        *((name, 0.0) for name in names),
        *((word, -3.0) for word in words),
        *((letter, -6.0) for letter in letters),
    ]
    transformers.XLNetTokenizer(vocab=vocab).save_pretrained(folder)


def _save(backend: ByteLevelBPETokenizer | SentencePieceUnigramTokenizer, names: tuple[str, ...], folder: Path) -> None:
    roles = ("cls_token", "sep_token", "pad_token", "unk_token", "mask_token")
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend._tokenizer, **dict(zip(roles, names, strict=True))
    )
    fast.save_pretrained(folder)


SAVERS = {"Roberta": save_bytes, "Albert": save_sentence_pieces}
