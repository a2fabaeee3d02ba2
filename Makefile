# Short names for common tasks; cargo and scripts/ do the work.
# A command line can set these options in addition to its target:
#   REDIS_SERVER=path  another server for run, cluster, sentinel, test and bench (Redis or Valkey)
#   PORT=number        the port for run (by default the first free port from 6379), or for top and doctor (6379)
#   URL=redis://...    the server, or any node of the cluster, for top and doctor; for doctor also a Sentinel
#   TOP="..."          options for top: --cacert ca.crt; --every 500; locks --by session
#   DOCTOR="..."       options for doctor: --user billing; --all; --json
#   SERVERS="..."      fewer for matrix, fuzz, storm and faults than in scripts/servers.txt: redis-7.0 ...;
#                      for bench and bench-full: the servers for the pairs; all else runs on the first one
#   SEED=n             repeats the random choices of test, fuzz, storm, faults and quorum, not their timing
#   FUZZ_SECONDS=n     how long each fuzz target of fuzz runs (30)
#   HOSTILE_CASES=n    how many states and commands of connections fuzz tries (20000)
#   FAULTS="..."        the configurations for faults (aof-always, sentinel, ...), or --some n drawn by the seed;
#                      FAULTS_SECONDS=n how long on a server (300)
#   QUORUM_SECONDS=n   how long quorum runs on a server (60); SERVERS= for other servers
#   MUTANTS="..."      words of the names of the mutants for mutants (all)
#   MODEL="..."        for model: short; or --minutes n, the large searches too, each for so long
#   FORM=short         for matrix, clients, adapters, miri and site: the most useful checks in little time
#   CHECKERS="..."     fewer for sanitize: address valgrind
#   STORM_SECONDS=n    how long storm runs on each server (60)
#   FAULTS_SECONDS=n   how long faults run on each server (300); 0: one run of each configuration
#   TRIAL="..."        options for trial: --long; --language python; --scenario killed-server
#   BENCH="..."        options for bench and bench-full: --only pairs; --only sharing,sessions; --only contention
#                      --only contention --contest rest, contests by a word of their titles
#                      (bench-full writes a page only if everything on it was measured)
#   LANGUAGES="..."    fewer for clients, adapters and site: python node go ...
#   REQUIRE_ALL=1      for clients, adapters and site: fail if anything is skipped
#   JOBS=n             how many languages clients and adapters run at once (1); each prints its output when it ends
#   TARGETS="..."      fewer for dist, dist-test and dist-again than in scripts/dist/targets.txt
#   CONTRACT="..."     words of the tests that dist-test runs on each server (all); none: no tests, no Rust needed
#   SOURCE=folder      for server-suite: the source of a Redis or Valkey; UNITS="unit/expire ..." fewer units
#   PREFIX=path        where install puts the module: PREFIX/lib/redis/modules

TOOLS := scripts
PROGRAM = $(TOOLS)/program.sh
BUILDING = $(TOOLS)/building.sh
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 30
CHECKERS ?= address valgrind
HOSTILE_COMMANDS ?= 50000
HOSTILE_PAYLOADS ?= 20000
HOSTILE_CASES ?= 20000
STORM_SECONDS ?= 60
FAULTS_SECONDS ?= 300
QUORUM_SECONDS ?= 60

MONITORED = $(if $(PORT),--port '$(PORT)') $(if $(URL),--url '$(URL)')

.PHONY: help help-all run cluster sentinel top doctor monitoring test coverage matrix fuzz fuzz-targets storm faults \
	quorum mutants mutants-core sanitize miri model msrv deny clients adapters trial bench bench-full bench-check \
	bench-keep lint fmt ci build-all build dist dist-test dist-again packages packages-test container-test release-rehearsal \
	server-suite install site docs clean setup-build setup-server setup-cli setup-counts
.NOTPARALLEL:

# For newcomers.
FIRST = build|test|run|cluster|top|doctor|lint|fmt|clients|ci
LIST = sed -n 's/^\([a-z-]*\):.*\#\# \(.*\)/  make \1	\2/p' Makefile

help: ## show the targets for a start
	@$(LIST) | grep -E '^  make ($(FIRST))	' | expand -t 25
	@echo
	@echo '  make help-all          all targets, and what a line may carry besides its target'
	@echo '  CONTRIBUTING.md        a map of the repository, and which checks a change needs'

help-all: ## show all targets and their options
	@$(LIST) | expand -t 25
	@sed -n 's/^#   /  /p' Makefile

run: setup-server build ## start a server with the module, in the foreground
	@$(TOOLS)/run.sh

