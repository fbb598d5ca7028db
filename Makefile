# One virtual environment in .venv; every target sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: demo test test-slow check bench docs clean

demo: $(VENV)/.runtime
	$(BIN)/servescope demo -o demo-report

test: $(STAMP)
	$(BIN)/python -m pytest

test-slow: $(STAMP)
	$(BIN)/python -m pytest -m slow

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/command_reference.py --check
	$(BIN)/python -m pytest

bench: $(STAMP)
	$(BIN)/python benchmarks/convert.py

docs: $(STAMP)
	$(BIN)/python scripts/command_reference.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade 'pip>=25.1'

$(VENV)/.runtime: pyproject.toml | $(VENV)/bin/python
	$(PIP) -e .
	touch $@

$(STAMP): pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[text]' --group test --group check
	touch $@ $(VENV)/.runtime

clean:
	rm -rf $(VENV) demo-report dist build
