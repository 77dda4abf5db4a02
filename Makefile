# Two commands for users: `make run` and `make test`. One for changes: `make check`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
EQUIPPED := $(VENV)/.equipped
SCENARIO ?= scenarios/llama3.1-405b-trn3.yaml

.PHONY: run test thorough check lint types imports compare benchmark notebooks clean

run: $(INSTALLED)  ## set up, then run the main scenario
	$(BIN)/trnsim run $(SCENARIO)

test: $(EQUIPPED)  ## set up, then all tests: laws, doctests, docs, scenarios, notebooks
	$(BIN)/python -m pytest -n auto

thorough: $(EQUIPPED)  ## thousands of cases of the laws that the other tests try on hundreds
	$(BIN)/python -m pytest -n auto -m slow

check: lint types imports test  ## everything that a change must pass

lint: $(EQUIPPED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(EQUIPPED)
	$(BIN)/mypy

imports: $(EQUIPPED)
	$(BIN)/lint-imports

compare: $(EQUIPPED)  ## Trn2 against Trn3 at 9,216 chips, with the gates that CI holds
	$(BIN)/trnsim compare trn2-cluster trn3-cluster --min-speedup 1.0
	$(BIN)/trnsim compare trn2-cluster trn3-cluster --set training.precision=fp8 --min-speedup 1.8

benchmark: $(EQUIPPED)  ## start-up, events, cohorts, flow classes, seconds and memory
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/scenarios.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/network.py

notebooks: $(EQUIPPED)  ## execute the notebooks and write their figures to out/
	$(BIN)/python notebooks/execute.py

clean:
	rm -rf $(VENV) out

$(INSTALLED): pyproject.toml
	@echo "setting up: trnsim and what it needs, in $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(EQUIPPED): $(INSTALLED)
	@echo "setting up: the tools of the tests"
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@