cluster: setup-server build ## start a cluster with the module, 3 primaries and 3 replicas, in the foreground
	@$(PROGRAM) testbed cluster

sentinel: setup-server build ## start a primary, 2 replicas and 3 Sentinels, in the foreground
	@$(PROGRAM) testbed sentinel

top: setup-build ## a live view of the locks and programs of a running server or cluster (URL= or PORT=)
	@$(PROGRAM) --release redis-lock-top $(MONITORED) $(TOP)

doctor: setup-build ## what will hurt the locks of running servers, and the lines that fix it (URL= or PORT=)
	@$(PROGRAM) --release redis-lock-doctor $(MONITORED) $(DOCTOR)

monitoring: setup-server build ## metrics, alert rules and dashboard, checked on a server with the module
	@$(TOOLS)/monitoring.sh

# The examples are run with each client by make clients.
TESTS = --workspace -E 'not package(examples-rust)'
# The tests that depend on the server; in full also the tests of the tools and of the client that use it.
SERVER_TESTS = kind(test) & package(redis-lock) & not binary(/^(documents|layers|project|switch)$$/)
TOOL_TESTS = kind(test) & package(/^(redis-lock|redis-lock-doctor|redis-lock-client|faults)$$/)

test: setup-server setup-cli build ## unit and integration tests on the installed server
	@$(TOOLS)/tests.sh $(TESTS)
	@cargo test --quiet --doc --workspace

coverage: setup-server setup-cli setup-build ## how much of each folder the tests of make test reach
	@$(TOOLS)/coverage.sh $(TESTS)

matrix: setup-cli build ## integration tests on each server of scripts/servers.txt
	@$(TOOLS)/matrix.sh $(TOOLS)/tests.sh --workspace -E '$(if $(filter short,$(FORM)),$(SERVER_TESTS),$(TOOL_TESTS))'

fuzz: fuzz-targets build ## fuzz targets, then hostile commands, payloads and connections on the same four servers
	@HOSTILE_COMMANDS=$(HOSTILE_COMMANDS) HOSTILE_PAYLOADS=$(HOSTILE_PAYLOADS) HOSTILE_CASES=$(HOSTILE_CASES) \
		$(TOOLS)/matrix.sh $(TOOLS)/tests.sh --workspace --test hostile --success-output immediate

fuzz-targets:
	@$(TOOLS)/setup.sh build fuzz
	@FUZZ_SECONDS=$(FUZZ_SECONDS) $(TOOLS)/fuzz.sh

storm: build ## a minute of 200 clients on 20 locks, on the same four servers
	@$(TOOLS)/matrix.sh $(PROGRAM) faults locks storm --seconds $(STORM_SECONDS)

faults: build ## clients under kills, cuts, failovers and more, their history checked, on the same four
	@$(TOOLS)/setup.sh faketime || true # without it the clock is not stepped, which is said
	@$(TOOLS)/matrix.sh $(PROGRAM) faults locks --seconds $(FAULTS_SECONDS) $(FAULTS)

# Runs on the installed server unless SERVERS names others.
quorum: $(if $(SERVERS),,setup-server) build ## one lock on five servers under faults, its history checked
	@$(if $(SERVERS),$(TOOLS)/matrix.sh) $(PROGRAM) faults quorum --seconds $(QUORUM_SECONDS)

mutants: setup-server build ## break the module or a client on purpose: fault runs, tests or the trial must notice each time
	@$(PROGRAM) faults mutants $(MUTANTS)

mutants-core: setup-build ## break the core's code on purpose, an operator or a function at a time: its tests must notice
	@$(TOOLS)/setup.sh nextest mutants
	cargo mutants --package redis-lock-core --output target

sanitize: setup-build ## hostile and racing tests on servers that check every access to memory
	@$(TOOLS)/sanitize.sh $(CHECKERS)

miri: setup-build ## the library's unit tests in Miri, which finds undefined behaviour (takes a nightly Rust)
	@$(TOOLS)/miri.sh

msrv: setup-build ## build with the oldest Rust that Cargo.toml declares (takes rustup)
	@$(TOOLS)/msrv.sh

deny: ## licenses, sources and advisories of the dependencies, with cargo-deny
	@$(TOOLS)/setup.sh deny
	cargo deny --locked check
	cargo deny --locked --manifest-path fuzz/Cargo.toml --config deny.toml check

model: setup-build ## models: the lock over several servers, searched to the end; clients on sessions, played by seeds
	@$(PROGRAM) model $(MODEL)

clients: setup-server build ## the client and example programs of each language that is installed
	@$(TOOLS)/clients.sh

adapters: setup-server build ## the adapters for Spring, Django, NestJS and others, tested through the frameworks
	@$(TOOLS)/clients.sh adapters

trial: setup-server build ## the client of each installed language through the same faults (TRIAL=--long)
	@$(TOOLS)/trial.sh $(TRIAL)

# The longest queue needs an open file for each connection.
BENCHMARK = ulimit -n "$$(ulimit -H -n)"; cargo run --quiet --profile bench --package benchmark --
CHECK = $(PROGRAM) benchmark

bench: setup-server setup-counts build ## cost of each way of locking, short form (BENCH='--only pairs' for a part)
	@$(BENCHMARK) quick --servers "$(SERVERS)" $(BENCH)

bench-full: setup-server setup-counts build ## the full form; writes docs/benchmark.md, docs/contention.md and plots
	@$(BENCHMARK) full --servers "$(or $(SERVERS),redis-7.0 valkey-9.1)" $(BENCH)

bench-check: setup-server setup-counts build ## fail when a pair takes more instructions than is kept
	@$(CHECK) check

bench-keep: setup-server setup-counts build ## keep the instruction counts (benches/instructions.toml)
	@$(CHECK) keep

lint: ## formatting, clippy and docs, with warnings as errors; workflows and subjects of commits
	@$(TOOLS)/setup.sh build fuzz lint
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	@$(BUILDING) cargo clippy --workspace --all-targets -- -D warnings
	$(TOOLS)/fuzz.sh lint
	RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --document-private-items
	@$(TOOLS)/workflows.sh
	@$(TOOLS)/subjects.sh

fmt: ## format the code
	@$(TOOLS)/setup.sh lint
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml

ci: ## what every change must pass, in a fresh clone of HEAD (30 minutes): every kind of check in a short form
	@$(TOOLS)/ci.sh

MODULE = $(BUILDING) cargo build --release --package redis-lock --lib

# The module and everything else use different profiles, so the two builds run at the same time.
build-all: setup-build
	@$(MODULE) & module=$$!; $(BUILDING) cargo build --workspace --all-targets; \
		built=$$?; wait $$module && exit $$built

build: setup-build ## build the module (target/release/libredis_lock.so)
	@$(MODULE)

dist: ## the archives for Linux on x86-64 and arm64, glibc and musl (target/dist; TARGETS= for fewer)
	@$(TOOLS)/dist/build.sh $(TARGETS)

dist-test: ## check what make dist has built: sizes, symbols, checksums, and a lock on each architecture
	@$(TOOLS)/dist/test.sh $(TARGETS)

dist-again: ## build it again in another folder: it must be the same to the byte
	@$(TOOLS)/dist/reproduce.sh $(TARGETS)

container-test: ## images and the compose file, as a user runs them (takes root, podman and DIST=folder; BASES= names other images)
	@packaging/container/test/all.sh $(DIST)

release-rehearsal: ## what a release does, up to the registries
	@$(TOOLS)/release/rehearse.sh

server-suite: build ## a server's own test suite with the module loaded (SOURCE=folder)
	@UNITS='$(UNITS)' $(TOOLS)/server-suite.sh '$(SOURCE)'

packages: ## a .deb and an .rpm of what was built (ARCHIVE= one of make dist, or a folder)
	@$(TOOLS)/packages.sh $(ARCHIVE)

packages-test: build ## the packages on machines made of bare roots of Debian and Ubuntu (takes root)
	@cargo build --release --package redis-lock-top --package redis-lock-doctor
	@$(TOOLS)/packages-test.sh $(SYSTEMS)

install: ## install what was built in /usr/local (PREFIX=); builds nothing, so sudo is fine
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' $(TOOLS)/install.sh

site: ## the site in target/site/html: documents, API references, links checked, looked at in a browser (FORM=short)
	@$(TOOLS)/setup.sh build mdbook
	@$(TOOLS)/site.sh

docs: setup-build ## the code's documentation (target/doc/redis_lock)
	cargo doc --no-deps --document-private-items

clean: ## remove what was built, fetched and saved
	cargo clean
	rm -rf .run .servers fuzz/target fuzz/artifacts

# Checks for everything that a target needs first, so that one run names everything that is missing.
setup-build:
	@$(TOOLS)/setup.sh build

setup-server:
	@$(TOOLS)/setup.sh build server

setup-cli:
	@$(TOOLS)/setup.sh cli

# Without valgrind only the instruction counts are skipped.
setup-counts:
	@$(TOOLS)/setup.sh valgrind || true
