"""The tasks as values, a few lines of data each, and every number of the paper."""

from bertcli.errors import unknown
from bertcli.tasks.banking77 import BANKING77
from bertcli.tasks.conll2003 import CONLL2003
from bertcli.tasks.glue import GLUE
from bertcli.tasks.imdb import IMDB
from bertcli.tasks.squad import SQUAD, SQUAD_V2
from bertcli.tasks.swag import SWAG
from bertcli.tasks.task import Task

TASKS: dict[str, Task] = {task.name: task for task in (*GLUE, SQUAD, SQUAD_V2, SWAG, CONLL2003, IMDB, BANKING77)}
SQUAD_VERSIONS = {"1": SQUAD, "11": SQUAD, "2": SQUAD_V2, "20": SQUAD_V2}  # as people write them: SQuAD 1.1, squad-v2.0


def get_task(name: str, see: str = "`bert tasks` lists them.") -> Task:
    """Find a task by its name in any spelling: `glue/mnli`, `mnli`, `MNLI`, `SST-2`; raises UserError with the nearest name."""
    if not is_task(name):
        raise unknown("task", name, {*TASKS, *(_short(known) for known in TASKS)}, see)
    return _by_plain_name()[_plain(name)]


def is_task(name: str) -> bool:
    """Whether a name is a task's, in any of its spellings."""
    return _plain(name) in _by_plain_name()


def _by_plain_name() -> dict[str, Task]:
    named = {_plain(spelling): task for name, task in TASKS.items() for spelling in (name, _short(name))}
    return named | {f"squad{v}{number}": task for v in ("", "v") for number, task in SQUAD_VERSIONS.items()}


def _short(name: str) -> str:
    return name.rpartition("/")[2]


def _plain(name: str) -> str:
    return "".join(character for character in name.lower() if character not in "-_. ")
