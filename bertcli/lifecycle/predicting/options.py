"""Which options of `bert predict` go together."""

from bertcli.config.use import TORCH, PredictConfig
from bertcli.errors import UserError

INPUTS = ("text", "text_pair", "choice", "question", "context", "file")
COMPARE = 'Give: --compare "river bank" "bank account" --word bank'


def check_options(config: PredictConfig) -> None:
    """Raise UserError if options do not go together, or one is missing."""
    _check_uses(config)
    if config.compare:
        _check_compare(config)
    elif not config.task:
        _check_inputs(config)
    if config.explain:
        _check_explain(config)


def _check_uses(config: PredictConfig) -> None:
    uses = [f"--{name}" for name in ("features", "explain", "compare") if getattr(config, name)]
    if len(uses) > 1:
        raise UserError(f"{uses[0]} and {uses[1]} do not go together.", "Give one of them.")
    if uses and config.engine != TORCH:
        raise UserError(f"{uses[0]} reads the weights, which --engine {config.engine} does not.", "Leave --engine out.")


def _check_compare(config: PredictConfig) -> None:
    if given := next((name for name in (*INPUTS, "output") if getattr(config, name)), None):
        raise UserError(f"--compare has its own texts, and takes no {given.replace('_', '-')}.", COMPARE)
    if len(config.compare) < 2 or not config.word:
        raise UserError("--compare needs two texts, and the --word that is in both.", COMPARE)


def _check_explain(config: PredictConfig) -> None:
    if config.question or config.choice:
        raise UserError("--explain takes a text or a pair.", 'Give one: --text "..."')
    if (config.explain == "attention" or config.explain_page) and (config.file or config.output):
        raise UserError("A page shows one text, and goes with neither --file nor --output.", 'Give it: --text "..."')
    if config.precision not in ("auto", "float32"):
        raise UserError(f"--explain does not run in {config.precision}.", "Leave --precision out.")


def _check_inputs(config: PredictConfig) -> None:
    given = [name for name in ("text", "question", "file") if getattr(config, name) is not None]
    if len(given) != 1:
        what = f"--{given[0]} and --{given[1]} do not go together." if given else "There is no input."
        raise UserError(what, 'Give one: --text "..." or --question "..." --context "..." or --file FILE')
    has_text, has_pair = config.text is not None, config.text_pair is not None
    if has_pair and not has_text:
        raise UserError(f"--text-pair does not go with --{given[0]}.", 'Give both: --text "..." --text-pair "..."')
    if config.choice and (not has_text or has_pair or len(config.choice) < 2):
        what = "--choice needs --text alone, and at least two choices."
        raise UserError(what, 'Give all: --text "..." --choice "..." --choice "..."')
    if (config.question is None) != (config.context is None):
        what = "A question needs its context, and a context a question."
        raise UserError(what, 'Give both: --question "..." --context "..."')
