# Everything that is done to snapdb. `make demo` and `make test` set up what they need on a fresh machine.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PEERS := benchmarks/.peers
PYG_LIB ?= https://github.com/pyg-team/pyg-lib
PHMAP ?= https://github.com/greg7mdp/parallel-hashmap
RUNTIME := $(VENV)/.runtime
INSTALLED := $(VENV)/.installed
TORCH := $(shell sed -n 's/^torch==//p' constraints.txt)
TORCH_CPU ?= https://download.pytorch.org/whl/cpu
GPU_PYTHON ?= $(BIN)/python
UNIT := tests/test_hygiene.py tests/test_errors.py snapdb cli $(addprefix tests/,sql plan kernels storage cli) \
  $(addprefix tests/daemon/test_,schedule.py daemon_claims.py daemon_loop.py) \
  $(addprefix tests/sampling/test_,kept_rows.py methods_small.py negatives.py oracle.py sampling.py seeds.py) \
  $(addprefix tests/loading/test_,batch.py stream.py)
# Files that try more under SNAPDB_SOAK, by what they import.
SOAKED := $(shell grep -rlE 'support.(thoroughness|crashing|hostile)' tests --include='test_*.py') \
  tests/frozen/test_surface.py tests/sql tests/ui
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start hundreds of processes, each of which would compile all sources to bytecode again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test suite check fmt lint types contracts unit docs soak bench gpu bench-peers clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(RUNTIME) ## run the whole job on generated data: load, snapshot, sample, train, compare
	$(BIN)/snapdb demo

# Two jobs, and three workers on two processors: the checks take one processor, and tests wait for processes and disks.
test: $(INSTALLED) ## everything that must pass before a commit lands: tests, doctests, .slt files, the examples of the docs
	$(MAKE) --no-print-directory --jobs 2 check suite

suite: $(INSTALLED)
	$(BIN)/pytest -n 3 --dist loadgroup --no-loadscope-reorder -q

check: lint types contracts ## all that needs no test run

lint: $(INSTALLED) ## style of every file
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(INSTALLED) ## mypy, strict
	$(BIN)/mypy

contracts: $(INSTALLED) ## layers import downwards only
	$(BIN)/lint-imports

unit: $(INSTALLED) ## the tests of single layers that take no processes and no long draws: below three minutes
	$(BIN)/pytest -n 2 --dist loadgroup --no-loadscope-reorder -q -m 'not slow' $(UNIT)

docs: $(INSTALLED) ## build the documentation as a site, in site/ (its examples run in `make test`)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

soak: $(INSTALLED) ## kill writers and readers 500 times, and try long random histories
	SNAPDB_KILLS=500 SNAPDB_SEED=$$(date +%s) $(BIN)/pytest -n 0 -q -s tests/soak/test_soak.py tests/storage/test_publications.py
	SNAPDB_SOAK=1 $(BIN)/pytest -n 2 --dist loadgroup --no-loadscope-reorder -q $(SOAKED)

bench: $(INSTALLED) ## measure, and write the pages of benchmarks/
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.ready_batches
	$(BIN)/python -m benchmarks.warm_up
	$(BIN)/python -m benchmarks.cold_start
	$(BIN)/python -m benchmarks.language
	$(BIN)/python -m benchmarks.epochs --epochs 1
	$(BIN)/python -m benchmarks.exports
	$(BIN)/python -m benchmarks.tasks
	$(BIN)/python -m benchmarks.schedule
	$(BIN)/python -m benchmarks.pages # needs Chromium
	$(BIN)/python -m benchmarks.patterns
	$(BIN)/python -m benchmarks.algorithms # needs 20 GiB of memory
	$(BIN)/python -m benchmarks.walks
	$(BIN)/python -m benchmarks.embeddings
	$(BIN)/python -m benchmarks.refresh --only loader epoch accuracy costs # disk needs root and a control group

gpu: $(if $(filter $(BIN)/%,$(GPU_PYTHON)),$(INSTALLED)) ## test and measure on a GPU in less than ten minutes, and write benchmarks/GPU.md (GPU_PYTHON: a Python with torch for CUDA)
	$(GPU_PYTHON) -m benchmarks.gpu

bench-peers: $(PEERS)/.pyg $(PEERS)/.dgl $(PEERS)/.searches ## install PyG with its compiled samplers, DGL, igraph and networkx, for `make bench` (compiles for many minutes)

fmt: $(INSTALLED) ## rewrite files in the project's style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove what can be made again
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis benchmarks/data

# What snapdb itself needs. PyPI's torch for Linux brings gigabytes of CUDA: without an NVIDIA driver the CPU build is taken, from
# pip's own indexes where they have it, else from PyTorch's. Where neither has it, the next line installs PyPI's.
$(RUNTIME): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("snapdb needs Python 3.11 or newer; set PYTHON=…" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@if [ "$$(uname -s)" = Linux ] && ! command -v nvidia-smi > /dev/null; then \
	  echo "no NVIDIA driver found: installing the CPU build of torch $(TORCH)"; \
	  $(BIN)/pip install --no-deps 'torch==$(TORCH)+cpu' 2> /dev/null || \
	  $(BIN)/pip install --no-deps --retries 1 --index-url $(TORCH_CPU) 'torch==$(TORCH)+cpu' || true; fi
	$(BIN)/pip install --constraint constraints.txt --editable .
	@touch $@

$(INSTALLED): $(RUNTIME)
	$(BIN)/pip install --constraint constraints.txt --editable '.[dev]'
	@touch $@

# Each peer has an environment of its own: they need other versions of torch than snapdb, and than each other.
$(PEERS)/.pyg:
	$(PYTHON) -m venv $(PEERS)/pyg
	$(PEERS)/pyg/bin/pip install --quiet torch==2.13.0 torch-geometric==2.8.1 numpy scipy
	test -d $(PEERS)/pyg-lib || git clone --quiet --depth 1 $(PYG_LIB) $(PEERS)/pyg-lib
	test -d $(PEERS)/phmap || git clone --quiet --depth 1 $(PHMAP) $(PEERS)/phmap
	benchmarks/build_pyg_lib.sh $(PEERS)/pyg $(PEERS)/pyg-lib $(PEERS)/phmap
	$(PEERS)/pyg/bin/pip install --quiet setuptools wheel
	$(PEERS)/pyg/bin/pip install --quiet --no-build-isolation --no-deps torch-cluster==1.6.3
	touch $@

$(PEERS)/.dgl:
	$(PYTHON) -m venv $(PEERS)/dgl
	$(PEERS)/dgl/bin/pip install --quiet torch==2.2.1 'numpy<2' torchdata==0.7.1 dgl==2.1.0 pandas pyyaml pydantic
	touch $@

# The peers of path searches and algorithms need no torch, so they share snapdb's environment.
$(PEERS)/.searches: $(INSTALLED)
	$(BIN)/pip install --quiet --constraint constraints.txt igraph==1.0.0 networkx==3.6.1 scikit-network==0.33.5
	mkdir -p $(PEERS)
	touch $@
