# make demo    sets up and runs the guided tour
# make test    sets up, checks and tests everything; what CI runs
# make docs    builds the site into build/docs; a warning is an error
# make bench   measures Regard beside its peers: half an hour on two cores; BENCH=--quick to try
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# Where it is set, each process of the tests would compile every module anew: minutes together.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test tests test-fast check lint types docs bench format clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Regard needs Python 3.11 or newer: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: setup
	$(BIN)/regard demo

test: lint
	$(MAKE) --no-print-directory --jobs 2 types tests

tests: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-fast: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow'

check: lint types

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: setup
	$(BIN)/mypy

docs: setup
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/docs
	@echo build/docs/index.html

bench: .venv/.bench
	$(BIN)/python -m benchmarks $(BENCH)

# JoeyNMT pins a protobuf that others cannot use: it stands in a folder of its own, without what it
# depends on; the few packages that its model imports are put beside it.
.venv/.bench: .venv/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --no-deps \
		--target .venv/joey joeynmt==2.3.0 importlib_metadata==8.7.1 zipp==4.1.2 sentencepiece==0.2.2 \
		subword-nmt==0.3.8 || echo "JoeyNMT could not be installed; it is left out" >&2
	touch $@

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build *.egg-info
