"""`bert build-vocab`: learn a vocabulary from text, or add words to a model's vocabulary."""

import bertcli
from bertcli.cli.console import Output
from bertcli.cli.options import command
from bertcli.config.data import BuildVocabConfig


@command(BuildVocabConfig)
def build_vocab(config: BuildVocabConfig, output: Output) -> object:
    """Learn a WordPiece vocabulary from text, or add words to a model's vocabulary.

    One line in a hundred, at most 1,000, is held out to measure coverage: the share of unknown words and the tokens per
    word. With --add-words, coverage of TEXT is measured before and after.

    Examples:
        bert build-vocab corpus/*.txt
        bert build-vocab corpus/ --vocab-size 8000 --unused-tokens 100 --cased --out my-vocab
        bert build-vocab held-out.txt --add-words words.txt --to runs/pretrain-base
    """
    if config.add_words or config.to:
        from bertcli.lifecycle.add_words import add_words

        return add_words(config)
    return bertcli.build_vocab(config)
