# The interpreter that makes the environment: the first one here that is new enough.
NEW_ENOUGH = import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c '$(NEW_ENOUGH)' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
PIP_FLAGS ?=
PORT ?= 8000
# Processes that run tests side by side.
JOBS ?= 2
# Chapters to refresh: make refresh NOTEBOOKS=book/02_family_of_norms.ipynb
NOTEBOOKS ?= $(wildcard book/*.ipynb book/in_depth/*.ipynb)

# Small tensors on several threads wait for each other: 100 s instead of 0.7 s for 1000 small steps.
export OMP_NUM_THREADS = 1
# The chapters must not depend on what a user has put into a user site.
export PYTHONNOUSERSITE = 1

BIN = $(VENV)/bin
INSTALLED = $(VENV)/.installed
JUPYTERLAB = $(VENV)/.jupyterlab
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS)
PYTEST = $(BIN)/python -m pytest -q -n $(JOBS) --dist loadscope
# pip's own settings count as well.
CPU_TORCH = https://download.pytorch.org/whl/cpu
SAYS_CPU = $(findstring whl/cpu,$(PIP_FLAGS) $(PIP_EXTRA_INDEX_URL) $(PIP_INDEX_URL))

.DEFAULT_GOAL := help
.PHONY: help book lab live serve check test lint types units site coverage lowest newest libraries mutants audit \
	bench record census refresh format lock dist publish clean

help:  ## Print this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

$(INSTALLED): requirements.txt pyproject.toml studies/pyproject.toml grader/pyproject.toml
	@test -n "$(PYTHON)" || { echo "normtutor needs Python 3.11 or newer; none was found." \
		"Name one: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c '$(NEW_ENOUGH)' || { echo "normtutor needs Python 3.11 or newer;" \
		"$(PYTHON) is $$($(PYTHON) --version)." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(if $(SAYS_CPU),,test "$$(uname)" != Linux || $(BIN)/python -c "import torch" 2>/dev/null || { \
		echo "On Linux pip fetches torch with CUDA, 5.4 GB, unless it is told otherwise. For the CPU build:"; \
		echo; echo '    make book PIP_FLAGS="--extra-index-url $(CPU_TORCH)"'; echo; })
	@echo "Installing the pinned packages into $(VENV); the first time this takes some minutes"
	@$(PIP) -r requirements.txt
	@touch $@

# A build that failed leaves pages that Sphinx would take for good ones.
book: $(INSTALLED)  ## Install what is needed, execute the chapters, build the site
	@$(BIN)/jupyter-book build . -W --keep-going || { rm -rf _build/.doctrees; exit 1; }

lab: book $(JUPYTERLAB)  ## Open the notebooks in JupyterLab, to work in: notebooks/ is yours
	@$(BIN)/python tools/lab.py

$(JUPYTERLAB): requirements-lab.txt $(INSTALLED)
	@echo "Installing JupyterLab"
	@$(PIP) -r $<
	@touch $@

live: $(INSTALLED)  ## Write: what is saved is seen in the browser (PORT=...)
	@$(BIN)/sphinx-autobuild . _build/live/html -d _build/live/doctrees -D keep_outputs=1 -D nb_execution_raise_on_error=0 -q --port $(PORT) \
		--delay 0 $(foreach folder,.* _build normtutor studies grader tests tools,--ignore "$(CURDIR)/$(folder)/*") \
		--re-ignore "\.(py|pyc)$$" $(LIVE_FLAGS)

serve: book  ## Build the site and serve it on http://localhost:8000 (PORT=...)
	@$(BIN)/python -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

check: lint types  ## Check in some minutes: style, types, the tests that are not slow
	$(PYTEST) -m "not slow" tests --ignore tests/site --ignore tests/libraries

# The site is built anew from the cache of executed chapters.
test: lint types  ## Check everything: style, types, chapters, tests, site
	rm -rf _build/html _build/.doctrees
	@$(MAKE) --no-print-directory book
	@$(MAKE) --no-print-directory units site

lint: $(INSTALLED)  ## Check format and style, notebooks included
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(INSTALLED)  ## Check the types
	$(BIN)/mypy

TESTS ?= normtutor studies grader tests
UNITS = $(PYTEST) --durations=15 --durations-min=3 $(TESTS) --ignore tests/site --ignore tests/libraries

units: $(INSTALLED)  ## Run the tests of the package and of the book's sources (TESTS=...)
	$(UNITS)

site: $(INSTALLED)  ## Test the site that `make book` has built
	$(PYTEST) --durations=15 --durations-min=3 tests/site

coverage: $(INSTALLED)  ## Run the same tests: which lines does none of them run?
	$(UNITS) --cov --cov-report=term-missing

# The package with what its notebooks import, and nothing else that the book adds or pins.
CORE_TESTS = $$(grep -LE "normtutor_studies|importlib.metadata" tests/core/test_*.py)

lowest: $(INSTALLED)  ## Test the package with the lowest versions that it allows
newest: $(INSTALLED)  ## Test the package with the newest versions that it allows
lowest newest:
	@$(PIP) uv
	@test -x $(VENV)-$@/bin/python || $(PYTHON) -m venv $(VENV)-$@
	$(BIN)/uv pip install --quiet --python $(VENV)-$@ $(if $(filter lowest,$@),--resolution lowest-direct,--upgrade) \
		--index-strategy unsafe-best-match --extra-index-url $(CPU_TORCH) ".[notebooks]" "pytest>=8" "pytest-xdist>=3" \
		"hypothesis>=6.140" "beautifulsoup4>=4.12"
	$(VENV)-$@/bin/python -m pytest -q -n $(JOBS) $(CORE_TESTS)

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
	PYTHONPATH=$(CURDIR):$(CURDIR)/studies $(LIBRARIES)/bin/python -m normtutor_studies.census $(TYPES)

# mutmut brings a text interface and more, so it comes into an environment of its own, which borrows
# this one. The changes of a function are numbered; a tenth of them, and always the same, end in 7.
MUTANTS ?= normtutor.norms.*7 normtutor.moments.*7 normtutor.layers.*7 normtutor.invariance.*7 \
	normtutor_studies.claims.*7
MUTATION ?= $(VENV)-mutation

mutants: $(INSTALLED)  ## Change the code on purpose: which changes does no test notice? (MUTANTS=...)
	@test -x $(MUTATION)/bin/python || $(BIN)/python -m venv $(MUTATION)
	@$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" > \
		$$($(MUTATION)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/book.pth
	@$(MUTATION)/bin/python -m pip install --disable-pip-version-check -q $(PIP_FLAGS) mutmut==3.8.1
	set -f; $(MUTATION)/bin/mutmut run --max-children $(JOBS) $(MUTANTS)
	$(MUTATION)/bin/mutmut results

audit: book  ## Execute all readers' notebooks; measure the site; takes half an hour
	$(BIN)/python tools/readers.py
	$(BIN)/npm --prefix book/_ext ci --no-audit --no-fund --loglevel=error
	$(BIN)/python tools/audit.py $(PAGES)

bench: $(INSTALLED)  ## Time the layers against torch.nn's
	@# The profiler, which measures the memory, announces each of its starts at lower levels.
	@KINETO_LOG_LEVEL=6 $(BIN)/python -m normtutor_studies.benchmark

# Two processes, one per world of sequences, do it in a night; what is on record is not run again.
record: $(INSTALLED)  ## Make the runs of the studies that are missing; hours (STUDIES=... WORLD=code)
	$(BIN)/python -m normtutor_studies run --record $(if $(WORLD),--world $(WORLD)) $(STUDIES)

refresh: $(INSTALLED)  ## Execute what changed, store the outputs that are checked (NOTEBOOKS=...)
	@$(BIN)/python tools/refresh.py $(NOTEBOOKS)

format: $(INSTALLED)  ## Format the code and the notebooks
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The libraries of CUDA belong to one build of torch for Linux; pip adds them where they are needed.
RESOLVE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--custom-compile-command 'make lock' --no-annotate $(LOCK_FLAGS)
WITHOUT_CUDA = sed -i.old -E '/^(nvidia-|cuda-|triton\b)/d; s/\+cpu//'

lock: $(INSTALLED)  ## Choose the pinned versions anew from what pyproject.toml asks for
	@$(PIP) uv==0.13.9
	printf -- '-e .\n-e ./studies\n-e ./grader\n' | $(RESOLVE) - --group test --output-file requirements.txt
	$(WITHOUT_CUDA) requirements.txt
	@mkdir -p _build && grep == requirements.txt > _build/pins.txt
	printf -- '-e .\n' | $(RESOLVE) - --group lab --constraints _build/pins.txt --output-file requirements-lab.txt
	$(WITHOUT_CUDA) requirements-lab.txt
	sed -i.old "s/^torch==.*/$$(grep '^torch==' requirements.txt)+cpu/" .binder/requirements.txt
	rm -f requirements.txt.old requirements-lab.txt.old .binder/requirements.txt.old

dist: $(INSTALLED)  ## Build what is published, wheels and sources (TAG=v0.4.0)
	$(if $(TAG),@test "$(TAG)" = "v$$($(BIN)/python -c 'import normtutor; print(normtutor.__version__)')" || \
		{ echo "The tag $(TAG) is not the version here." >&2; exit 1; })
	@for folder in . studies grader; do $(BIN)/python -m build --no-isolation --outdir dist $$folder || exit 1; done

# The branch holds one commit, whose files Colab and Binder open.
REMOTE ?= origin
publish:
	.ci/publish_notebooks _build/html/notebooks $(REMOTE)

clean:  ## Remove what was built and the caches; the environment stays
	rm -rf _build build dist mutants .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.*
