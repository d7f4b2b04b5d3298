"""What is learnt, as values: a task is a few lines of data."""

from bertcli.errors import unknown
from bertcli.tasks.glue import GLUE
from bertcli.tasks.imdb import IMDB
from bertcli.tasks.squad import SQUAD, SQUAD_V2
from bertcli.tasks.task import Task

TASKS: dict[str, Task] = {task.name: task for task in (*GLUE, SQUAD, SQUAD_V2, IMDB)}


def get_task(name: str) -> Task:
    """Find a task by its name, forgivingly: `glue/mnli`, `mnli`, `MNLI`, `SST-2`.

    Raises:
        UserError: if there is none, with the nearest name.
    """
    plain = {_plain(known): task for known, task in TASKS.items()}
    plain |= {_plain(known.rpartition("/")[2]): task for known, task in TASKS.items()}
    if _plain(name) not in plain:
        raise unknown(
            "task", name, {*TASKS, *(known.rpartition("/")[2] for known in TASKS)}, "`bert tasks` lists them."
        )
    return plain[_plain(name)]


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(".", "")
