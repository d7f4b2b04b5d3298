"""FNet (Lee-Thorp et al. 2022), which mixes tokens by a Fourier transform instead of attention."""

from typing import TYPE_CHECKING, Any

from bertcli.families.family import Family

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def _transform_in_float32(model: "PreTrainedModel", source: str) -> None:
    """Run the transforms in float32, the only precision torch supports, whatever the dtype of the weights."""
    for module in model.modules():
        if type(module).__name__ == "FNetBasicFourierTransform":
            module.register_forward_pre_hook(_to_float32)
            module.register_forward_hook(_back)


def _to_float32(transform: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    transform.given_dtype = inputs[0].dtype
    return tuple(states.float() for states in inputs)


def _back(transform: Any, _: Any, outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(states.to(transform.given_dtype) for states in outputs)


FNET = Family("FNet", ("fnet",), prepare=_transform_in_float32)
