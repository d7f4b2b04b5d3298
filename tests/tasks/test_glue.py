"""The diagnostic set of GLUE, which is scored with models of MNLI."""

from pathlib import Path

import pytest

from bertcli.errors import UserError
from bertcli.lifecycle.evaluate import evaluate
from bertcli.lifecycle.finetune import finetune
from bertcli.lifecycle.sources import find_source
from bertcli.reports.evaluation import evaluation_tables


def test_the_diagnostic_set_is_scored_with_the_mnli_model(at_home: Path, tmp_path: Path) -> None:
    mnli, diagnostic = tmp_path / "glue" / "MNLI", tmp_path / "glue" / "diagnostic"
    mnli.mkdir(parents=True)
    diagnostic.mkdir()
    pairs = [
        ("the cat sat", "a cat sat", "entailment"),
        ("the dog", "no dog", "contradiction"),
        ("a tree", "birds", "neutral"),
    ] * 8
    table = "\n".join(["index\tsentence1\tsentence2\tgold_label", *("\t".join(("1", *pair)) for pair in pairs)])
    for name in ("train", "dev_matched"):
        (mnli / f"{name}.tsv").write_text(table)
    with pytest.raises(UserError, match="no finished run of glue/mnli"):
        evaluate("glue/ax", data_dir=str(tmp_path))
    with pytest.raises(UserError, match="has no training data"):
        finetune("glue/ax", data_dir=str(tmp_path))
    run = finetune("mnli", data_dir=str(tmp_path), epochs=1, out=str(tmp_path / "run"))
    unlabelled = ["index\tsentence1\tsentence2", *("\t".join(("1", *pair[:2])) for pair in pairs)]
    (diagnostic / "diagnostic.tsv").write_text("\n".join(unlabelled))
    with pytest.raises(UserError, match="no column `Label`"):
        evaluate("ax", data_dir=str(tmp_path), model=run.run)
    assert len(find_source("ax", str(tmp_path)).read("test")) == 24
    head = "Lexical Semantics\tPredicate-Argument Structure\tLogic\tKnowledge\tDomain\tPremise\tHypothesis\tLabel"
    full = "\n".join([head, *("\t".join(("", "", "", "", "News", *pair)) for pair in pairs)])
    (diagnostic / "diagnostic-full.tsv").write_text(full)
    scored = evaluate("ax", data_dir=str(tmp_path), model=run.run)
    assert list(scored.metrics) == ["matthews_correlation", "accuracy"]
    assert scored.metrics["accuracy"] == evaluate("mnli", data_dir=str(tmp_path), model=run.run).metrics["accuracy"]
    (mnli / "dev_mismatched.tsv").write_text("\n".join(table.splitlines()[:7]))
    both = evaluate("mnli", data_dir=str(tmp_path), model=run.run)
    (mismatched,) = both.to_json()["other_splits"]
    assert (both.split, both.examples) == ("dev", 24)
    assert (mismatched["split"], mismatched["examples"]) == ("dev_mismatched", 6)
    assert [table.title for table in evaluation_tables(both)].count("dev_mismatched, 6 examples") == 1
    compared = evaluate("mnli", data_dir=str(tmp_path), model=[run.run, run.run])
    (mismatched,) = compared.other_splits
    assert [len(split.others[0].to_first) for split in (compared, mismatched)] == [1, 1]
    titles = [table.title for table in evaluation_tables(compared)]
    assert titles == ["glue/mnli dev", "dev_mismatched, 6 examples"]
