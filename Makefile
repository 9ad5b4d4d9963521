# kestrelpy: everything a fresh machine needs is Python 3.11+ and make.
#
#   make serve   the daemon on its default configuration      make test   the tests, in ten minutes
#
# What is installed stands in .venv, and is installed again only when pyproject.toml changes.

VENV := .venv
PY := $(VENV)/bin/python
# The newest Python that can make a virtual environment; make PYTHON=... takes another one.
PYTHON ?= $(shell for p in python3.14 python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& echo $$p && break; done)
PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check
# The tests start a thousand processes; where Python writes no bytecode (PYTHONDONTWRITEBYTECODE),
# each would compile these first, which is half of a daemon's start. Each pytest would rewrite the
# assertions of all tests, which takes 20 seconds: pytest may write what it made of them.
PYTEST := PYTHONDONTWRITEBYTECODE= $(PY) -m pytest --no-loadscope-reorder
BYTECODE := $(PY) -m compileall -q --invalidation-mode checked-hash \
	journal kestrelpy pyspark_kestrel tests bench
# Tests at a time: two more than there are processors, because many wait for a disk or a clock.
JOBS ?= $(shell $(PYTHON) -c 'import os; print(len(os.sched_getaffinity(0)) + 2)' 2>/dev/null || echo auto)
TIME ?= 30m

.DEFAULT_GOAL := help
.PHONY: help serve install fleet compile test test-all test-fast test-clients lint bench soak sweep mutants clean system-packages

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

serve: install ## install, then run the daemon on its default configuration
	@exec $(VENV)/bin/kestrelpy serve

install: $(VENV)/.installed ## only make .venv, with the command .venv/bin/kestrelpy

fleet: $(VENV)/.installed-trial ## a whole fleet on this machine, to try: kill its owner, and look; SLICES=16 MEMBERS=4: a wide one
	@exec $(PY) -m kestrelpy.examples.fleet $(if $(SLICES),--slices $(SLICES)) $(if $(MEMBERS),--members $(MEMBERS)) $(ARGS)

compile: $(PY) ## 2 minutes: the hot path as C in an environment of its own: sets x 1.5, fetches x 1.8
	@.ci/compile $(PY)

# What `make test` runs. In `make test-all` the long tests have all of their cases, and state machines
# all of their examples: tests/long_tests.toml says what is left out.
test: CHOSEN := not long and not soak and not sweep
test-all: CHOSEN := not soak and not sweep

ifdef COMPILED
test test-all: system-packages $(VENV)/.installed-test compile
	@$(BYTECODE)
	@.ci/test-compiled -n $(JOBS) -m "$(CHOSEN)" $(ARGS)
else
test test-all: system-packages $(VENV)/.installed-test $(VENV)/.spark-classes
	@$(BYTECODE)
	$(PYTEST) -n $(JOBS) -m "$(CHOSEN)" $(ARGS)
endif
test: ## 10 minutes: install what the tests need, then run some cases of each long test and all others; COMPILED=1: those of the compiled modules
test-all: ## 30 minutes: the same with every case, which a change has to pass (.ci/run)

test-fast: $(VENV)/.installed-test ## 1 minute: what needs no other process and no Spark
	$(PYTEST) -n $(JOBS) -m "not slow and not long and not soak and not sweep" \
	--ignore tests/process --ignore tests/unit/spark --ignore tests/unit/bench $(ARGS)

test-clients: $(VENV)/.installed-test $(VENV)/.installed-clients ## run every client library; writes docs/clients.md
	@.ci/clients-packages
	KESTRELPY_CLIENTS=all KESTRELPY_CLIENTS_PAGE=write \
	$(PYTEST) tests/process/clients tests/process/client/test_queue_hasher.py $(ARGS)

lint: $(VENV)/.installed-lint ## ruff and mypy
	$(PY) -m ruff check .
	$(PY) -m mypy

bench: $(VENV)/.installed-bench ## measure against redis-server and beanstalkd
	@.ci/system-packages redis-server beanstalkd memcached gcc strace
	$(PY) -m bench $(ARGS)

soak: $(VENV)/.installed-test ## TIME=30m search for examples that no run has seen; SEED= again
	KESTRELPY_SOAK_TIME=$(TIME) KESTRELPY_SOAK_SEED=$(SEED) \
	$(PYTEST) -n $(JOBS) -m "soak or hypothesis" -o timeout=0 -o faulthandler_timeout=0 $(ARGS)

sweep: $(VENV)/.installed-test ## flip every bit of every file, try all of bench: two hours
	$(PYTEST) -n $(JOBS) -m sweep -o timeout=0 -o faulthandler_timeout=0 $(ARGS)

mutants: $(VENV)/.installed-test $(VENV)/.installed-mutants ## N=300 small changes (ARGS=--subtle: subtle ones): do the tests notice?
	$(PY) -m tests.faults.mutants -n $(or $(N),300) --seed $(or $(SEED),1) $(ARGS)

clean: ## take .venv and what tools left behind away; data stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info

system-packages:
	@.ci/system-packages

# Twenty tests start a JVM: an archive of Spark's classes halves the time that each start takes.
$(VENV)/.spark-classes: $(VENV)/.installed-test | system-packages
	@$(PY) -W ignore -m tests.support.spark_classes 2>/dev/null || echo "no archive of Spark's classes"
	@touch $@

$(PY):
	@if [ -z "$(PYTHON)" ]; then \
		echo "kestrelpy needs Python 3.11 or newer with its venv module; found: $$(python3 --version 2>&1)." >&2; \
		echo "Install one (Debian, Ubuntu: apt install python3 python3-venv), or say which: make PYTHON=/path/to/python" >&2; \
		exit 1; \
	fi
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || .ci/system-packages python3-venv
	@rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(PY)
	$(PIP_INSTALL) -e .
	@touch $@
	@echo "Installed, in pure Python. make compile (a C compiler, 2 minutes): 1.5 times as many sets or more, 1.8 times as many fetches."

$(VENV)/.installed-%: pyproject.toml | $(PY)
	$(PIP_INSTALL) -e '.[$*]'
	@touch $@ $(VENV)/.installed
