"""What is not given is chosen by the size of the data and of the model, and said."""

from dataclasses import replace

from bertcli.config.training import FinetuneConfig
from bertcli.families import family_of
from bertcli.lifecycle.defaults import choose_settings
from bertcli.tasks import get_task
from bertcli.tasks.task import Files, Task

OWN = Task("own.csv", "classify", Files({}, {}), ("", None), ("accuracy",), ("a", "b"))


def test_the_papers_tasks_get_the_papers_settings_on_its_sizes() -> None:
    task = get_task("glue/rte")
    chosen = choose_settings(FinetuneConfig(task="glue/rte"), task, 2490, 768)
    assert (chosen.batch_size, chosen.epochs, chosen.learning_rate) == (
        task.batch_size,
        task.epochs,
        task.learning_rate,
    )
    assert not chosen.reasons


def test_a_family_has_its_own_settings_on_the_sizes_of_its_paper() -> None:
    def rate(model_type: str, hidden: int) -> float:
        task = family_of(model_type).task_of(get_task("glue/rte"), hidden)
        return choose_settings(FinetuneConfig(task="glue/rte"), task, 2490, hidden).learning_rate

    assert [rate("electra", hidden) for hidden in (256, 768, 1024)] == [3e-4, 1e-4, 5e-5]
    assert [rate("deberta-v2", hidden) for hidden in (384, 768, 1024)] == [4.5e-5, 2e-5, 1e-5]
    assert rate("deberta", 1024) == 1e-5
    for family, hidden in (("electra", 128), ("deberta-v2", 256), ("deberta", 384)):  # no size of their papers
        assert rate(family, hidden) == rate("bert", hidden)


def test_narrow_models_learn_faster_and_few_examples_are_seen_more_often() -> None:
    rates = [
        choose_settings(FinetuneConfig(task="own.csv"), OWN, 50_000, width).learning_rate for width in (128, 384, 768)
    ]
    assert rates == sorted(rates, reverse=True)
    epochs = [choose_settings(FinetuneConfig(task="own.csv"), OWN, count, 384).epochs for count in (10, 500, 50_000)]
    assert epochs == sorted(epochs, reverse=True)
    assert epochs[-1] == OWN.epochs
    few = choose_settings(FinetuneConfig(task="own.csv"), OWN, 500, 384)
    assert few.reasons["epochs"] == "as 500 examples are few"


def test_many_labels_take_more_steps_than_few() -> None:
    many = Task("own.csv", "classify", Files({}, {}), ("", None), ("accuracy",), tuple(map(str, range(77))))
    config = FinetuneConfig(task="own.csv")
    assert choose_settings(config, many, 770, 384).epochs > choose_settings(config, OWN, 770, 384).epochs


def test_examples_with_choices_are_seen_less_often_as_each_choice_counts() -> None:
    config = FinetuneConfig(task="own.csv")
    classes = Task("own.csv", "classify", Files({}, {}), ("", None), ("accuracy",), tuple("0123"))
    alone, of_four = (
        choose_settings(config, each, 400, 384).epochs for each in (classes, replace(classes, kind="choose"))
    )
    assert of_four == round(alone / 4, 1) > OWN.epochs


def test_a_new_bilstm_takes_more_steps_than_a_head() -> None:
    config = FinetuneConfig(task="own.csv", bilstm=True)
    chosen = choose_settings(config, OWN, 4000, 128)
    assert chosen.epochs * 4000 / chosen.batch_size >= 1249
    assert "BiLSTM" in chosen.reasons["epochs"]


def test_what_is_given_counts() -> None:
    config = FinetuneConfig(task="own.csv", epochs=2.0, batch_size=7, learning_rate=0.0)
    chosen = choose_settings(config, OWN, 10, 128)
    assert (chosen.batch_size, chosen.epochs, chosen.learning_rate, chosen.reasons) == (7, 2.0, 0.0, {})
