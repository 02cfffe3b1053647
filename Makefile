# `make` lists the targets. Needs GNU make 3.81 or newer and Python 3.11 or newer with venv and pip.

# What a person may set: make run PORT=9000 HOST=0.0.0.0 TRACES=~/experiments
PORT ?= 8501
HOST ?= 127.0.0.1
TRACES ?= sample_traces
VENV ?= .venv
JOBS ?= 3
PYTEST_ARGS ?=
MATRIX ?=
TORCH_PYTHON ?= python3

# Without PYTHON=... the first of these that is new enough makes the environment. Distributions
# optimize the system's by profiles, unlike most builds of pyenv: the suite needs a tenth less CPU time.
CANDIDATES := /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11 python
TOO_OLD := graphviz-dash needs Python 3.11 or newer with venv and pip

IN_VENV := $(VENV)/bin/python
PIP := $(IN_VENV) -m pip install -qq --disable-pip-version-check --no-compile -c constraints.txt
# The build backend comes from the constraints too, hence no isolated build.
INSTALL := $(PIP) hatchling editables && $(PIP) --no-build-isolation
# pip compiles on one core, and the tests of packages too, a third of all; what some package calls
# Python may be none.
COMPILE = $(IN_VENV) -m compileall -q -j 0 -x '/tests?/' \
	"`$(IN_VENV) -c 'import sysconfig; print(sysconfig.get_path("purelib"))'`" >/dev/null || true

