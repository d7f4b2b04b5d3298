# `make` lists the targets. The first two are all that a fresh machine needs.
PYTHON ?= python3
BIN := .venv/bin
.DEFAULT_GOAL := help
PIP := $(BIN)/pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt
# Bytecode on all cores, without tests and the models of transformers: pip compiles everything on one core.
# Templates among the files do not compile, so the exit code says nothing.
COMPILE := $(BIN)/python -m compileall -qq -j 0 -x '/(tests?|transformers/models)/' .venv/lib || true

.PHONY: help demo test test-slow torture lint format types house check bench audit bert-books build clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: .venv/installed  ## install, then run the whole life of a model on text that ships (3 to 8 minutes)
	@$(BIN)/bert demo

test: .venv/installed-dev  ## run the tests (minutes)
	@$(BIN)/python -m pytest -n 2 -q -m 'not slow and not torture'

test-slow: .venv/installed-dev  ## the tests that take ten seconds or more each, which CI runs too
	@$(BIN)/python -m pytest -n 2 -q -m 'slow and not torture'

torture: .venv/installed-dev  ## the tests that take an hour: kills at every place, damaged files by the thousand, several processes
	@$(BIN)/python -m pytest -q -m torture

lint: .venv/installed-dev  ## check style and formatting
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

house: .venv/installed-dev  ## check the directions of imports, and the sizes of files, functions and folders
	@$(BIN)/lint-imports --no-logo && $(BIN)/python tests/house.py

format: .venv/installed-dev  ## put the code into its format
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

types: .venv/installed-dev  ## check the types, strictly
	@$(BIN)/mypy

check: lint types house test test-slow  ## everything that CI runs

bench: .venv/installed-dev  ## race what people use today, and measure start-up and data (on a quiet machine)
	@$(BIN)/python -m tests.benchmarks

audit: .venv/bin/python  ## look for known vulnerabilities of the pinned packages (asks PyPI; no part of check)
	@$(BIN)/python -m venv build/audit && build/audit/bin/pip install --quiet --disable-pip-version-check pip-audit
	@build/audit/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip

bert-books: .venv/installed  ## make the small model of the package from minilm and the texts BOOKS, as ./bert-books
	@$(BIN)/bert distill --recipe distill/bert-books --vocab-from-text $(BOOKS)
	@$(BIN)/bert export runs/bert-books --format safetensors --precision float8 --out bert-books

build: .venv/installed-dev  ## make a wheel in dist/
	@$(BIN)/python -m build --wheel

clean:  ## remove what the other targets made
	rm -rf .venv build dist demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.11" >&2; exit 2; }
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e '.[fast,minilm]'
	@$(COMPILE)
	@touch $@

.venv/installed-dev: .venv/installed
	$(PIP) -e '.[dev,fast,minilm]'
	@$(COMPILE)
	@touch $@
