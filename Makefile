# Everything sets itself up in .venv; the second time that takes a moment.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test lint bench results docs clean

demo: $(READY)          ## train tGNN on Cora and print the result beside the paper's
	$(BIN)/python examples/demo.py

test: $(READY) lint     ## the linters, then the whole test suite
	$(BIN)/python -m pytest -n logical --maxprocesses 8 --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then echo $(BIN)/mypy; $(BIN)/mypy; \
	else echo 'types are not checked: NumPy for Python 3.10 declares its own otherwise'; fi
	$(BIN)/lint-imports

bench: $(READY)         ## every speed and memory figure of docs/benchmarks.md, measured on this machine
	$(BIN)/python -m benchmarks $(ARGS)

results: $(READY)       ## docs/results.md and the table of the README, out of results/
	$(BIN)/python tools/result_pages.py

# torch goes in first and alone: with it in place nothing else asks for another build of it.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "tgnn needs Python 3.10 or later")'
	@echo "Setting up .venv with the locked dependencies: once, a minute or two."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)


docs: $(READY)          ## the pages of docs/ as a site, in build/site
	$(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
