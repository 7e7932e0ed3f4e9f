# Every target needs only Python 3.11 or newer: the first one that runs puts accelsim and its tools into $(VENV).

VENV ?= .venv
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DOCUMENTED := $(VENV)/.documented

.DEFAULT_GOAL := help
.PHONY: help map test test-deep mutants lint docs notebooks reference gallery arena bench bench-map bench-corpus bench-spread bench-cpu validate reports clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

map: $(INSTALLED)  ## map a convolution onto a systolic array; results in out/systolic_conv
	@$(BIN)/accelsim map arch/systolic.yaml workloads/conv.yaml -o out/systolic_conv

test: $(INSTALLED)  ## run all tests and doctests, then the kernel's once more without Numba
	@$(BIN)/python -m pytest -q -n auto --dist worksteal
	@echo "Once more without Numba (NUMBA_DISABLE_JIT=1):"
	@NUMBA_DISABLE_JIT=1 ACCELSIM_ORACLE_CASES=300 ACCELSIM_HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -q -n auto --dist worksteal tests/test_kernel.py tests/test_evaluate.py tests/test_evaluate_cases.py

test-deep: $(INSTALLED)  ## the same with many more random cases, for hours
	@ACCELSIM_EFFORT=deep $(MAKE) test

mutants: $(INSTALLED)  ## plant mistakes in the package one by one; the tests that are about them must notice each
	@$(BIN)/python tests/mutants.py

lint: $(INSTALLED)  ## check style, format and types
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet || { $(BIN)/ruff format --diff; exit 1; }
	@$(BIN)/mypy --no-error-summary

docs: $(DOCUMENTED)  ## build the documentation as a site in build/docs
	@$(BIN)/python -m sphinx -E -a -q -W --keep-going -c docs . build/docs
	@echo "build/docs/index.html"

notebooks: $(INSTALLED)  ## run the notebooks and write their outputs anew (two minutes)
	@$(BIN)/python -m docs.site.notebooks

bench: $(INSTALLED)  ## time the cost model: mappings evaluated per second
	@$(BIN)/python benchmarks/kernel.py

bench-map: $(INSTALLED)  ## time the exact mapper: GEMM, VGG-16 conv3_2 and ResNet-50 on each machine
	@$(BIN)/python benchmarks/mapping.py

bench-corpus: $(INSTALLED)  ## prove what users map: 59 machines, 12 or 19 layers, 4 goals, with what was proved before
	@$(BIN)/python benchmarks/corpus

reference: $(INSTALLED)  ## write the commands, names and keys in docs/ anew
	@$(BIN)/python -m docs.site.reference

gallery: $(INSTALLED)  ## draw the figures of docs/howto.md again, with the commands in its table
	@cd docs && grep -o 'accelsim [^`]*img/gallery/[^`]*' howto.md | PATH="$(abspath $(BIN)):$$PATH" sh -e > /dev/null

arena: $(INSTALLED)  ## solve the arena's problems, let rival mappers play them (half an hour), and judge their mappings
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[arena]'
	@$(BIN)/python arena/make.py
	@$(BIN)/python arena/rivals.py
	@$(BIN)/python arena/peers.py
	@for file in arena/optima.json arena/submissions/*.json; do $(BIN)/python arena/verify.py $$file || exit 1; done

bench-spread: $(INSTALLED)  ## time the spread of VGG-16 conv3_2 on each machine
	@$(BIN)/python benchmarks/spread.py

bench-cpu: $(INSTALLED)  ## predicted time of matrix products on this CPU, beside numpy's
	@$(BIN)/python benchmarks/cpu.py

validate: $(INSTALLED)  ## compare with other tools and published chips
	@$(BIN)/python -m validation

reports: $(INSTALLED)  ## write the reports in validation/reports anew (half an hour)
	@$(BIN)/python -m validation --reports

clean:  ## remove what the other targets made
	@rm -rf .venv build dist out/systolic_conv .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find accelsim benchmarks tests validation -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml
	@command -v "$(PYTHON)" >/dev/null && "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "accelsim needs Python 3.11 or newer$(if $(PYTHON),; $(PYTHON) is not); name one: make PYTHON=/path/to/python3" >&2; \
		exit 1; }
	@echo "Installing accelsim and its tools into $(VENV) ..." >&2; start=$$(date +%s); \
		{ test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV); } \
		&& $(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[test]' \
		&& $(BIN)/python -m compileall -q accelsim \
		&& echo "Installed in $$(($$(date +%s) - start)) s" >&2
	@touch $@

$(DOCUMENTED): $(INSTALLED)
	@echo "Installing what the documentation needs ..." >&2
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[docs]'
	@touch $@
