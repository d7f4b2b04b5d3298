"""Which layers of a teacher a student gets."""

from bertcli import say
from bertcli.config.distillation import DistillConfig
from bertcli.errors import UserError

COUNTS = ("num_hidden_layers", "n_layers")  # of the layers, as config.json spells it


def layers_to_keep(of_teacher: int, of_student: int) -> list[int]:
    """The layers of the teacher that the student gets, evenly spread from first to last: 0, 2, 4, 7, 9, 11 for 6 of 12.

    Raises UserError if the teacher has fewer.
    """
    if of_student > of_teacher:
        what = f"--layers {of_student} is more than the {of_teacher} layers of the teacher."
        raise UserError(what, f"Give --layers {of_teacher} or less.")
    last, step = of_student - 1, (of_teacher - 1) / max(1, of_student - 1)
    half = max(1, of_student // 2)  # each half is counted from its end, as torch.linspace does
    places = (step * layer if layer < half else of_teacher - 1 - step * (last - layer) for layer in range(of_student))
    return [round(place) for place in places]


def chosen_layers(of_teacher: int, config: DistillConfig, shape: str = "") -> list[int]:
    """The layers of the teacher that the student gets, half of them if nothing is asked for; says which.

    Raises UserError if the teacher does not have them.
    """
    layers = layers_of(of_teacher, config)
    said = f"student: layers {', '.join(map(str, layers))} of the {of_teacher} of the teacher, counted from 0"
    say(f"{said}; shape: {shape}" if shape else said)
    return layers


def layers_of(of_teacher: int, config: DistillConfig) -> list[int]:
    """The same, and nothing is said."""
    if config.teacher_layers:
        return _named_layers(config.teacher_layers, of_teacher)
    return layers_to_keep(of_teacher, config.layers or max(1, of_teacher // 2))


def _named_layers(numbers: str, of_teacher: int) -> list[int]:
    """The layers that are named, such as 0,1,4,5."""
    known = {str(number): number for number in range(of_teacher)}
    for each in numbers.split(","):
        if each.strip() not in known:
            what = f"--teacher-layers: the teacher has no layer `{each.strip()}`."
            raise UserError(what, f"Give numbers from 0 to {of_teacher - 1} with commas between them.")
    return [known[each.strip()] for each in numbers.split(",")]
