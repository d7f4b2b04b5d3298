"""The command line: one line of what, one line of what to type, exit code 2, nothing left behind."""

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import write_corpus

from bertcli import __version__, say
from bertcli.cli import console
from bertcli.cli.console import Output
from bertcli.cli.main import main
from bertcli.config.training import PretrainConfig
from bertcli.lifecycle.build_vocab import build_vocab

NAMING_FILES = ("finetune", "evaluate", "predict --file", "similar --text a --file", "report", "pretrain --recipe")


def run(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["bert", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    logger = logging.getLogger("bertcli")  # as it was before `Output.start`
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)
    logger.propagate = True
    return int(ended.value.code), out, err


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture
def bad_files(workspace: Path) -> Path:
    Path("empty.txt").touch()
    Path("blank.txt").write_text("\n \n\n")
    Path("binary.txt").write_bytes(b"text\n\x00\x01\x02\n")
    Path("latin.txt").write_bytes("one\ntwo\ncafé\n".encode("latin-1"))
    Path("folder").mkdir()
    Path("good.csv").write_text("text,label\n" + "a,x\nb,y\n" * 20)
    Path("unknown.yaml").write_text("stepz: 3\n")
    Path("broken.yaml").write_text("a: [1\n")
    Path("tagged.conll").write_text("Rome B-LOC\n")
    write_corpus(Path("corpus.txt"))
    build_vocab("corpus.txt", vocab_size=100)
    return workspace


def test_the_version_is_printed_alone(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["--version"], capsys, monkeypatch) == (0, f"{__version__}\n", "")


@pytest.mark.parametrize(
    ("command", "what", "hint"),
    [
        ("build-vocab", "No text files", "corpus/*.txt"),
        ("build-vocab missing.txt", "`missing.txt`", "Check the name"),
        ("build-vocab empty.txt --out new", "`empty.txt` is empty", "put text"),
        ("build-vocab blank.txt --out new", "blank lines only", "Name files"),
        ("build-vocab binary.txt --out new", "`binary.txt` line 2", "text files"),
        ("build-vocab latin.txt --out new", "`latin.txt` line 3 is not UTF-8", "iconv"),
        ("build-vocab folder --out new", "`folder` holds no text files", "folder/*"),
        ("build-vocab corpus.txt --vocab-size 12 --out new", "--vocab-size 12 is too small", "--vocab-size"),
        ("build-vocab corpus.txt --vocab-size 3", "--vocab-size is 3", "10 or more"),
        ("build-vocab corpus.txt --out good.csv", "not a vocabulary folder", "--out"),
        ("build-vocab corpus.txt --to vocab", "go together", "--add-words FILE"),
        ("build-vocab --add-words corpus.txt --to vocab", "`vocab` holds no model", "config.json"),
        ("make-pretraining-data corpus.txt --tokenizer nowhere/x", "no tokenizer `nowhere/x`", "build-vocab"),
        ("make-pretraining-data latin.txt", "`latin.txt` line 3", "iconv"),
        ("make-pretraining-data corpus.txt --masking dynamc", "`dynamc`", "`dynamic`"),
        ("make-pretraining-data corpus.txt --masked-lm-prob 1.5", "--masked-lm-prob is 1.5", "1 or less"),
        ("make-pretraining-data corpus.txt --max-seq-length 4", "--max-seq-length is 4", "5 or more"),
        ("make-pretraining-data corpus.txt --shards 1000", "cannot fill 1000 shards", "--shards"),
        ("pretrain", "no pre-training data in this folder yet", "bert make-pretraining-data"),
        ("pretrain --data folder", "`folder` holds no pre-training data", "--out folder"),
        (
            "pretrain --data blank.txt",
            "`blank.txt` holds no pre-training",
            "bert make-pretraining-data blank.txt --out",
        ),
        ("pretrain --size tny", "`tny`", "`tiny`"),
        ("pretrain --sise tiny", "--sise", "--size"),
        ("pretrain --wombat tiny", "--wombat", "pretrain --help"),
        ("finetune good.csv --model minilm", "--model", "--from"),
        ("finetune good.csv --num_train_epochs 3", "--num_train_epochs", "--epochs"),
        ("finetune good.csv --from bert-books --family electra", "--family is for new weights", "--from scratch"),
        ("pretrain --steps many", "--steps", "pretrain --help"),
        ("pretrain --recipe unknown.yaml", "recipe key `stepz`", "`steps`"),
        ("pretrain --recipe glue/rte", "recipe key `task`", "a recipe of another command?"),
        ("pretrain --recipe broken.yaml", "is not YAML", "recipes show"),
        ("pretrain --recipe pretrain/tny", "recipe `pretrain/tny`", "pretrain/tiny"),
        ("pretrain --recipe folder", "is a folder", "bert recipes"),
        ("pretrain --resume", "no pre-training data", "bert make-pretraining-data"),
        ("pretrian", "No such command 'pretrian'", "'pretrain'"),
        ("finetune", "Which task?", "bert finetune glue/sst2"),
        ("finetune glue/mlni", "task `glue/mlni`", "`glue/mnli`"),
        ("finetune glue/sst2 --data-dir nowhere", "`nowhere`", "--data-dir"),
        ("finetune missing.csv", "`missing.csv`", "bert tasks"),
        ("finetune folder", "`folder` has no train, dev or test file", "train.csv"),
        ("finetune good.csv --label lable", "`lable`", "`label`"),
        ("finetune good.csv --from runs/nothing", "no model `runs/nothing`", "runs/"),
        ("finetune good.csv --from scratch", "needs a size", "--size tiny"),
        (
            "finetune good.csv --from scratch --size tiny --max-seq-length 600",
            "longer than the model's 512 positions",
            "512 or less",
        ),
        ("finetune good.csv --size mini", "--size mini is only for new weights", "--from scratch --size mini"),
        ("finetune good.csv --batch-size 2 --processes 4", "--batch-size 2 is less than --processes", "each process"),
        ("finetune good.csv --grid papre", "`papre`", "`paper`"),
        (
            "finetune good.csv --grid paper --batch-size 8 --learning-rate 1e-4 --epochs 1",
            "nothing to try",
            "Leave out the recipe",
        ),
        ("finetune good.csv --kind sort", "`sort`", "span"),
        ("evaluate", "Which task?", "bert evaluate glue/sst2"),
        ("evaluate glue/sst2", "no finished run of glue/sst2", "bert finetune glue/sst2"),
        ("evaluate squad --predictions missing.json", "missing.json", "--predictions"),
        ("evaluate good.csv --predictions folder", "is a folder", "--predictions"),
        ("predict", "There is no input", "--text"),
        ("predict --text a", "no finished run for one text in this folder", "bert finetune"),
        ("predict glue/sst2 --features states.npz", "has its own texts", "bert predict glue/sst2"),
        ("predict --text a --pooling cls", "--pooling needs --features", "Leave it out"),
        ("predict --text a --split test", "--split needs a TASK", "Leave it out"),
        ("finetune good.csv --epochs 0", "--epochs", "0.001"),
        ("finetune good.csv --learning-rate inf", "--learning-rate is inf", "a number"),
        *((f"{command} {'a' * 300}", "too long for the name of a file", "--text") for command in NAMING_FILES),
        ("predict --text a --file b", "do not go together", "--text"),
        ("predict --text a --text b", "--text takes one value, and is given more than once", "Give --text once"),
        ("predict --text=a --text b", "--text takes one value", "Give --text once"),
        ("predict hello-there,you", "`hello-there,you` is not a task", "bert predict --file"),
        ("finetune good.csv --from bert-books --max-seq-length 600", "longer than the model's 512 positions", "512"),
        ("predict --text I like it", "Too many arguments: it", "in quotes"),
        ("predict --question why", "needs its context", "--context"),
        ("predict --file good.csv --text-pair a", "--text-pair does not go with --file", "--text"),
        ("predict --file tagged.conll", "no finished run for one text in this folder", "bert finetune"),
        ("evaluate good.csv --split half --model bert-books", "Unknown split `half`", "test"),
        ("predict --text a --model folder", "`folder` holds no model", "config.json"),
        ("predict --text a --precision float8", "`float8`", "float"),
        ("export", "no finished run in this folder", "bert finetune"),
        ("export bert-books --format onx", "`onx`", "`onnx`"),
        ("export bert-books --precision float16", "onnx is not written in float16", "float32 or int8"),
        ("export bert-books --format safetensors --out folder/..", "is not empty", "--out NEW-FOLDER"),
        ("reproduce", "Which experiment?", "bert reproduce table-5"),
        ("reproduce tble-5", "`tble-5`", "`table-5`"),
        ("reproduce table-5 --data-dir folder", "has no data for table-5", "--tasks glue/rte"),
        ("serve", "no finished run in this folder", "bert finetune"),
        ("serve runs/none", "no model `runs/none`", "runs/"),
        ("serve bert-books --host nowhere.invalid", "--host nowhere.invalid", "address of this machine"),
        ("recipes show nothing", "recipe `nothing`", "bert recipes"),
    ],
)
def test_a_wrong_request_is_one_line_of_what_and_one_of_what_to_type(
    bad_files: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    what: str,
    hint: str,
) -> None:
    before = files_below(bad_files)
    code, out, err = run(command.split(), capsys, monkeypatch)
    assert code == 2, err
    assert out == ""
    *_, first, second = err.strip().splitlines()
    assert first.startswith("error: ")
    assert what in first
    assert second.startswith("hint: ")
    assert hint in second
    assert "Traceback" not in err
    assert files_below(bad_files) == before


def test_a_vocabulary_that_does_not_fit_is_refused(
    at_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_corpus(tmp_path / "other.txt", seed=5)
    build_vocab(str(tmp_path / "other.txt"), vocab_size=90, out=str(tmp_path / "other"))
    code, _, err = run(["pretrain", "--size", "tiny", "--tokenizer", str(tmp_path / "other")], capsys, monkeypatch)
    assert code == 2
    assert "is not the one that" in err


def test_one_document_is_allowed_and_said(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("one.txt").write_text("\n".join(["the cat sat on the mat"] * 30))
    build_vocab("one.txt", vocab_size=40, min_frequency=1)
    code, _, err = run(["make-pretraining-data", "one.txt"], capsys, monkeypatch)
    assert code == 0
    assert "one document" in err
    code, _, err = run(
        ["make-pretraining-data", "one.txt", "--no-next-sentence", "--out", "alone"], capsys, monkeypatch
    )
    assert code == 0
    assert "one document" not in err
    assert "of 1 document, 1 shard" in err


@pytest.mark.torture
def test_one_document_is_one_shard_however_long(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("one.txt").write_text("\n".join(["the cat sat on the mat"] * 30))
    build_vocab("one.txt", vocab_size=40, min_frequency=1)
    Path("long.txt").write_text("the cat sat on the mat\n" * 600_000)  # text for two shards
    code, _, _ = run(["make-pretraining-data", "long.txt", "--dupe-factor", "1", "--out", "long"], capsys, monkeypatch)
    assert code == 0
    assert len(list(Path("long").glob("*.parquet"))) == 1


def test_recipes_are_copied_into_folders(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for target, file in (("new/mine.yaml", "new/mine.yaml"), ("new", "new/tiny.yaml")):
        assert run(["recipes", "copy", "pretrain/tiny", target], capsys, monkeypatch)[:2] == (0, f"{file}\n")
        assert Path(file).exists()


def test_flags_win_over_the_recipe_which_wins_over_defaults(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("mine.yaml").write_text("size: mini\nsteps: 7\nlearning-rate: 1e-3\nfrom: somewhere\n")
    command = ["pretrain", "--recipe", "mine.yaml", "--steps", "9", "--print-config"]
    code, out, _ = run(command, capsys, monkeypatch)
    printed = yaml.safe_load(out)
    assert code == 0
    assert (printed["size"], printed["steps"], printed["learning_rate"], printed["from"]) == (
        "mini",
        9,
        1e-3,
        "somewhere",
    )
    assert printed["batch_size"] == PretrainConfig().batch_size
    _, out, _ = run([*command, "--json"], capsys, monkeypatch)
    assert json.loads(out) == printed


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(
    at_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("dry.yaml").write_text("size: tiny\nsteps: 5\ndry-run: true\n")
    before = files_below(at_home)
    for options in (["--size", "tiny", "--steps", "5", "--dry-run"], ["--recipe", "dry.yaml"]):
        code, _, err = run(["pretrain", *options], capsys, monkeypatch)
        assert code == 0
        assert "5 steps" in err
        assert files_below(at_home) == before
    Path("dry.yaml").unlink()
    request = ["predict", "--text", "a [MASK]", "--model", "bert-books", "--dry-run", "--json"]
    code, out, _ = run(request, capsys, monkeypatch)
    assert (code, json.loads(out)["predictions"]) == (0, 0)


def test_json_is_one_object_alone_on_stdout(
    at_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [
        "pretrain",
        "--size",
        "tiny",
        "--steps",
        "2",
        "--batch-size",
        "4",
        "--out",
        str(tmp_path / "run"),
        "--json",
        "--quiet",
    ]
    code, out, err = run(arguments, capsys, monkeypatch)
    assert code == 0
    assert err == ""
    result = json.loads(out)
    assert result.keys() >= {"run", "model", "task", "steps", "tokens_per_second", "losses", "metrics", "seed"}
    assert result["steps"] == 2


HEAVY = ("torch", "transformers", "datasets", "evaluate", "accelerate", "numba", "sklearn", "scipy")
COMMANDS = (
    "build-vocab",
    "make-pretraining-data",
    "pretrain",
    "finetune",
    "evaluate",
    "predict",
    "similar",
    "report",
    "export",
    "serve",
    "submit",
    "convert",
    "demo",
)
LIGHT = [
    "--help",
    "--version",
    "tasks",
    "tasks --json",
    "sizes",
    "families",
    "recipes",
    "recipes show pretrain/base",
    "recipes show pretrain/base --json",
    "pretrain --print-config",
    *(f"{command} --help" for command in COMMANDS),
    "pretrian",
    "pretrain --sise tiny",
    "pretrain --steps many",
    "pretrain --size tny",
    "pretrain --recipe pretrain/tny",
    "pretrain --recipe unknown.yaml",
    "finetune --kind sort",
    "finetune --grid papre",
    "finetune --epochs 0",
    "predict --precision float8",
    "submit nothing",
    "recipes show nothing",
    "build-vocab",
    "build-vocab missing.txt",
    "make-pretraining-data --masking dynamc",
]
REJECTED = [
    "finetune",
    "finetune glue/mlni",
    "finetune missing.csv",
    "evaluate",
    "evaluate glue/mlni",
    "evaluate missing.csv",
    "predict",
    "predict --text a --split test",
    "pretrain",
    "pretrain --resume",
    "pretrain --data nowhere",
    "finetune --resume",
    "finetune nofile.csv",
    "finetune good.csv --label nocolumn",
    "finetune good.csv --kind classify --frozen",
    "finetune good.csv --data-dir .",
    "finetune good.csv --from runs/none",
    "finetune glue/sst2 --label x",
    "evaluate glue/rte",
    "evaluate glue/rte --label x",
    "evaluate good.csv",
    "evaluate good.csv --model runs/none",
    "evaluate good.csv --model bert-books",
    "distill good.csv --teacher bert-books",
    "evaluate good.csv --predictions none.csv",
    "evaluate good.csv --na-probs none.json --predictions good.csv",
    "predict --text a",
    "predict --text a --model runs/none",
    "predict --file nofile.csv",
    "predict --text a --file b",
    "predict glue/rte",
    "predict --text a --explain",
    "predict --text a --explain wrods",
    "predict --text a --explain attention --explain-page a.csv",
    "predict --compare a b",
    "similar",
    "similar --file nofile.csv --text a",
    "similar --file good.csv",
    "finetune good.csv --from bert-books --max-seq-length 600",
    "similar --file good.csv --text a --model runs/none",
    "similar --file good.csv --text a --text-column nocolumn --model bert-books",
    "export",
    "export runs/none",
    "export bert-books --precision float16",
    "serve",
    "serve runs/none",
    "serve bert-books --host nowhere.invalid",
    "submit glue",
    "submit glue runs/none",
    "convert",
    "convert nowhere/at/all",
    "make-pretraining-data missing.txt",
    "make-pretraining-data words.txt",
    "make-pretraining-data words.txt --tokenizer nowhere",
    "build-vocab --add-words words.txt --to runs/none",
]


def heavy_imports(requests: list[str], heavy: tuple[str, ...] = HEAVY) -> dict[str, list[str]]:
    """The heavy packages that are imported after each of these requests, which one process makes one after another."""
    program = (
        "import contextlib, io, json, sys\n"
        "from bertcli.cli.main import main\n"
        "found = {}\n"
        f"for request in {requests!r}:\n"
        "    sys.argv = ['bert', *request.split()]\n"
        "    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):\n"
        "        try: main()\n"
        "        except SystemExit: pass\n"
        f"    found[request] = sorted({{*{heavy!r}}} & sys.modules.keys())\n"
        "print(json.dumps(found))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={**os.environ}
    )
    return json.loads(done.stdout)


def test_help_lists_and_wrong_requests_import_no_heavy_package(workspace: Path) -> None:
    Path("unknown.yaml").write_text("stepz: 3\n")
    assert {
        request: heavy for request, heavy in heavy_imports(LIGHT, (*HEAVY, "numpy", "http.client")).items() if heavy
    } == {}


def test_requests_that_a_core_rejects_import_no_heavy_package(workspace: Path) -> None:
    Path("good.csv").write_text("text,label\n" + "a,x\nb,y\n" * 20)
    Path("words.txt").write_text("word\n")
    assert {request: heavy for request, heavy in heavy_imports(REJECTED).items() if heavy} == {}


def test_a_task_whose_data_are_nowhere_is_said_without_torch(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert heavy_imports(["finetune glue/rte", "baseline glue/rte"], ("torch",)) == {
        "finetune glue/rte": [],
        "baseline glue/rte": [],
    }


def test_help_in_80_columns_leaves_room_for_its_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(["finetune", "--help"], capsys, monkeypatch)
    assert code == 0
    assert "Stride between the windows over a" in out  # on one line
    assert "off: --no-baseline" in " ".join(out.replace("│", " ").split())
    code, _, err = run(["finetune", "glue/rte", "--no-baseline", "--epochs", "many"], capsys, monkeypatch)
    assert (code, "no-baseline" in err) == (2, False)  # which is taken as before


def test_every_commands_help_shows_examples(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in COMMANDS[:11]:
        code, out, _ = run([name, "--help"], capsys, monkeypatch)
        assert code == 0
        assert f"bert {name} " in out


def test_a_file_whose_name_begins_with_a_dash_is_named_so_that_it_is_no_option(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("-l.csv").write_text("text,label\n" + "a,x\nb,y\n" * 20)
    code, _, err = run(["finetune", "-l.csv"], capsys, monkeypatch)
    assert (code, "Did you mean ./-l.csv?" in err) == (2, True)
    assert run(["finetune", "./-l.csv", "--from", "bert-books", "--dry-run"], capsys, monkeypatch)[0] == 0


def test_the_list_of_commands_says_what_each_does_and_imports_none() -> None:
    program = "import sys; sys.argv = ['bert', '--help']; from bertcli.cli.main import main\n"
    program += "try: main()\nfinally: print([name for name in sys.modules if name.startswith('bertcli.config.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    *shown, imported = done.stdout.splitlines()
    assert imported == str(["bertcli.config.options", "bertcli.config.recipes"])
    for name in (*COMMANDS, "distill", "baseline", "reproduce"):
        (described,) = (line for line in shown if line.startswith(f"│ {name} "))
        assert described.removeprefix(f"│ {name}").strip(" │")[0].isupper()


@pytest.mark.parametrize("width", [60, 80])
def test_tables_fit_narrow_terminals_and_keep_names_whole(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [["google-bert/bert-base-uncased", "109.5 M", "a long text of what it is " * 9, 92.7]] * 2
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    monkeypatch.setenv("COLUMNS", str(width))
    Output().table(["model", "parameters", "about", "paper base, test"], rows)
    out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert max(map(len, out.splitlines())) <= width
    for whole in ("google-bert/bert-base-uncased", "109.5 M", "92.7", *(["parameters"] if width > 60 else [])):
        assert whole in out


def test_what_a_terminal_would_obey_is_not_printed_of_data(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "a \x1b]0;title\x07 \x1b[31mred\x9b"
    Output().start()
    Output().table(["text"], [[hostile]])
    Output().shaded([(hostile, 0.0)])
    say(hostile)
    console.error(hostile, hostile)
    shown = "".join(capsys.readouterr())
    assert shown.count("a \ufffd]0;title\ufffd \ufffd[31mred\ufffd") == 5
    assert not {"\x1b", "\x07", "\x9b"} & {*shown}


@pytest.mark.parametrize("width", [60, 80])
def test_notes_on_a_terminal_break_between_words_and_elsewhere_not_at_all(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    note = (
        "  20 steps of 32 (20 epochs), adamw, learning rate 0.0001; data: " + "a-long-name/" * 8 + " and 3 more\nlast"
    )
    monkeypatch.setenv("COLUMNS", str(width))
    for is_terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda answer=is_terminal: answer)
        Output().start()
        say(note)
        shown = capsys.readouterr().err
        assert shown.split() == note.split()
        assert (shown == f"{note}\n") is not is_terminal
    assert all(len(line) <= width or line.strip().startswith("a-long-name/") for line in shown.splitlines())
    assert shown.startswith("  20 steps")
    assert shown.endswith("\nlast\n")
