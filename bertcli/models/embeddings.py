"""Rows for new tokens in a model's embedding and masked-LM decoder."""

import torch
from torch import nn
from transformers import PreTrainedModel

# V vocabulary, H hidden


@torch.no_grad()
def add_rows(model: PreTrainedModel, pieces: dict[int, list[int]], vocab_size: int) -> None:
    """Set the row of each id to the mean of the rows of its pieces; tables with fewer than `vocab_size` rows grow.

    The tables are the word embedding, [V, H], and the weight, [V, H], and bias, [V], of the decoder, if there is one.
    """
    model.resize_token_embeddings(max(vocab_size, model.config.vocab_size), mean_resizing=False)
    decoder = model.get_output_embeddings()
    if decoder is not None and not model.config.tie_word_embeddings:
        # Resizing ties the bias to cls.predictions.bias, and of two tied tensors only one is saved.
        decoder.bias = nn.Parameter(decoder.bias.clone())
    for table in (model.get_input_embeddings().weight, *(decoder.parameters() if decoder is not None else ())):
        for row, ids in pieces.items():
            table[row] = table[ids].mean(0)
