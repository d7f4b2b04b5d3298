"""Pre-train, fine-tune, evaluate and use BERT."""

import logging

__version__ = "0.1.0"
say = logging.getLogger("bertcli").info  # to the person at work: what was taken, cut, skipped or guessed
