"""Table 6: model size, as layers/hidden units/heads; each row is compared with the one above it."""

from bertcli.tasks.experiments.experiment import PERPLEXITY, Column, Experiment, System, columns_of
from bertcli.tasks.paper import TABLES

SHAPE = ("layers", "hidden_size", "heads")
ROWS = tuple(TABLES[6].rows)
TABLE_6 = Experiment(
    "table-6",
    TABLES[6],
    tuple(
        System(row, above, {"objective": "mlm+nsp", **dict(zip(SHAPE, map(int, row.split("/")), strict=True))})
        for above, row in zip(("", *ROWS), ROWS, strict=False)
    ),
    (Column(TABLES[6].columns[0], "", PERPLEXITY), *columns_of(TABLES[6])),
)
