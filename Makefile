# The front door of Outbox: everything is one word away. The build itself is described by the meson.build files.
JOBS ?= 2
PREFIX ?= /usr/local
# Options for the first setup of build/, such as -Dsink_kafka=disabled; meson_options.txt lists them.
MESONFLAGS ?=

# The size of the proof; a small one: make prove KILLS=50 SECONDS=20 VERSIONS= ADAPTERS=null
KILLS ?= 2000
SECONDS ?= 600
VERSIONS ?= 13,14,16,17
ADAPTERS ?=
FUZZ_SECONDS ?= 60
percent = $(shell n=$$(($(1) * $(2) / 100)); echo $$((n > 1 ? n : 1)))

.DEFAULT_GOAL := build-gcc
.PHONY: help build-gcc build-clang build-asan build-tsan build-fuzz fuzz check test lint format asan tsan bench bench-peers demo prove matrix docs install uninstall clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build-gcc: build/build.ninja ## builds everything in build/ (also: plain make)
	@ninja -j$(JOBS) -C build

build-clang: build-clang/build.ninja ## the same with clang
	@ninja -j$(JOBS) -C build-clang

build-asan: build-asan/build.ninja ## the same with the address and undefined-behaviour sanitizers
	@ninja -j$(JOBS) -C build-asan

build-tsan: build-tsan/build.ninja ## what has threads with the thread sanitizer
	@ninja -j$(JOBS) -C build-tsan tsan-programs

build/build.ninja:
	tools/deps build
	meson setup --prefix $(PREFIX) $(MESONFLAGS) build

build-clang/build.ninja:
	CC=clang meson setup build-clang

# Sanitizers make gcc guess wrongly about bounds: its warnings are the business of the two plain builds.
build-asan/build.ninja:
	meson setup -Db_sanitize=address,undefined -Db_lundef=false -Dwerror=false -Doptimization=1 build-asan

build-tsan/build.ninja:
	meson setup -Db_sanitize=thread -Db_lundef=false -Dwerror=false -Doptimization=1 build-tsan

build-fuzz: build-fuzz/build.ninja
	@ninja -j$(JOBS) -C build-fuzz fuzz-targets

build-fuzz/build.ninja:
	CC=clang meson setup -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false -Dwerror=false -Doptimization=1 \
	    -Dc_args=-fsanitize=fuzzer-no-link build-fuzz

fuzz: ## every parser against libFuzzer, a minute each; FUZZ_SECONDS=600: longer
	@tools/deps test
	@tools/fuzz --seconds $(FUZZ_SECONDS)

test: ## everything CI runs: both compilers, checks, all tests; a part of it: tools/test FILE::TEST...
	@tools/deps test
	@tools/test

check: ## the subset of the tests for every edit, under three minutes
	@tools/deps test
	@tools/test --quick

lint: ## layout, clang-tidy, cppcheck, include direction, generated files up to date
	@tools/deps lint
	@tools/lint

format: ## lays the C sources out
	@tools/lint --format

asan: ## the C tests under the address and undefined-behaviour sanitizers
	@tools/deps test
	@tools/test --flavour asan

tsan: ## the tests of what has threads under the thread sanitizer
	@tools/deps test
	@tools/test --flavour tsan

bench: build-gcc ## measurements; results go to bench/results
	@tools/deps bench
	@bench/run

bench-peers: build-gcc ## beside other queues and outboxes, 35 minutes; ARGS='--budget 90', ARGS='--only drain', ARGS=--quick
	@tools/deps bench peers
	@bench/run-peers $(ARGS)

prove: build-gcc ## the long proof: thousands of kills, a ledger of every message, valgrind; KILLS=50 SECONDS=20: a short one
	@tools/deps test
	@OUTBOX_STRESS_SECONDS=$(call percent,$(SECONDS),10) OUTBOX_RELAY_STORM=$(call percent,$(SECONDS),50) \
	    OUTBOX_HOSTILE_SECONDS=$(call percent,$(SECONDS),5) \
	    OUTBOX_SIM_SEEDS=$(call percent,$(KILLS),2500) OUTBOX_SQLITE_KILLS=$(call percent,$(KILLS),5) \
	    OUTBOX_RELAY_CRASHES=$(call percent,$(KILLS),1) OUTBOX_RELAY_KILLS=$(call percent,$(KILLS),9) \
	    OUTBOX_TEST_PG_VERSIONS=$(VERSIONS) \
	    tools/test stress/doorbell sim/seeds test_sqlite_kills test_versions test_relay_crash test_log_crash \
	    test_relay_many test_relay_storm test_hostile
	@tests/prove/valgrind $(ADAPTERS)
	@tests/prove/run --kills $(KILLS) --crashes $(call percent,$(KILLS),3) --seconds $(SECONDS)
	@tests/prove/log --orders $(call percent,$(KILLS),15) --seconds $(call percent,$(SECONDS),50)

demo: ## the first minute: outbox dev, a message delivered, explained, retried; KEEP=1 leaves it running
	@tools/deps demo
	@$(MAKE) --no-print-directory build-gcc
	@KEEP=$(KEEP) tools/demo

matrix: ## the table of sinks, what can come of a delivery, and the test of each
	@/usr/bin/python3 -B tests/support/matrix.py

docs: ## writes the generated parts of docs/
	@tools/gen-docs

install: build/build.ninja ## builds and installs program, library and headers under PREFIX; DESTDIR is honoured
	@meson configure --prefix $(PREFIX) build
	@ninja -j$(JOBS) -C build installed
	@meson install --no-rebuild -C build

uninstall: ## removes what the last make install from this folder installed
	@ninja -C build uninstall

clean: ## removes all builds
	rm -rf build build-clang build-asan build-tsan build-fuzz
