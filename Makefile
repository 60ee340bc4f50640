# Everything runs in .venv, which is made here and made anew when its inputs change.
PYTHON ?= python3
BIN := .venv/bin
RUN := $(BIN)/python
# Modules are compiled when first imported, not all at once: that halves the time of the set-up.
INSTALL := $(RUN) -m pip install --disable-pip-version-check -qq --no-compile \
	--constraint constraints.txt
SOURCES := deepinfer_sdk engine kernels grammars
WORKERS ?= 2

unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test check format lint types layers length install-check check-targets model clean

help:
	@echo "make demo   set up, fetch the model, extract a typed object from a sentence"
	@echo "make test   set up and run all tests on the CPU"
	@echo "make check  everything a change has to pass"

demo: .venv/ready model
	@$(RUN) examples/first_steps.py

test: .venv/ready-dev model
	NUMBA_NUM_THREADS=2 $(RUN) -m pytest -q -n $(WORKERS)

check: format lint types layers length test install-check

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) scripts/python_version.py
	@echo "setting up .venv: once, a few minutes, downloads torch"
	@$(PYTHON) -m venv --clear .venv
	@$(INSTALL) --editable .
	@touch $@

.venv/ready-dev: .venv/ready
	@echo "adding the development tools to .venv"
	@$(INSTALL) --editable ".[dev]"
	@touch $@

model: .venv/ready
	@$(RUN) -c "from deepinfer_sdk.hub import embedded_model_path; print('model:', embedded_model_path())"

format: .venv/ready-dev
	$(BIN)/ruff format --check .

lint: .venv/ready-dev
	$(BIN)/ruff check .

types: .venv/ready-dev
	$(BIN)/mypy
	$(BIN)/pyright

layers: .venv/ready-dev
	PYTHONPATH=engine:kernels:grammars:. $(BIN)/lint-imports

length: .venv/ready-dev
	$(RUN) scripts/file_length.py $(SOURCES)

install-check: .venv/ready-dev
	rm -rf build/wheel build/empty
	$(RUN) -m pip wheel --disable-pip-version-check -qq --no-deps --wheel-dir build/wheel .
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --disable-pip-version-check -qq \
		--constraint constraints.txt build/wheel/*.whl
	cd build && empty/bin/python ../scripts/import_time.py
	rm -rf build/empty

check-targets: .venv/ready-dev
	PYTHONPATH=kernels $(RUN) scripts/check_targets.py

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
