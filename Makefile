# One virtual environment in .venv; every target sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: help demo test test-slow check bench docs clean

help:
	@echo 'make demo       report on the built-in sample (installs the runtime dependencies only)'
	@echo 'make test       the tests'
	@echo 'make test-slow  the long ones: fuzz, interrupts, a Ray cluster'
	@echo 'make check      what CI runs: format, lint, types, layers, generated pages, tests'
	@echo 'make bench      benchmarks at full size'
	@echo 'make docs       write the generated pages'
	@echo 'make clean      remove .venv and what was built'

demo: $(RUNTIME)
	$(BIN)/servescope demo -o demo-report

test: $(STAMP)
	$(BIN)/python -m pytest

test-slow: $(STAMP)
	$(PIP) -e '.[ray]'
	$(BIN)/python -m pytest -m slow

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/command_reference.py --check
	$(BIN)/python scripts/glossary.py --check
	$(BIN)/python scripts/kv_models.py --check
	$(BIN)/python -m pytest

bench: $(STAMP)
	$(BIN)/python benchmarks/convert.py
	$(BIN)/python benchmarks/view_kernels.py
	$(BIN)/python benchmarks/views.py

docs: $(STAMP)
	$(BIN)/python scripts/command_reference.py
	$(BIN)/python scripts/glossary.py
	$(BIN)/python scripts/kv_models.py

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(RUNTIME): pyproject.toml | $(BIN)/python
	$(PIP) -e .
	touch $@

# pip 25.1 is the first that reads dependency groups
$(STAMP): pyproject.toml | $(BIN)/python
	$(PIP) --upgrade 'pip>=25.1'
	$(PIP) -e '.[text]' --group test --group check
	touch $@ $(RUNTIME)

clean:
	rm -rf $(VENV) demo-report dist build
