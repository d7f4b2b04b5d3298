"""`bert build-vocab`: learn a WordPiece vocabulary from text, or add words to a model's."""

from bertcli.cli.console import Output
from bertcli.cli.main import app
from bertcli.cli.options import command
from bertcli.config.data import BuildVocabConfig

EXAMPLES = """
bert build-vocab corpus/*.txt
bert build-vocab corpus/ --vocab-size 8000 --unused-tokens 100 --cased --out my-vocab
bert build-vocab held-out.txt --add-words words.txt --to runs/pretrain-base
"""


@command(app, BuildVocabConfig, "build-vocab", EXAMPLES)
def build_vocab_command(config: BuildVocabConfig, output: Output) -> None:
    """Learn a WordPiece vocabulary from text, or add words to a model's.

    One line in a hundred, at most 1,000, is held out from learning to measure coverage: unknown words, tokens a word. With
    --add-words, TEXT is what coverage is measured on, before and after.
    """
    if config.add_words or config.to:
        from bertcli.lifecycle.add_words import add_words as core
    else:
        from bertcli.lifecycle.build_vocab import build_vocab as core  # type: ignore[assignment]
    result = core(config)
    if output.json:
        output.emit(result)
