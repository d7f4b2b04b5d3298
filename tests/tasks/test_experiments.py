"""Each experiment runs the rows and the columns of its table in the paper."""

import pytest

from bertcli.config.data import MakePretrainingDataConfig
from bertcli.config.training import FinetuneConfig, PretrainConfig
from bertcli.errors import UserError
from bertcli.tasks import get_task
from bertcli.tasks.experiments import EXPERIMENTS
from bertcli.tasks.experiments.experiment import Experiment


def test_there_are_eight_tables_a_figure_and_the_family() -> None:
    assert [*EXPERIMENTS] == [*(f"table-{number}" for number in range(1, 9)), "figure-5", "family"]


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_its_rows_are_of_the_paper_and_its_options_are_of_the_commands(experiment: Experiment) -> None:
    names = [system.name for system in experiment.systems]
    rows = experiment.table.rows or names
    assert {*names, *(system.beside for system in experiment.systems)} <= {*rows, ""}
    for system in experiment.systems:
        PretrainConfig.from_values(dict(system.pretrain or {}))
        MakePretrainingDataConfig.from_values({"family": system.family, **system.data})
        for column in experiment.columns:
            FinetuneConfig.from_values({**system.finetune, **column.finetune})


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_no_score_that_the_paper_prints_of_dev_is_left_out(experiment: Experiment) -> None:
    printed = {column for column in experiment.table.columns if " test" not in column}
    assert printed <= {column.paper for column in experiment.columns}
    assert len({column.head for column in experiment.columns}) == len(experiment.columns)


def test_a_large_model_stands_beside_the_papers_large() -> None:
    table = EXPERIMENTS["table-2"]
    (system,), rows = table.systems, {}
    for model in ("minilm", "google-bert/bert-base-uncased", "google-bert/bert-large-uncased", "large-texts/runs/own"):
        rows[model] = table.paper_row(system, model)
    assert list(rows.values()) == ["BERT base", "BERT base", "BERT large", "BERT base"]
    assert [table.paper_score("BERT large", column) for column in table.columns] == [84.1, 90.9]
    frozen = EXPERIMENTS["table-7"].systems[1]
    assert EXPERIMENTS["table-7"].paper_row(frozen, "bert-large-cased") == frozen.name


def test_a_note_belongs_to_the_rows_that_it_is_about() -> None:
    table = EXPERIMENTS["table-5"]
    assert [note.split(":")[0] for note in table.all_notes] == ["Left to right"]
    assert table.with_rows(["No NSP"]).all_notes == []


def test_some_of_the_columns_may_be_asked_for() -> None:
    table = EXPERIMENTS["table-8"]
    heads = [column.head for column in table.columns]
    assert [column.head for column in table.with_columns(heads[1:2]).columns] == heads[1:2]
    with pytest.raises(UserError, match="column"):
        table.with_columns(["conll2003"])


def test_a_task_that_the_table_lacks_is_added_without_a_score() -> None:
    sst2, rte = get_task("sst2"), get_task("rte")
    table = EXPERIMENTS["table-5"].with_tasks([sst2, rte])
    assert [column.head for column in table.columns] == ["sst2 accuracy", "rte accuracy"]
    assert [table.paper_score("BERT base", column) for column in table.columns] == [92.7, None]
    figure = EXPERIMENTS["figure-5"].with_tasks([rte])
    assert [column.at for column in figure.columns] == [0.2, 0.4, 0.5, 0.6, 0.8, 1.0]
    assert {figure.paper_score("masked LM", column) for column in figure.columns} == {None}
