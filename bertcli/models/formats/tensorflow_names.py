"""Names of the original's variables, and of the parameters of transformers that they become."""

import re

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[np.generic]]

OUTPUTS = {"cls/seq_relationship/": "cls.seq_relationship", "cls/squad/": "qa_outputs", "": "classifier"}
# The original's names and those of transformers.
WHOLE = {f"{theirs}output_weights": f"{ours}.weight" for theirs, ours in OUTPUTS.items()}
WHOLE |= {f"{theirs}output_bias": f"{ours}.bias" for theirs, ours in OUTPUTS.items()}
WHOLE["cls/predictions/output_bias"] = "cls.predictions.bias"
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


def to_parameters(variables: Arrays) -> Arrays:
    """Parameters from variables of the original, without those that are no weights: Adam's averages, the step."""
    kept = {name: value for name, value in _transposed(variables).items() if not NOT_WEIGHTS.search(name)}
    return {our_name(name): value for name, value in kept.items()}


def to_variables(parameters: Arrays) -> Arrays:
    """Variables of the original from parameters, by the inverse of `our_name`."""
    return _transposed({_their_name(name): value for name, value in parameters.items()})


def _transposed(variables: Arrays) -> Arrays:
    """Transpose the kernels, which are [in, out], where the weight of a Linear is [out, in]."""
    return {name: value.T if name.endswith("/kernel") else value for name, value in variables.items()}


def _their_name(name: str) -> str:
    if name in WHOLE.values():
        return next(theirs for theirs, ours in WHOLE.items() if ours == name)
    name = re.sub(r"layer\.(\d+)", r"layer_\1", name).replace(".", "/")
    name = re.sub(r"_embeddings/weight$", "_embeddings", name)
    for theirs, ours in PARTS:
        name = name.replace(ours, theirs)
    return re.sub(r"/weight$", "/kernel", name)
