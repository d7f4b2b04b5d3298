"""Names of the original's variables, and of the parameters of transformers that they become."""

import re

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[np.generic]]

OUTPUTS = {"cls/seq_relationship/": "cls.seq_relationship", "cls/squad/": "qa_outputs", "": "classifier"}
# The original's names and those of transformers.
WHOLE = {f"{theirs}output_{part}": f"{ours}.{part.removesuffix('s')}" for theirs, ours in OUTPUTS.items() for part in ("weights", "bias")}
WHOLE |= {"cls/predictions/output_bias": "cls.predictions.bias"}
PARTS = (("LayerNorm/gamma", "LayerNorm/weight"), ("LayerNorm/beta", "LayerNorm/bias"))
NOT_WEIGHTS = re.compile(r"adam_[mv]$|global_step$|^(beta|Variable)")  # what the optimizer keeps


def our_name(name: str) -> str:
    """The parameter's name of a variable: `bert/encoder/layer_0/...` is `bert.encoder.layer.0...`."""
    if name in WHOLE:
        return WHOLE[name]
    for theirs, ours in PARTS:
        name = name.replace(theirs, ours)
    name = re.sub(r"layer_(\d+)", r"layer/\1", name)
    name = re.sub(r"_embeddings$", "_embeddings/weight", name)
    return name.replace("kernel", "weight").replace("/", ".")


def is_transposed(name: str) -> bool:
    """Whether a variable is the transpose of the parameter: a kernel is [in, out], the weight of a Linear [out, in]."""
    return name.endswith("/kernel")


def to_parameters(variables: Arrays) -> Arrays:
    """Parameters from variables of the original, without those that are no weights: Adam's averages, the step."""
    return {
        our_name(name): value.T if is_transposed(name) else value
        for name, value in variables.items()
        if not NOT_WEIGHTS.search(name)
    }


def to_variables(parameters: Arrays) -> Arrays:
    """Variables of the original from parameters, by the inverse of `our_name`."""
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
