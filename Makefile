# Every command of the project; `make` alone lists them. Set-up is done where a command needs it.
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-guest test-guests check docs bench packages test-packages

BIN := .venv/bin
BPF_SOURCES = $(shell find profiler/bpf -name '*.bpf.[ch]')

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

setup: ## install what is missing and leave the command at .venv/bin/writewise
	@tools/setup

demo: setup ## run the main job, start to end, on an emulated volume (root, at most 5 minutes)
	@$(BIN)/writewise demo

# Two tests a CPU, as one often waits; what they write is in memory, where the host has room for it
# there. Python keeps what it compiles, whatever the caller's environment says: many tests start it.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
PROCESSES = --numprocesses $$((2 * $$(nproc) < 16 ? 2 * $$(nproc) : 16))
MEMORY = $(shell df --output=avail -BG /dev/shm 2>&1 | awk 'END { print $$1 + 0 < 2 ? "/tmp" : "/dev/shm" }')
SIDE_BY_SIDE = files=$$(mktemp -d -p $(MEMORY) writewise-tests-XXXXXX) && trap 'rm -rf "$$files"' EXIT; \
	chmod 755 "$$files"; \
	TMPDIR=$$files $(PYTEST) $(PROCESSES) --dist loadscope

test: ## run every test, those that need root included
	@tools/setup test browser
	@$(SIDE_BY_SIDE) tests/unit tests/s3 tests/postgresql tests/install tests/browser; first=$$?; \
		$(PYTEST) $(PROCESSES) --dist loadfile -m "not alone" tests/root; second=$$?; \
		$(PYTEST) -m alone tests/root && exit $$((first | second))

test-fast: ## run the unit and S3 tests, with fewer examples of each property
	@tools/setup test
	@$(SIDE_BY_SIDE) --hypothesis-profile fast tests/unit tests/s3

test-guest: ## run TESTS on one other kernel, e.g. KERNEL=6.1 TESTS=tests/root/test_block.py
	@tools/setup test guests
	@$(BIN)/python -m tests.guests test $(KERNEL) $(TESTS)

test-guests: ## run the core tests on every kernel of tests/guests (two hours)
	@tools/setup test guests packages
	@$(BIN)/python -m tests.guests all

check: ## ruff, mypy --strict, import-linter, clang-format
	@tools/setup check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(if $(BPF_SOURCES),$(BIN)/clang-format --dry-run -Werror $(BPF_SOURCES))

docs: ## write the generated pages and examples of docs/ again
	@tools/setup test
	@$(BIN)/python -m tools.docs
	@WRITEWISE_WRITE_DOCS=1 $(BIN)/python -m pytest -q tests/unit/repository

bench: ## measure the figures that the docs show, one benchmark after the other
	@tools/setup test bench
	@set -e; for bench in $(notdir $(basename $(wildcard tests/bench/bench_*.py))); do \
		echo "== $$bench"; $(BIN)/python -m tests.bench.$$bench; \
	done

packages: ## build the .deb and the .rpm into dist/ (on Debian or Ubuntu)
	@tools/setup packages
	@$(BIN)/python -m tools.packages.build

test-packages: ## build them twice, lint them, and use the .deb in chroots of Debian 12 and 13 (root)
	@tools/setup test packages
	@$(BIN)/python -m pytest tests/packages
