# make demo    install into .venv, audit the sample models and gate some
# make test    install what is needed and run all tests
# make faults  damage small nets on purpose and audit them (a quarter of an hour; OPTIONS="--only BN301" for less)
# make bench   time bnaudit, and what others use, on the same files
# make zoo     audit the architectures of torchvision and timm (half an hour; OPTIONS="--limit 50" for less)
# make mutation  break every condition and limit of the rules, one at a time: a test has to notice (15 minutes)
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ZOO := .bench/zoo-venv
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint .ci/constraints.txt

.PHONY: demo test check faults bench zoo mutation samples new-rule format clean

demo: $(VENV)/.installed
	$(BIN)/bnaudit inspect sample_models/ || test $$? -eq 1
	$(BIN)/bnaudit inspect sample_models/healthy/state_dict.pt --model sample_models/digits.py:build --inputs sample_models/digits.npz
	$(BIN)/bnaudit inspect sample_models/defects/frozen_but_updating.pt || test $$? -eq 1
	$(BIN)/bnaudit gate sample_models/healthy sample_models/defects/nan_variance.pt || test $$? -eq 1

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 $(TESTS)

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

faults: $(VENV)/.dev
	PYTHONPATH=tests:. $(BIN)/python -m fault_matrix $(OPTIONS)

bench: $(VENV)/.dev
	status=0; for part in rivals static bulk measured watching triage; do \
	    $(BIN)/python tests/bench/$$part.py || status=1; done; exit $$status

zoo: $(ZOO)/.installed
	PYTHONPATH=tests $(ZOO)/bin/python -m zoo $(OPTIONS)

mutation: $(VENV)/.dev
	cd tests && ../$(BIN)/python -m mutation.check $(OPTIONS)

samples: $(VENV)/.dev
	$(BIN)/python sample_models/make.py

new-rule: $(VENV)/.dev
	$(BIN)/python tests/new_rule.py "$(ID)" "$(NAME)"

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .bench .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml .ci/constraints.txt
	$(PIP) --editable .
	touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml .ci/constraints.txt
	$(PIP) --editable '.[dev]'
	touch $@ $(VENV)/.installed

$(ZOO)/.installed: pyproject.toml tests/zoo/constraints.txt
	$(PYTHON) -m venv $(ZOO)
	$(ZOO)/bin/python -m pip install --quiet --disable-pip-version-check --constraint tests/zoo/constraints.txt \
	    --editable . torch torchvision timm onnxscript psutil \
	    || { echo "make zoo needs torch, torchvision and timm as in tests/zoo/constraints.txt; they cannot be installed here" >&2; exit 1; }
	touch $@
