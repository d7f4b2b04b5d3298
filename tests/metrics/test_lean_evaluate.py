"""Metrics are modules of `evaluate`, without the cost of its pipelines, which work when somebody wants them."""

import subprocess
import sys

import pytest


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_a_metric_imports_neither_torch_nor_transformers() -> None:
    shown = run(
        "import sys\n"
        "from bertcli.metrics.classification import Classification\n"
        "import evaluate\n"
        "assert issubclass(Classification, evaluate.Metric)\n"
        "scores = Classification(keep_in_memory=True).compute(predictions=[1, 0], references=[1, 1])\n"
        "print(scores['accuracy'], sorted({'torch', 'transformers', 'evaluate.evaluator'} & sys.modules.keys()))"
    )
    assert shown == "50.0 []\n"


@pytest.mark.torture
def test_the_evaluators_are_the_real_ones_when_they_are_used() -> None:
    shown = run(
        "import bertcli.metrics.regression\n"
        "import evaluate\n"
        "try: evaluate.nothing\n"
        "except AttributeError as error: print(error)\n"
        "from evaluate import EvaluationSuite, evaluator\n"
        "from evaluate.evaluator.base import Evaluator\n"
        "print(EvaluationSuite.__module__, evaluator.__module__, callable(evaluator), evaluate.Evaluator is Evaluator)"
    )
    assert shown == (
        "module 'evaluate' has no attribute 'nothing'\nevaluate.evaluation_suite evaluate.evaluator True True\n"
    )


@pytest.mark.torture
def test_a_package_that_is_imported_already_is_left_as_it_is() -> None:
    shown = run(
        "import evaluate\n"
        "suite = evaluate.EvaluationSuite\n"
        "import bertcli.metrics.regression\n"
        "print(evaluate.EvaluationSuite is suite, '__getattr__' in vars(evaluate))"
    )
    assert shown == "True False\n"
