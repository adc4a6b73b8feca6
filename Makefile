# Every target first creates .venv with the locked dependencies, if it does not exist.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test lint bench results docs clean

demo: $(READY)          ## train tGNN on Cora and compare its accuracy with the paper's
	$(BIN)/python examples/demo.py

test: $(READY) lint     ## run the linters and the whole test suite
	$(BIN)/python -m pytest -n logical --maxprocesses 8 --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then echo $(BIN)/mypy; $(BIN)/mypy; \
	else echo 'mypy is skipped, because the NumPy version for Python 3.10 has other type stubs'; fi
	$(BIN)/lint-imports

bench: $(READY)         ## measure every time and memory figure of docs/benchmarks.md on this machine
	$(BIN)/python -m benchmarks $(ARGS)

results: $(READY)       ## generate docs/results.md and the results table of the README from results/
	$(BIN)/python tools/result_pages.py

# torch is installed first, so that no other package selects another build of it.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "tgnn needs Python 3.10 or later")'
	@echo "Creating .venv with the locked dependencies. This takes a minute or two."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)


docs: $(READY)          ## build the documentation site in build/site
	$(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
