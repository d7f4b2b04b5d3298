"""`bert build-vocab`: learn a WordPiece vocabulary from text."""

from bertcli.cli.console import Output
from bertcli.cli.main import app
from bertcli.cli.options import command
from bertcli.config import BuildVocabConfig

EXAMPLES = """
bert build-vocab corpus/*.txt
bert build-vocab corpus/ --vocab-size 8000 --unused-tokens 100 --cased --out my-vocab
"""


@command(app, BuildVocabConfig, "build-vocab", EXAMPLES)
def build_vocab_command(config: BuildVocabConfig, output: Output) -> None:
    """Learn a WordPiece vocabulary from text.

    One line in a hundred, at most 1,000, is held out from learning to measure coverage: unknown words, tokens a word.
    """
    from bertcli.vocabulary import build_vocab

    result = build_vocab(config)
    if output.json:
        output.emit(result.to_json())
