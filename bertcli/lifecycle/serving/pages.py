"""What a server says of itself: its OpenAPI document, that as a page, and the page to type into."""

import json
import shlex
from typing import Any

from bertcli import __version__
from bertcli.lifecycle.serving.rows import MOST_EXPLAINED_TOKENS
from bertcli.reports.rendering import render

Description = dict[str, Any]  # of a model: name, kind, takes, labels, sample, explains
EXPLAIN = (
    "With `explain: true` the answer also has what each word adds to the log-odds of the label, or to the value, as "
    f"`bert predict --explain` prints it: for one row, of at most {MOST_EXPLAINED_TOKENS} tokens."
)
STATUSES = {
    "413": "too many bytes, rows or tokens",
    "422": "not a row that the model takes, or one that is not explained",
    "429": "the queue is full: try again in a second",
    "503": "no answer within the time, or the server is stopping",
}


def openapi(models: list[Description], limits: str, most_rows: int) -> dict[str, Any]:
    """The OpenAPI document: what each path takes and answers; `limits` says it of all requests."""
    text = {"type": "string"}
    columns = dict.fromkeys(("text", "text_pair", "question", "context"), text)
    names = {"type": "string", "enum": [model["name"] for model in models]}
    row = {
        "type": "object",
        "properties": {
            **columns,
            "choices": {"type": "array", "items": text, "minItems": 2},
            "model": names,
            "explain": {"type": "boolean", "default": False, "description": EXPLAIN},
        },
        "additionalProperties": False,
    }
    rows = {"type": "array", "items": {"$ref": "#/components/schemas/Row"}, "minItems": 1, "maxItems": most_rows}
    answer = {"type": "object", "description": "What `bert predict --json` prints of the row."}
    error = {"type": "object", "properties": {"error": text, "hint": text}, "required": ["error", "hint"]}
    return {
        "openapi": "3.1.0",
        "info": {"title": "bert serve", "version": __version__, "description": limits},
        "paths": {
            "/predict": {"post": _predict("Predict a row, or a list of rows", models, [])},
            "/predict/{model}": {
                "post": _predict(
                    "The same, with the model in the path",
                    models,
                    [{"name": "model", "in": "path", "required": True, "schema": names}],
                )
            },
            "/health": {"get": _get("Whether the server answers, its models and what each takes")},
            "/metrics": {"get": _get("Counts and times for Prometheus", "text/plain")},
        },
        "components": {"schemas": {"Row": row, "Rows": rows, "Answer": answer, "Error": error}},
    }


def _predict(summary: str, models: list[Description], parameters: list[Any]) -> dict[str, Any]:
    def either(one: str, several: Any) -> dict[str, Any]:
        return {"oneOf": [{"$ref": f"#/components/schemas/{one}"}, several]}

    answers = {"type": "array", "items": {"$ref": "#/components/schemas/Answer"}}
    examples = {model["name"]: {"summary": model["takes"], "value": model["sample"]} for model in models}
    taken = {"schema": either("Row", {"$ref": "#/components/schemas/Rows"}), "examples": examples}
    refused = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "summary": summary,
        "description": EXPLAIN,
        "parameters": parameters,
        "requestBody": {"required": True, "content": {"application/json": taken}},
        "responses": {
            "200": {
                "description": "The answer to each row",
                "headers": {"Inputs-Cut": {"description": "Number of inputs cut", "schema": {"type": "integer"}}},
                "content": {"application/json": {"schema": either("Answer", answers)}},
            },
            **{status: {"description": words, "content": refused} for status, words in STATUSES.items()},
        },
    }


def _get(summary: str, form: str = "application/json") -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": {"description": summary, "content": {form: {}}}}}


def docs_page(document: dict[str, Any], address: str) -> str:
    """The OpenAPI document as a page that needs no network and no script; `address` is that of the server."""

    def described(path: str, method: str, operation: dict[str, Any]) -> dict[str, Any]:
        answers = {status: each["description"] for status, each in operation["responses"].items()}
        about = {"summary": operation["summary"], "description": operation.get("description")}
        calls = _calls(operation, address + path)
        return {"method": method.upper(), "path": path, **about, "calls": calls, "answers": answers}

    paths = document["paths"].items()
    operations = [described(path, method, each) for path, methods in paths for method, each in methods.items()]
    schemas = json.dumps(document["components"]["schemas"], indent=2)
    return render("docs.html", document=document, operations=operations, schemas=schemas)


def _calls(operation: dict[str, Any], address: str) -> list[str]:
    """A command line for each example of an operation."""
    examples = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("examples", {})
    return [_curl(address, name, each["value"], len(examples)) for name, each in examples.items()]


def _curl(address: str, name: str, row: dict[str, Any], models: int) -> str:
    """A command line that asks a model."""
    row = row if "{model}" in address or models == 1 else {**row, "model": name}
    return shlex.join(["curl", address.replace("{model}", name), "-d", json.dumps(row, ensure_ascii=False)])


def main_page(models: list[Description]) -> str:
    """The page to type into."""
    return render("serving.html", models=models)
