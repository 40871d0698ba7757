# From a bare Python (3.11 or later) with pip to everything; nothing else is needed.
#
#   make demo    the whole path on the bundled table, under a minute
#   make test    what CI runs: style, types, layers, all tests but those for a GPU
#   make quick   the default tests alone, without the slow and the statistical ones
#   make audit   the attacks on the guarantee, all of them, with the count of each; an hour or more
#   make docs    the documentation as a site that works from the file system: site/index.html
#   make examples   run the notebooks of examples/ and keep what they show
#   make bench   the benchmarks that need no data; see benchmarks/ for the others
#   make papers  the papers' tables and figures by our code; ARGS=--list says how long they take
#   make clean   remove what these made
#
# VENV=… puts the environment elsewhere, PYTHON=… chooses the interpreter.

VENV ?= .venv
BIN := $(VENV)/bin
CANDIDATES := python3.11 python3.12 python3.13 python3.14 python3 python
FIND = for p in $(CANDIDATES); do if command -v $$p >/dev/null 2>&1 && \
  $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
  then command -v $$p; break; fi; done
PYTHON ?= $(shell $(FIND))
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo docs examples test quick style audit bench papers clean

demo: $(VENV)/.installed
	rm -rf demo-release
	$(BIN)/admeasure demo --out demo-release

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site

examples: $(VENV)/.installed-dev
	$(BIN)/python examples/run.py

test: style
	-bash tests/browser/install.sh
	-bash tests/spark/install.sh
	-bash tests/warehouse/install.sh
	$(BIN)/pytest -q -n 2 --dist worksteal -m "not gpu"

quick: $(VENV)/.installed-dev
	$(BIN)/pytest -q -n 2 --dist worksteal -m "not gpu and not slow and not statistical and not spark and not browser"

style: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

audit: $(VENV)/.installed-dev
	ADMEASURE_AUDIT=full $(BIN)/pytest -q -n 2 -m "not gpu" --timeout=7200 tests/privacy \
	  tests/behaviours/test_web_server.py tests/behaviours/test_web_charges.py \
	  tests/spark/test_spark_units.py tests/warehouse/test_postgres_units.py \
	  tests/contracts/test_source_contract.py tests/contracts/test_book_contract.py tests/papers/test_bounds.py

bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/noise.py

papers: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/papers $(ARGS)

clean:
	rm -rf demo-release site dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf $(VENV)

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { \
	  echo "error: no Python 3.11 or later with venv was found. Install one, or: make PYTHON=/path/to/python3.11" >&2; \
	  exit 1; }
	$(PYTHON) -m venv $(VENV)

# Stamps: each installation is done once, and again when what it depends on changes.
$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install -q -c constraints.txt -e .
	touch $@

$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[docs]"
	touch $@ $(VENV)/.installed

# pyright runs on node; the extra brings node as a wheel, so that no machine needs it installed.
$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[dev]" "pyright[nodejs]"
	touch $@ $(VENV)/.installed $(VENV)/.installed-docs
