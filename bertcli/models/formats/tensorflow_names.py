"""The names of the original's variables beside those of transformers' parameters."""

import re

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[np.generic]]

# The original's name -> ours; where the kernel is transposed, ours is `weight` of a Linear.
WHOLE = {
    "cls/predictions/output_bias": "cls.predictions.bias",
    "cls/seq_relationship/output_weights": "cls.seq_relationship.weight",
    "cls/seq_relationship/output_bias": "cls.seq_relationship.bias",
    "cls/squad/output_weights": "qa_outputs.weight",
    "cls/squad/output_bias": "qa_outputs.bias",
    "output_weights": "classifier.weight",
    "output_bias": "classifier.bias",
}
PARTS = (("LayerNorm/gamma", "LayerNorm/weight"), ("LayerNorm/beta", "LayerNorm/bias"))
NOT_WEIGHTS = re.compile(r"adam_[mv]$|global_step$|^(beta|Variable)")  # what the original's training keeps beside them


def our_name(name: str) -> str:
    """The parameter of a variable: `bert/encoder/layer_0/...` is `bert.encoder.layer.0...`."""
    if name in WHOLE:
        return WHOLE[name]
    for theirs, ours in PARTS:
        name = name.replace(theirs, ours)
    name = re.sub(r"layer_(\d+)", r"layer/\1", name)
    name = re.sub(r"_embeddings$", "_embeddings/weight", name)
    return name.replace("kernel", "weight").replace("/", ".")


def is_transposed(name: str) -> bool:
    """Whether a variable is stored the other way round: kernels are [in, out], a Linear's weight [out, in]."""
    return name.endswith("/kernel")


def to_parameters(variables: Arrays) -> Arrays:
    """Variables of the original as parameters; what is no weight (Adam's averages, the step) is left out."""
    return {
        our_name(name): value.T if is_transposed(name) else value
        for name, value in variables.items()
        if not NOT_WEIGHTS.search(name)
    }


def to_variables(parameters: Arrays) -> Arrays:
    """Parameters as variables of the original, by the inverse of `our_name`."""
    inverse = {ours: theirs for theirs, ours in WHOLE.items()}
    variables = {_their_name(name, inverse): value for name, value in parameters.items()}
    return {name: value.T if is_transposed(name) else value for name, value in variables.items()}


def _their_name(name: str, inverse: dict[str, str]) -> str:
    if name in inverse:
        return inverse[name]
    name = re.sub(r"layer\.(\d+)", r"layer_\1", name).replace(".", "/")
    name = re.sub(r"_embeddings/weight$", "_embeddings", name)
    for theirs, ours in PARTS:
        name = name.replace(ours, theirs)
    return re.sub(r"/weight$", "/kernel", name)
