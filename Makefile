# make demo   set up .venv, fit the example and draw it
# make check  set up .venv and run lint, types and the tests that need no compiler: a minute
# make test   set up .venv and run lint, types and tests
# make soak   set up .venv and run the tests that take minutes: 10,000 fits, a million steps
# make bench  set up .venv and run the benchmarks
# make docs   set up .venv and build the docs into build/docs; a broken link fails
# PYTHON=python3.12 chooses the interpreter that .venv is made with.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo check test soak lint bench docs clean

demo: $(VENV)/.installed-plots,arviz
	$(BIN)/scorevi demo

# What takes long begins first, and all of it in one process, unless an idle one may take of it.
test: lint
	$(BIN)/pytest -n auto --dist worksteal

# What needs other languages is not even looked at: to import them takes as long as many tests.
check: lint
	$(BIN)/pytest -n auto --dist worksteal -m "not soak and not slow and not languages" --ignore tests/languages

# One after the other, because memory is measured.
soak: $(VENV)/.installed-dev
	$(BIN)/pytest -m soak -s tests/engine/test_stress.py

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir build/docs
	@echo build/docs/index.html

# One stamp per set of extras, made anew when the requirements change.
$(VENV)/.installed-%: pyproject.toml | $(VENV)/bin/python
	$(PIP) install --quiet --editable '.[$*]'
	touch $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade pip

clean:
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
