"""The Hub: whether it answers, what of it is on this machine, and downloads of models."""

import os
import sys
from functools import cache
from pathlib import Path
from threading import Thread

from bertcli import say
from bertcli.errors import RunError, UserError, first_line

SECONDS = 3  # to wait for an answer, once
SMALL_FILES = (".json", ".txt", ".model")  # configuration and tokenizer
POOLING = "1_Pooling/config.json"  # of models of sentence-transformers
WEIGHTS = (".safetensors", ".bin")  # in order of preference


@cache
def hub_answers() -> bool:
    """Whether the Hub answers within 3 seconds. If not, its libraries are kept from asking again."""
    if os.environ.get("HF_HUB_OFFLINE", "0").lower() in ("1", "true", "yes", "on"):
        return False
    answers: list[bool] = []
    asking = Thread(target=lambda: answers.append(_asked()), daemon=True)  # its name may take longer to look up
    asking.start()
    asking.join(SECONDS)
    if True in answers:
        return True
    os.environ["HF_HUB_OFFLINE"] = "1"  # read by the libraries as they are imported
    for settings in ("huggingface_hub.constants", "datasets.config"):
        if module := sys.modules.get(settings):
            module.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]
    return False


def _asked() -> bool:
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    request = Request(os.environ.get("HF_ENDPOINT", "https://huggingface.co"), method="HEAD")
    try:
        with urlopen(request, timeout=SECONDS):
            return True
    except HTTPError as error:
        return error.code == 404  # a mirror without a front page; anything else is a proxy in between
    except (OSError, ValueError):
        return False


def cache_of(name: str) -> Path:
    """The folder in which the Hub's client keeps the files of a model."""
    home = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("HF_HOME", f"{home}/huggingface")
    return Path(os.environ.get("HF_HUB_CACHE", f"{home}/hub"), f"models--{name.replace('/', '--')}").expanduser()


def cached_model(name: str) -> Path | None:
    """The folder of a model in the cache of the Hub, if its configuration and weights are there."""
    folder = cache_of(name)
    commit = folder / "refs" / "main"
    snapshot = folder / "snapshots" / (commit.read_text(encoding="utf-8").strip() if commit.is_file() else "none")
    there = [path for path in snapshot.glob("*") if path.exists()]  # a link to what was not downloaded does not
    return snapshot if (snapshot / "config.json").exists() and any(path.suffix in WEIGHTS for path in there) else None


def download_model(name: str) -> Path:
    """Download configuration, tokenizer and weights of a model. Raises UserError if there is none, RunError if that fails."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import RepositoryNotFoundError
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    try:
        listed = HfApi().list_repo_tree(name, recursive=True)
        sizes = _needed({file.path: file.size for file in listed if hasattr(file, "size")})
        say(f"downloading {name} from the Hub, {sum(sizes.values()) / 1e6:,.0f} MB")
        return Path(snapshot_download(name, allow_patterns=list(sizes)))
    except RepositoryNotFoundError:
        raise UserError(f"The Hub has no model `{name}`.", "`bert models` lists models to start from.") from None
    except Exception as error:  # the Hub's client raises a dozen kinds, network ones among them
        first = first_line(error)[:150]
        hint = "Try again, or give a folder that you have; `bert models` lists what is on this machine."
        raise RunError(f"`{name}` cannot be downloaded from the Hub ({first}).", hint) from error


def _needed(sizes: dict[str, int]) -> dict[str, int]:
    """Of the files of a model those that are read: configuration, tokenizer, weights in one format, pooling."""
    endings = (*SMALL_FILES, *[kind for kind in WEIGHTS if any(name.endswith(kind) for name in sizes)][:1])
    return {name: sizes[name] for name in sizes if name == POOLING or ("/" not in name and name.endswith(endings))}
