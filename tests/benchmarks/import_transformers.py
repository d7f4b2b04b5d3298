"""What a script imports to fill a mask."""

from transformers import BertForMaskedLM, BertTokenizerFast

__all__ = ["BertForMaskedLM", "BertTokenizerFast"]