# The documentation site, part of the wheel.
SITE := graphviz_dash/site/index.html
SITE_SOURCES := mkdocs.yml scripts/documentation_site.py $(wildcard *.md docs/*.md docs/*/*.md docs/*/*.webp)

# Modules of the components in JavaScript, and their tests.
SCRIPTS := graphviz_dash/ui/components graphviz_dash/features tests/ui/components/scripts

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test suite check types lint language audit attack format docs site wheel sbom matrix torch-names pictures constraints changelog clean python-matches

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

# The site costs 5 s and needs the development tools: without them /docs serves the Markdown.
run: $(VENV)/.run python-matches ## Serve the dashboard on the sample experiments (PORT=8501 HOST=127.0.0.1 TRACES=folder)
	@test ! -x $(VENV)/bin/mkdocs || $(MAKE) --no-print-directory $(SITE)
	@exec $(VENV)/bin/graphviz-dash serve --host "$(HOST)" --port "$(PORT)" $(TRACES)

# The checks first: what they find is told within a minute, and the tests take both of two cores.
test: check ## Run the checks and every test, those in a real browser included (JOBS=3 PYTEST_ARGS=...)
	@sh tests/chromium.sh $(IN_VENV)
	@$(MAKE) --no-print-directory suite

suite: $(VENV)/.dev $(SITE) python-matches ## Run every test, without the checks
	$(IN_VENV) -m pytest -n $(JOBS) --dist loadfile $(PYTEST_ARGS)

check: lint language types ## Lint, format, language, types, import walls and audit, changing nothing
	@$(IN_VENV) scripts/audit.py --optional

types: $(VENV)/.dev python-matches ## Check the types
	$(IN_VENV) -m mypy

lint: $(VENV)/.dev python-matches ## Lint, format and import walls
	$(IN_VENV) -m ruff check .
	$(IN_VENV) -m ruff format --check .
	$(VENV)/bin/lint-imports
	$(VENV)/bin/deno fmt --quiet --check
	$(VENV)/bin/deno lint --quiet
	$(VENV)/bin/deno check --quiet $(SCRIPTS)

language: $(VENV)/.dev python-matches ## Check the language of code, documentation and visible text
	@$(IN_VENV) -m scripts.language.check
	@$(IN_VENV) -m scripts.language.check --identifiers

audit: $(VENV)/.dev python-matches ## Look for known vulnerabilities of pinned packages (fails without a network)
	@$(IN_VENV) scripts/audit.py

attack: $(VENV)/.dev python-matches ## Attack a dashboard of its own, on this machine alone, and print what came of it (minutes)
	@$(IN_VENV) -m tests.attack

format: $(VENV)/.dev ## Format the code and fix what the linter can fix
	$(IN_VENV) -m ruff check --fix .
	$(IN_VENV) -m ruff format .
	$(VENV)/bin/deno fmt --quiet

docs: $(VENV)/.dev python-matches ## Generate docs/reference, docs/schemas and the types of scripts from the code
	$(IN_VENV) -m scripts.document_schemas docs/schemas
	$(IN_VENV) -m scripts.reference
	$(IN_VENV) -m scripts.wire_types

matrix: python-matches ## Run the tests without a browser on the oldest and newest allowed dependencies (MATRIX=oldest)
	@$(IN_VENV) -m scripts.matrix --jobs $(JOBS) $(MATRIX)

torch-names: ## Check the private names of torch that collectors use (TORCH_PYTHON=interpreter with torch)
	@$(TORCH_PYTHON) scripts/torch_names.py

site: $(SITE) ## Build the documentation site, which the dashboard serves at /docs

$(SITE): $(SITE_SOURCES) | $(VENV)/.dev
	@$(IN_VENV) -m scripts.documentation_site

wheel: $(SITE) $(VENV)/.dev ## Build the wheel, with the documentation site in it, into dist
	@$(IN_VENV) -m hatchling build -t wheel -d dist

sbom: $(VENV)/.dev python-matches ## List the packages of an installation in dist/sbom.json (CycloneDX)
	@$(IN_VENV) -m scripts.sbom dist/sbom.json

pictures: $(VENV)/.dev python-matches ## Take the pictures in docs/pictures anew
	@sh tests/chromium.sh $(IN_VENV)
	@$(VENV)/bin/graphviz-dash serve --port $(PORT) sample_traces & server=$$!; \
		trap "kill $$server" EXIT; \
		$(IN_VENV) -c "$$WAIT" http://127.0.0.1:$(PORT)/_stcore/health && \
		$(IN_VENV) -m scripts.screenshots http://127.0.0.1:$(PORT) docs/pictures

constraints: ## Write constraints.txt anew from the newest versions that work together (use Python 3.11)
	rm -rf .make/constraints
	$(call with_python,-m venv .make/constraints)
	.make/constraints/bin/python -m pip install -qq --no-compile hatchling editables ".[dev]"
	{ echo "# Versions that \`make run\` and \`make test\` install. Written by \`make constraints\`."; \
	  .make/constraints/bin/python -m pip list --format=freeze --exclude graphviz-dash \
	    --exclude pip --exclude setuptools --exclude wheel | LC_ALL=C sort -f; } > constraints.txt
	rm -rf .make/constraints

changelog: $(VENV)/.dev python-matches ## Collect the fragments in changes/ into CHANGELOG.md (VERSION=0.3.0)
	@$(IN_VENV) -m scripts.changelog "$(VERSION)"

clean: ## Remove the environment and what the tools left behind
	rm -rf $(VENV) .make graphviz_dash/site build dist *.egg-info test-results .pytest_cache .mypy_cache .ruff_cache \
		.import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# $(call with_python,arguments) runs $(PYTHON), or the first candidate that is new enough.
with_python = @for python in $(or $(PYTHON),$(CANDIDATES)); do \
	if "$$python" -c "$$IS_USABLE" 2>/dev/null; then "$$python" $(1); exit; fi; \
	done; echo "$(TOO_OLD); $(or $(PYTHON),$(firstword $(CANDIDATES))) is not. Name one: make PYTHON=python3.12" >&2; exit 1

$(IN_VENV):
	@echo "Making the environment in $(VENV)"
	$(call with_python,-m venv --clear $(VENV))

# Installing the development tools brings what `make run` needs, not the other way round.
$(VENV)/.run: pyproject.toml constraints.txt | $(IN_VENV)
	@echo "Installing graphviz-dash into $(VENV)"
	@$(INSTALL) -e .
	@$(COMPILE)
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(IN_VENV)
	@echo "Installing graphviz-dash and its development tools into $(VENV)"
	@$(INSTALL) -e ".[dev]"
	@$(COMPILE)
	@touch $(VENV)/.run $@

# A PYTHON=... that the existing environment was not made with would be ignored without a word.
python-matches: | $(IN_VENV)
ifdef PYTHON
	@test "`$(IN_VENV) -V`" = "`$(PYTHON) -V`" || { echo "$(VENV) has `$(IN_VENV) -V`, \
	PYTHON=$(PYTHON) is `$(PYTHON) -V`: run make clean first, or give VENV=another-folder" >&2; exit 1; }
endif

define IS_USABLE
import ensurepip, sys, venv
sys.exit(sys.version_info < (3, 11))
endef
export IS_USABLE

define WAIT
import sys, time, urllib.error, urllib.request
for _ in range(300):
    try:
        sys.exit(urllib.request.urlopen(sys.argv[1], timeout=2).status != 200)
    except urllib.error.URLError:
        time.sleep(0.1)
sys.exit("The dashboard did not start")
endef
export WAIT
