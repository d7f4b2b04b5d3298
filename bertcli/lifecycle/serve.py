"""Answer requests over HTTP with the models of runs."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from errno import EADDRNOTAVAIL
from pathlib import Path
from typing import Any

from bertcli import say
from bertcli.config.use import ServeConfig
from bertcli.data.results import Result
from bertcli.errors import UserError, check_extra
from bertcli.lifecycle.predictor import check_engine, kind_to_serve
from bertcli.lifecycle.workspace import latest_finished_run, resolve_model

BACKLOG = 1024  # connections that the system holds until they are accepted


@dataclass(frozen=True)
class Served(Result):
    """What was served, after it has stopped."""

    address: str
    models: dict[str, str]  # the folder of each by its name
    requests: int = 0


def serve(runs: ServeConfig | str | None = None, **options: Any) -> Served:
    """Serve the models of runs, by default of the latest, until SIGINT or SIGTERM; what was asked before is answered.

    Raises UserError if there is no such model, two have the same name, or the port is in use.
    """
    config = ServeConfig.build(runs, options)
    check_extra("serve", "starlette", "uvicorn", "httptools", "prometheus_client", use="bert serve")
    check_engine(config.engine)
    models = _named([resolve_model(run) for run in config.runs] or [str(latest_finished_run().model)], config.runs)
    with listening(config) as listener:
        host, port, *_ = listener.getsockname()
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        if not ipaddress.ip_address(host).is_loopback:
            say(f"{config.host} is not this machine alone: others can reach {address} without a password")
        for source in models.values():
            kind_to_serve(source)
        if config.dry_run:
            say(f"would serve {', '.join(models)} at {address}")
            return Served(address, models)
        from bertcli.lifecycle.serving.server import run_server

        return Served(address, models, run_server(config, models, listener, address))


def _named(folders: list[str], given: list[str]) -> dict[str, str]:
    """The models by the names of their runs, folders or packages."""
    runs = [Path(folder).parent.name if Path(folder).name == "model" else Path(folder).name for folder in folders]
    names = [run if Path(name).exists() else Path(name).name for run, name in zip(runs, given or runs, strict=True)]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"Two of the models are called `{twice}`.", "Rename a folder, or serve them on two ports.")
    return dict(zip(names, folders, strict=True))


def listening(config: ServeConfig) -> socket.socket:
    """A socket on the port. Raises UserError if it is in use, or the host is not of this machine."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)  # without the protocol, asyncio does not set TCP_NODELAY
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError as error:
        raise UserError(f"--host {config.host}: {error.strerror}.", "Give an address of this machine.") from None
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        what = f"Port {config.port} of {config.host} cannot be listened on: {error.strerror}."
        is_taken = config.port and error.errno != EADDRNOTAVAIL
        hint = "Give --port 0, which takes a free one." if is_taken else "Give --host an address of this machine."
        raise UserError(what, hint) from None
    return listener
