# The targets that a person types. The library is msgstore.h, one file, and needs no
# building. All other targets, and the files in build/, are in tests/Makefile,
# bench/Makefile and tools/Makefile: `make test-board` and `make build/msgstore` work here,
# too.
#
#   STB_INC=dir     where stb_ds.h is, when it is not in a usual place
#   SITE_URL=url    for site: where it will be published, if that is known
#   PREFIX=dir      where to install (/usr/local); DESTDIR=dir is put in front of it
#   CC, CXX, CLANG  the compilers; CLANG is for the sanitizers
#   SETUP=0         installs nothing: goes on with what is there, or names what is missing
#   JOBS=n          how many programs `make test` and `make check` build and run at a time (2)
#   SECTION=name    check: only the suites of a section of the header ('log-sync'); the
#                   sections and their suites are listed in tests/SECTIONS.md
#   CHANGED=1       check: the suites of what git reports as changed (BASE=rev: since then)
#   FROM=side       header: the side that counts where both were edited, src or msgstore.h
#   QUICK=1         bench: a look, in less than 3 minutes
#   BENCH=options   for bench ('--only A1,R3'), bench-gate ('--only sync'), bench-micro and
#                   bench-scale
#   BENCH_DIR=dir   where they write their files (build)
#   TORTURE=options for torture ('--percent 10 --only power,kills')
#   COVERAGE=options for coverage ('--missing log')
#   PG=parts        for test-postgres ('suites faults')

PREFIX ?= /usr/local
JOBS   ?= 2

help: ## print these lines
	@sed -n 's/^\([a-z-]*\):.*## /make \1 - /p' Makefile
	@echo 'make help-tests - print the other targets: single tests, measurements, packages'

setup: ## install the packages that the tests need; SETUP=0: only print their names
	@sh tools/setup.sh setup

demo: ## build the tool and the agent loop, let them run
	@sh tools/setup.sh demo
	@$(MAKE) $(RULES) build/msgstore build/agent_loop
	@bash tools/demo.sh

test: ## build and run everything; the last line counts: N passed, N failed, N skipped
	@bash tools/join.sh --check
	@$(MAKE) $(RULES) test

check: ## each suite once, quickly; or some: SECTION=log-sync, CHANGED=1
	@bash tools/join.sh --check
	@sh tools/setup.sh check
	@MAKE='$(MAKE) $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))' JOBS=$(JOBS) \
	    $(RUN) tests/run/check.sh $(if $(CHANGED),--changed) $(SECTION)

header: ## write msgstore.h from src/, or carry an edit of msgstore.h into src/
	@bash tools/join.sh $(if $(FROM),--from $(FROM))

torture: ## crashes, damage, faults, fuzzing at release size: an hour or two, one table
	@$(MAKE) $(RULES) torture

bench: ## compare with other stores, and each figure with its goal
	@$(MAKE) $(RULES) bench

tool: ## build the command line tool, build/msgstore
	@[ -n "$$(STB_INC='$(STB_INC)' sh tools/setup.sh stb)" ] || sh tools/setup.sh tool
	@$(MAKE) $(RULES) build/msgstore
	@sh tools/setup.sh without build/with

lib: ## build libmsgstore.so, .a and, with mingw, .dll into build/lib, for other languages
	@bash tools/lib.sh build/lib

install: tool ## install headers, library, tool, its manual and completions under PREFIX
	@DLL=0 bash tools/lib.sh build/lib >/dev/null
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' bash tools/install.sh install

uninstall: ## remove what install has put under PREFIX
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' bash tools/install.sh uninstall

dist: ## write build/dist: the archive of a release, byte for byte the same anywhere, and its checksums
	@bash tools/dist.sh

site: ## write the documentation as a static site, build/site/html, with MkDocs from PyPI
	@$(MAKE) $(RULES) build/msgstore
	@SETUP='$(SETUP)' SITE_URL='$(SITE_URL)' $(RUN) tools/site.sh

clean: ## remove build/
	rm -rf build

TYPED = help setup demo test check header torture bench tool lib install uninstall dist site clean

# make -n runs the lines that call make, too: there a script is only printed.
RUN = $(if $(findstring n,$(firstword -$(MAKEFLAGS))),echo bash,bash)

# One make knows every other target and file. It gets all of them in one call, so that
# what two of them need is built once. Of several targets here one runs after the other.
RULES = --no-print-directory -f tests/Makefile
OTHERS := $(filter-out $(TYPED),$(MAKECMDGOALS))
ifneq ($(OTHERS),)
$(firstword $(OTHERS)):
	@$(MAKE) $(RULES) $(OTHERS)
$(wordlist 2,$(words $(OTHERS)),$(OTHERS)): $(firstword $(OTHERS)) ; @:
endif

.PHONY: $(TYPED) $(OTHERS)
.NOTPARALLEL:
