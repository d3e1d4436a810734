# The interpreter that makes the environment: the first one here that is new enough.
NEW_ENOUGH = import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c '$(NEW_ENOUGH)' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
# For instance: make book PIP_FLAGS="--extra-index-url https://download.pytorch.org/whl/cpu"
PIP_FLAGS ?=
PORT ?= 8000
# Processes that run tests side by side.
JOBS ?= 2
# A test in a browser waits more than half of its time, for pages and for what must not happen.
SITE_JOBS ?= $(shell expr 2 \* $(JOBS))
# Chapters to refresh: make refresh NOTEBOOKS=book/02_family_of_norms.ipynb
NOTEBOOKS ?= $(wildcard book/*.ipynb book/in_depth/*.ipynb)

# Small tensors on several threads wait for each other: 100 s instead of 0.7 s for 1000 small steps.
export OMP_NUM_THREADS = 1
# The chapters must not depend on what a user has put into a start-up file or a user site.
export PYTHONNOUSERSITE = 1

BIN = $(VENV)/bin
INSTALLED = $(VENV)/.installed
JUPYTERLAB = $(VENV)/.jupyterlab
NPM = $(BIN)/npm --prefix $(VENV) --no-audit --no-fund --loglevel=error
SITE_TESTS = tests/site
PYTEST = $(BIN)/python -m pytest -q -n $(JOBS) --durations=15 --durations-min=3

.DEFAULT_GOAL := help
.PHONY: help book lab live serve check test lint types units coverage seconds notebooks site audit bench record libraries census mutants refresh format lock dist publish clean rendered

help:  ## Print this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

$(INSTALLED): requirements.txt pyproject.toml book/_ext/package.json book/_ext/package-lock.json
	@test -n "$(PYTHON)" || { echo "normtutor needs Python 3.11 or newer; none was found." \
		"Name one: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c '$(NEW_ENOUGH)' || { echo "normtutor needs Python 3.11 or newer;" \
		"$(PYTHON) is $$($(PYTHON) --version)." >&2; exit 1; }
	@echo "Installing the pinned packages into $(VENV); the first time this takes some minutes"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PYTHON) .ci/install.py $(BIN)/python $(PIP_FLAGS)
	@# KaTeX and PurgeCSS, which the build of the site runs.
	@echo "Installing the programs that set equations and cut style sheets"
	@cp book/_ext/package.json book/_ext/package-lock.json $(VENV)
	@$(NPM) ci --omit=dev --silent
	@touch $@

book: $(INSTALLED)  ## Install what is needed, execute the chapters, build the site
	@$(BIN)/python .ci/build.py

lab: book $(JUPYTERLAB)  ## Open the notebooks in JupyterLab, to work in: notebooks/ is yours
	@$(BIN)/python .ci/lab.py

$(JUPYTERLAB): requirements-lab.txt $(INSTALLED)
	@echo "Installing JupyterLab"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -r $<
	@touch $@

live: $(INSTALLED)  ## Write: what is saved is seen in the browser (NOTEBOOKS=...)
	@$(BIN)/python .ci/live.py --port $(PORT) $(if $(filter command%,$(origin NOTEBOOKS)),$(NOTEBOOKS))

serve: $(INSTALLED)  ## Build the site and serve it on http://localhost:8000 (PORT=...)
	@$(BIN)/python .ci/build.py --serve $(PORT)

check: lint types  ## Check in a minute: style, types, the files of tests that are cheap
	@files=$$($(BIN)/python .ci/fast_tests.py) && \
		$(BIN)/python -m pytest -q -n $(JOBS) --dist loadscope $$files

# What keeps one process busy runs beside what keeps several: the types, and the site's rendering.
test: lint  ## Check everything: style, types, chapters, tests, site
	@$(MAKE) --no-print-directory -j $(JOBS) types notebooks
	@$(MAKE) --no-print-directory -j $(JOBS) units rendered
	@$(MAKE) --no-print-directory site RENDERED=yes

lint: $(INSTALLED)  ## Check format and style, notebooks included
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(INSTALLED)  ## Check the types
	$(BIN)/mypy

TESTS ?= normtutor studies tests --ignore $(SITE_TESTS)
UNITS = $(PYTEST) --dist loadscope $(TESTS)

units: $(INSTALLED)  ## Run the tests of the package and of the book's sources (TESTS=...)
	$(UNITS)

# To follow each line takes half as long again as the tests alone, and decides nothing.
coverage: $(INSTALLED)  ## The same tests; which lines does none of them run?
	$(UNITS) --cov --cov-report=term-missing

seconds: $(INSTALLED)  ## Measure files of tests, so that make check takes the cheap ones (TESTS=...)
	NORMTUTOR_SECONDS=tests/seconds.json $(UNITS)

# transformers and timm, JAX, Flax, Keras and ONNX beside the packages of the book, which this
# environment borrows. timm and torchvision would bring a torch for GPUs, so they come alone.
LIBRARIES ?= $(VENV)-libraries

$(LIBRARIES)/.installed: tests/libraries/requirements.txt $(INSTALLED)
	test -x $(LIBRARIES)/bin/python || $(BIN)/python -m venv $(LIBRARIES)
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" > \
		$$($(LIBRARIES)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/book.pth
	$(LIBRARIES)/bin/python -m pip install --disable-pip-version-check -q $(PIP_FLAGS) \
		-r tests/libraries/requirements.txt
	$(LIBRARIES)/bin/python -m pip install --disable-pip-version-check -q $(PIP_FLAGS) \
		--no-deps timm==1.0.31 torchvision==0.29.2
	touch $@

libraries: $(LIBRARIES)/.installed  ## Test the layers in models and forms of other libraries
	PYTHONPATH=$(CURDIR):$(CURDIR)/studies $(LIBRARIES)/bin/python -m pytest -q -n 0 tests/libraries

census: $(LIBRARIES)/.installed  ## Read the norms of every decoder of transformers; takes two hours (TYPES=...)
	$(LIBRARIES)/bin/python .ci/census.py $(TYPES)

# mutmut brings a text interface and more, so it comes into an environment of its own, which borrows
# this one. The changes of a function are numbered; a tenth of them, and always the same, end in 7.
MUTANTS ?= normtutor.norms.*7 normtutor.moments.*7 normtutor.layers.*7 normtutor.invariance.*7 \
	normtutor_studies.claims.*7 normtutor_studies.experiments.*.x_rows__*7
MUTATION ?= $(VENV)-mutation

mutants: $(INSTALLED)  ## Change the code on purpose: which changes does no test notice? (MUTANTS=...)
	@test -x $(MUTATION)/bin/python || $(BIN)/python -m venv $(MUTATION)
	@$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" > \
		$$($(MUTATION)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/book.pth
	@$(MUTATION)/bin/python -m pip install --disable-pip-version-check -q $(PIP_FLAGS) mutmut==3.8.1
	set -f; $(MUTATION)/bin/mutmut run --max-children $(JOBS) $(MUTANTS)
	$(MUTATION)/bin/mutmut results

notebooks: $(INSTALLED)  ## Execute the chapters that changed, compare all stored outputs
	$(BIN)/python .ci/chapters.py $(NOTEBOOKS)
	NORMTUTOR_EXECUTED=_build $(PYTEST) --dist loadscope --nbval --nbval-current-env $(NOTEBOOKS)

RENDER = $(BIN)/python .ci/build.py --clean --executed . --output _build/checked

rendered: $(INSTALLED)
	$(RENDER)

site: $(INSTALLED)  ## Build the site from clean with warnings as errors, then test it
	$(if $(RENDERED),,$(RENDER))
	NORMTUTOR_SITE=_build/checked/_build/html $(PYTEST) -n $(SITE_JOBS) --dist loadscope $(SITE_TESTS)

audit: book  ## Execute all readers' notebooks; measure the site; takes half an hour
	$(BIN)/python .ci/readers.py
	@test -d $(VENV)/node_modules/lighthouse || $(NPM) ci
	$(BIN)/python .ci/audit.py $(PAGES)

bench: $(INSTALLED)  ## Time the layers against torch.nn's
	@# The profiler, which measures the memory, announces each of its starts at lower levels.
	@KINETO_LOG_LEVEL=6 $(BIN)/python -m normtutor_studies.benchmark

# Two processes, one per world of sequences, do it in a night; what is on record is not run again.
record: $(INSTALLED)  ## Make the runs of the studies that are missing; hours (STUDIES=... WORLD=code)
	$(BIN)/python -m normtutor_studies run --record $(if $(WORLD),--world $(WORLD)) $(STUDIES)

refresh: $(INSTALLED)  ## Execute chapters and store their checked outputs (NOTEBOOKS=...)
	$(BIN)/python .ci/refresh.py $(NOTEBOOKS)

format: $(INSTALLED)  ## Format the code and the notebooks
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: $(INSTALLED)  ## Choose the pinned versions anew from what pyproject.toml asks for
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
	$(BIN)/python .ci/lock.py $(LOCK_FLAGS)

dist: $(INSTALLED)  ## Build the package to publish, wheel and source (TAG=v0.2.0)
	$(BIN)/python .ci/distribution.py dist --source $(if $(TAG),--tag $(TAG))

# The branch holds one commit, whose files Colab and Binder open.
REMOTE ?= origin
publish:
	.ci/publish_notebooks _build/html/notebooks $(REMOTE)

clean:  ## Remove what was built and the caches; the environment stays
	rm -rf _build build dist mutants .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.*
