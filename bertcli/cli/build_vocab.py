"""`bert build-vocab`: learn a WordPiece vocabulary from text."""

from bertcli.cli.console import Output
from bertcli.cli.main import app
from bertcli.cli.options import command
from bertcli.config import BuildVocabConfig

EXAMPLES = """
bert build-vocab corpus/*.txt
bert build-vocab corpus/ --vocab-size 8000 --cased --out my-vocab
"""


@command(app, BuildVocabConfig, "build-vocab", EXAMPLES)
def build_vocab_command(config: BuildVocabConfig, output: Output) -> None:
    """Learn a WordPiece vocabulary from text."""
    from bertcli.vocabulary import build_vocab

    result = build_vocab(config)
    if output.json:
        output.emit(result.to_json())
