"""A recipe gives the options that are not given, and what belongs to its length changes with it."""

from pathlib import Path

from bertcli.config.recipes import with_recipe


def test_the_warmup_of_a_recipe_is_shortened_with_its_steps(workspace: Path) -> None:
    assert with_recipe("pretrain/base", {})["warmup_steps"] == 10_000
    assert with_recipe("pretrain/base", {"steps": 2_000_000})["warmup_steps"] == 10_000
    assert with_recipe("pretrain/base", {"steps": 5_000})["warmup_steps"] == 50
    assert with_recipe("pretrain/base", {"steps": 5_000, "warmup_steps": 7})["warmup_steps"] == 7
    Path("own.yaml").write_text("steps: many\nwarmup_steps: 10\n")
    assert with_recipe("own.yaml", {"steps": 5})["warmup_steps"] == 10
    by_compute = with_recipe("pretrain/base", {"flops": 1e12})
    assert by_compute.keys() & {"steps", "warmup_steps"} == set()
