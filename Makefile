# make demo    sets up and runs the guided tour
# make test    sets up, checks and tests everything; what CI runs
# make docs    builds the site into build/docs; a warning is an error
# make bench   measures Regard beside its peers: an hour on two cores; BENCH=--quick to try
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
	$(BIN)/python -c 'from regard.kernels.small_batches import LOADER; LOADER.load()'  # compiles, once
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

# These peers stand in folders of their own without what they depend on, so that they replace nothing
# (JoeyNMT pins a protobuf that others cannot use); the few packages that they import are put beside
# them. llama.cpp is compiled for this processor, with cmake and a C++ compiler: about 8 minutes.
BESIDE := $(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --no-deps
.venv/.bench: .venv/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BESIDE) --target .venv/joey joeynmt==2.3.0 importlib_metadata==8.7.1 zipp==4.1.2 \
		sentencepiece==0.2.2 subword-nmt==0.3.8 || echo "JoeyNMT could not be installed; it is left out" >&2
	$(BESIDE) --target .venv/onnx onnxruntime==1.31.1 onnx==1.23.2 ml_dtypes==0.6.0 \
		flatbuffers==25.12.19 || echo "onnxruntime could not be installed; it is left out" >&2
	$(BESIDE) --target .venv/openvino openvino==2026.4.1 || \
		echo "OpenVINO could not be installed; it is left out" >&2
	$(BESIDE) --target .venv/timm timm==1.0.31 || echo "timm could not be installed; it is left out" >&2
	CMAKE_ARGS=-DLLAVA_BUILD=OFF $(BESIDE) --no-binary llama-cpp-python --target .venv/llama \
		llama-cpp-python==0.3.36 diskcache==5.6.3 gguf==0.19.0 || \
		echo "llama.cpp could not be built; it is left out" >&2
	touch $@

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build *.egg-info
