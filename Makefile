# Builds the tool, the examples and the tests around msgstore.h. The library itself is
# that one file and needs no building.
#
#   STB_INC=dir     where stb_ds.h is, when it is not in a usual place
#   PREFIX=dir      where to install (/usr/local); DESTDIR=dir is put in front of it
#   CC, CXX, CLANG  the compilers; CLANG is for the sanitizers
#   SETUP=0         installs nothing: goes on with what is there, or names what is missing
#   JOBS=n          how many programs `make test` and `make check` build and run at a time (2)
#   SECTION=name    check: only the suites of a section of the header ('log-sync'); the
#                   sections and their suites are listed in tests/README.md
#   FROM=side       header: the side that counts where both were edited, src or msgstore.h
#   QUICK=1         bench: a look, in less than 3 minutes
#   BENCH=options   for bench ('--only A1,R3'), bench-gate ('--only sync'), bench-micro and
#                   bench-scale
#   BENCH_DIR=dir   where they write their files (build)
#   TORTURE=options for torture ('--percent 10 --only power,kills')
#   COVERAGE=options for coverage ('--missing log')

CC     ?= cc
CXX    ?= g++
CLANG  ?= clang
CFLAGS ?= -O2 -g
PREFIX ?= /usr/local
JOBS   ?= 2

WARN   = -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual \
         -Werror
C99    = -std=c99 $(WARN) -Wstrict-prototypes
STB   := $(shell STB_INC="$(STB_INC)" sh tools/setup.sh stb)

# Every test_NAME.c of a folder of tests/ or tests/unit/ is one program, linked to the
# variant's msgstore.o. Names are unique: the programs stand in one folder. Those that take
# in the implementation themselves, to see the internals, are INSIDE; those that configure
# it, too, link to no object (OWN). What is optimised is the object; the programs around it
# are compiled quickly, but for those that spend their time in themselves (SLOW). Of debug
# information there are lines and functions (-g1), which is what a report shows. Threads do
# not meet in the formats: the object for them has none, and TEST_THREADS asks for the tests
# in which they do meet. One warning, on which gcc spends more than on parsing, clang gives
# in the san builds.
SUITE_C := $(wildcard tests/*/test_*.c tests/unit/*/test_*.c)
TESTS  := $(sort $(basename $(notdir $(SUITE_C))))
SLOW   = test_corrupt test_hostile test_mem_image test_twin test_json test_fast
INSIDE := $(shell grep -l '^ *\# *define  *MSGSTORE_IMPLEMENTATION' $(SUITE_C))
OWN    := $(if $(shell command -v $(CLANG)),$(shell grep -lE \
              '^ *\# *define  *MSGSTORE_(FFI_IMPLEMENTATION|FLASH|RING)' $(INSIDE)),$(INSIDE))
SMALL  = build/os/test_views build/os/test_twin build/os/test_change \
         build/arena/test_views
VALGRIND_TESTS = test_message test_record test_mem test_dialect
PKGS   = cmocka jansson libcjson sqlite3
LIBS  := $(shell pkg-config --libs $(PKGS) 2>/dev/null || \
                 echo -lcmocka -ljansson -lcjson -lsqlite3) -lm
INC   := $(shell pkg-config --cflags-only-I $(PKGS) 2>/dev/null | sed 's/-I/-isystem /g')

O2     = $(cc) $(C99) -O2 -g1 -Wno-misleading-indentation -pthread
SAN    = $(CLANG) $(C99) -O1 -g1 -pthread -fsanitize=address,undefined \
         -fno-sanitize-recover=all -fno-omit-frame-pointer
TSAN   = $(CLANG) $(C99) -O1 -g1 -pthread -fsanitize=thread -DMSGSTORE_NO_DIALECTS \
         -DTEST_THREADS

EXAMPLES = $(patsubst examples/%.c,build/%,$(wildcard examples/*.c))
THREADS  = $(filter test_threads test_change_shared test_shared test_log_place \
             test_rewrite,\
             $(TESTS))
TORTURED = $(filter test_power test_small test_crash test_shared test_corrupt test_hostile test_damage \
             test_fault_io test_fault_alloc test_threads test_twin test_project_window \
             test_project_hostile test_numbers test_mem_buffer test_mem_image test_flash test_ring,$(TESTS))
FUZZERS  = $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
LONG     = $(TORTURED:%=build/o2/%) $(TORTURED:%=build/san/%) build/tsan/test_threads \
           $(FUZZERS:%=build/fuzz/%) $(FUZZERS:%=build/fuzz/plain/%)
PROGRAMS = $(TESTS:%=build/o2/%) $(TESTS:%=build/san/%) $(THREADS:%=build/tsan/%) \
           $(FUZZERS:%=build/san/%) $(FUZZERS:%=build/o2/%) $(SMALL)

# What tests/run/run.sh runs, as variant:program. val is the o2 program under valgrind.
SUITES = $(TESTS:%=o2:build/o2/%) \
         $(patsubst %,val:build/o2/%,$(filter $(VALGRIND_TESTS),$(TESTS))) \
         $(patsubst %,sh:%,$(wildcard tests/*/test_*.sh)) \
         $(TESTS:%=san:build/san/%) $(THREADS:%=tsan:build/tsan/%) \
         $(foreach program,$(SMALL),$(word 2,$(subst /, ,$(program))):$(program)) $(EXAMPLES:%=example:%) example:build/quickstart_cpp \
         example:build/o2/bench_goals example:build/o2/bench_micro

# With SETUP=0 `make test` leaves out what cannot be built or run here: without clang's
# sanitizers san and tsan, without valgrind val.
ifeq ($(SETUP),0)
ABSENT   := $(shell sh tools/setup.sh absent)
LEFT_OUT := $(if $(filter san,$(ABSENT)),build/san/% build/tsan/% san:% tsan:% \
                sh:tests/run/test_corpus.sh) $(if $(filter val,$(ABSENT)),val:%)
PROGRAMS := $(filter-out $(LEFT_OUT),$(PROGRAMS))
SUITES   := $(filter-out $(LEFT_OUT),$(SUITES))
endif

help: ## print these lines
	@sed -n 's/^\([a-z-]*\):.*## /make \1 - /p' Makefile

setup: ## install the packages that the tests need; SETUP=0: only print their names
	@sh tools/setup.sh setup

demo: ## build the tool and the agent loop, let them run
	@sh tools/setup.sh demo
	@$(MAKE) --no-print-directory build/msgstore build/agent_loop
	@bash tools/demo.sh

test: ## build and run everything; the last line counts: N passed, N failed
	@bash tools/join.sh --check
	@sh tools/setup.sh test
	@if $(MAKE) --no-print-directory -k $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS)) all; \
	then built=; else built=--unbuilt; fi; \
	MS_TEST_JOBS=$(JOBS) bash tests/run/run.sh $$built $(SUITES)

header: ## write msgstore.h from src/, or carry an edit of msgstore.h into src/
	@bash tools/join.sh $(if $(FROM),--from $(FROM))

check: ## each suite once, quickly; or those of a section of the header: SECTION=log-sync
	@bash tools/join.sh --check
	@sh tools/setup.sh check
	@MAKE='$(MAKE) $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))' JOBS=$(JOBS) \
	    bash tests/run/check.sh $(SECTION)

torture: $(LONG) ## crashes, damage, faults, fuzzing at release size: an hour or two, one table
	@MS_TEST_JOBS=$(JOBS) bash tests/run/torture.sh $(TORTURE)

fuzz: ## look for inputs that break it, a minute for each target (FUZZ_S=seconds)
	@sh tools/setup.sh fuzz
	@MAKE='$(MAKE)' CLANG='$(CLANG)' JOBS=$(JOBS) bash tests/run/fuzz.sh

controls: ## builds without one defence each: is there a test that notices?
	@sh tools/setup.sh controls
	@JOBS=$(JOBS) bash tests/run/controls.sh

model: ## check models of publication and recovery with spin, and wrong variants of them
	@SETUP='$(SETUP)' bash tests/model/run.sh

coverage: ## lines and branches of the header that tests reach; COVERAGE='--missing log'
	@JOBS=$(JOBS) CLANG='$(CLANG)' bash tests/run/coverage.sh $(COVERAGE)

test-sdk: ## projections judged by the providers' own packages, from PyPI and npm
	@MAKE='$(MAKE)' bash tests/platform/sdk/run.sh

test-cross: ## the tests on s390x, i386 and armhf, under qemu-user
	@JOBS=$(JOBS) bash tests/platform/cross.sh

test-windows: ## library, tests, tool and examples built with mingw-w64, run under wine
	@JOBS=$(JOBS) bash tests/platform/windows.sh

test-postgres: ## the store over PostgreSQL, on servers of its own; PG='suites faults'
	@sh tools/setup.sh postgres
	@$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS)) $(PG_TESTS)
	@bash tests/platform/postgres.sh $(PG)

torture-postgres: ## the faults of the store over PostgreSQL, 200 rounds of them
	@PG_ROUNDS=$${PG_ROUNDS:-200} $(MAKE) --no-print-directory test-postgres PG=faults
	@PG_ROUNDS=$${PG_ROUNDS:-50} PG_MESSAGES=$${PG_MESSAGES:-1000000} \
	    $(MAKE) --no-print-directory test-postgres PG=tool

test-board: ## the store on a Cortex-M4 with 64 KiB of RAM, run under qemu, and its size
	@sh tools/setup.sh board || echo 'make test-board: going on with what is there' >&2
	@bash tests/platform/board.sh

test-report: ## msgstore report in a browser, and the picture of README.md; REPORT_SHOTS=dir
	@sh tools/setup.sh report || echo 'make test-report: going on with what is there' >&2
	@$(MAKE) --no-print-directory build/msgstore
	@bash tests/tool/report/run.sh
	@SETUP='$(SETUP)' bash tools/picture.sh --check

picture: build/msgstore ## record docs/terminal.svg, the picture of the tool in README.md
	@SETUP='$(SETUP)' bash tools/picture.sh

test-otlp: ## traces of msgstore export, read with OpenTelemetry's own parser (from PyPI)
	@$(MAKE) --no-print-directory build/msgstore
	@bash tests/tool/otlp/run.sh

test-handover: ## sessions that Codex, Claude Code and pi go on with (from npm and PyPI)
	@$(MAKE) --no-print-directory build/msgstore
	@bash tests/tool/handover/run.sh

bench: ## compare with other stores, and each figure with its goal
	@sh tools/setup.sh bench || echo 'make bench: going on with what is there' >&2
	@$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS)) \
	    build/bench_goals build/bench_msgstore build/bench build/bench_floor \
	    $$(sh tools/setup.sh peers | sed 's|^|build/bench_|')
	@BENCH_DIR=$${BENCH_DIR:-build} build/bench $(if $(QUICK),--quick) $(BENCH)

bench-gate: build/bench_goals ## measure the library alone, each figure against its goal
	@BENCH_DIR=$${BENCH_DIR:-build} build/bench_goals $(BENCH)

bench-micro: build/bench_micro ## hot functions alone: ns a call, GB/s
	@build/bench_micro $(BENCH)

bench-scale: ## our store and its peers from 10^3 to 10^7 messages, with plots
	@sh tools/setup.sh bench || echo 'make bench-scale: going on with what is there' >&2
	@BENCH_DIR=$${BENCH_DIR:-build} bash bench/scale.sh $(BENCH)

bench-postgres: build/bench_postgres ## the store over PostgreSQL beside statements by hand
	@bash bench/postgres.sh $(BENCH)

tool: $(if $(STB),build/msgstore) ## build the command line tool, build/msgstore
	@$(if $(STB),,sh tools/setup.sh demo && $(MAKE) --no-print-directory build/msgstore)

examples: $(EXAMPLES) ## build the examples into build/

all: build/msgstore examples build/quickstart_cpp build/o2/bench_goals build/o2/bench_micro \
     $(PROGRAMS) build/test_conformance

lib: ## build libmsgstore.so, .a and, with mingw, .dll into build/lib, for other languages
	@bash tools/lib.sh build/lib

test-python: ## the Python package and its adapters, with the packages that they serve
	@bash tests/platform/python.sh

js: ## build the WebAssembly module of bindings/js
	@bash tools/wasm.sh bindings/js/msgstore.wasm

test-js: ## the JavaScript package under Node, with the SDKs that it serves, and in chromium
	@SETUP='$(SETUP)' bash tests/platform/js.sh

static: build/report_page.h ## build the tool as one static binary, build/msgstore-static, with musl
	@bash tools/static.sh build/msgstore-static

single: ## write build/msgstore_single.h, which has stb_ds.h in it
	@bash tools/single.sh build/msgstore_single.h

test-packaging: ## a consumer for each build system: CMake, Meson, Conan, xmake, zig, ...
	@SETUP='$(SETUP)' bash tests/platform/packaging.sh

install: tool ## install headers, tool, its manual and completions under PREFIX
	install -d $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/bin \
	    $(DESTDIR)$(PREFIX)/lib/pkgconfig
	install -m 644 msgstore.h bindings/msgstore_ffi.h $(DESTDIR)$(PREFIX)/include
	install -m 755 build/msgstore $(DESTDIR)$(PREFIX)/bin/msgstore
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 \
	    $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
	    $(DESTDIR)$(PREFIX)/share/zsh/site-functions \
	    $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	build/msgstore manual >$(DESTDIR)$(PREFIX)/share/man/man1/msgstore.1
	build/msgstore completion bash \
	    >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/msgstore
	build/msgstore completion zsh \
	    >$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_msgstore
	build/msgstore completion fish \
	    >$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/msgstore.fish
	version=$$(sed -n 's/^#define MSGSTORE_VERSION *"\(.*\)".*/\1/p' msgstore.h); \
	sed -e "s|@PREFIX@|$(PREFIX)|" -e "s|@VERSION@|$$version|" tools/msgstore.pc.in \
	    >$(DESTDIR)$(PREFIX)/lib/pkgconfig/msgstore.pc

clean: ## remove build/
	rm -rf build

.PHONY: FORCE help setup demo test check header torture fuzz controls model coverage test-cross \
        test-windows test-postgres torture-postgres test-board test-report test-otlp \
        test-handover picture bench bench-gate bench-micro bench-scale bench-postgres tool \
        examples all install lib js single static test-python test-js test-packaging clean

# build COMPILER-AND-FLAGS, LIBRARIES: compile and link the first prerequisite. The old
# file goes first, so that a failed build leaves none.
#
# Compiling the implementation is most of the work. Sources that take it in and need
# nothing but the interface are compiled with LINKED, which leaves it out, and linked to
# an object that has it. The tool and the examples are: built from the source alone they
# are the same programs. quickstart is built so, in C and in C++.
define build
@mkdir -p $(@D)
@rm -f $@
@echo 'build $@'
@$(1) -I. -Itests/support $(STB) -o $@ $< $(2)
endef

# In a program with an implementation of its own all functions are static: what no test
# reaches is not compiled. The other programs inside call the public functions of the
# object; clang then compiles only the private functions that they call themselves. gcc
# would compile all, and warn: without clang they have an implementation of their own.
object = $(if $(filter $<,$(OWN)),,$(@D)/msgstore.o) $(tooled) $(if $(tooled),$(TOOL_LIBS))
inside = $(if $(filter $<,$(OWN)),-DMSGSTORE_STATIC,$(if $(filter $<,$(INSIDE)),-O0 \
         -Wno-static-in-inline -D'MS_API=extern inline __attribute__((gnu_inline))'))
# What is not optimised comes from the quicker compiler.
cc     = $(if $(filter $(INSIDE) build/check/%.o build/examples.o,$< $@),$(QUICKER),$(CC))
QUICKER = $(if $(shell command -v $(CLANG)),$(CLANG),$(CC))
tooled = $(filter build/tool/%.o $(@D)/tool/%.o,$^)
fast   = $(filter $(@D)/fast_%.o,$^)
header = msgstore.h Makefile
tool   = $(wildcard tools/*.h)
TOOL_C = $(filter-out tools/library.c,$(wildcard tools/*.c))
shared = $(header) $(wildcard tests/support/*.h) tools/usage_sum.h

LINKED = -DMSGSTORE_IMPLEMENTED
TOOL_O = $(if $(filter-out -O2 -g,$(CFLAGS)),build/tool.o,build/o2/msgstore.o)


# The page that msgstore report fills is built into the tool. With zlib its data is
# deflated.
PAGE = tools/report/page.html tools/report/page.css tools/report/page.js
build/embed: tools/report/embed.c
	$(call build,$(CC) $(C99) -O1,)
build/report_page.h: build/embed $(PAGE)
	@build/embed $(PAGE) >$@
build/tool/cmd_report.o build/check/tool/cmd_report.o: build/report_page.h

build/tool.o: tests/support/msgstore_impl.c $(header)
	$(call build,$(CC) $(C99) $(CFLAGS) -pthread -c,)
# Compressed transcripts are read where these libraries are.
ZLIB := $(shell sh tools/setup.sh zlib)
TOOL_WITH := -Ibuild $(if $(ZLIB),-DWITH_ZLIB) \
            $(shell pkg-config --exists libzstd 2>/dev/null && echo -DWITH_ZSTD) \
            $(shell pkg-config --exists libzip 2>/dev/null && echo -DWITH_ZIP) \
            $(shell pkg-config --exists libpq 2>/dev/null && echo -DWITH_POSTGRES -isystem \
                $$(pkg-config --variable=includedir libpq))
TOOL_LIBS := $(shell pkg-config --libs libzstd 2>/dev/null) \
            $(shell pkg-config --libs libzip 2>/dev/null) \
            $(shell pkg-config --libs libpq 2>/dev/null) $(ZLIB) -lm
build/tool/postgres.o build/check/tool/postgres.o: backends/msgstore_postgres.h
# It is compiled again when a library is installed later.
build/with: FORCE
	@mkdir -p $(@D); echo '$(TOOL_WITH)' | cmp -s - $@ || echo '$(TOOL_WITH)' >$@
FORCE:
build/tool/%.o: tools/%.c $(tool) $(header) build/with
	$(call build,$(CC) $(C99) $(CFLAGS) $(TOOL_WITH) -c,)
# Stand for libraries that the tool's suites do not call (tests/tool/tool_checks.sh).
EMPTY = build/empty/libpq.so.5 build/empty/libcrypto.so.3
$(EMPTY):
	@mkdir -p $(@D)
	@echo 'OPENSSL_3.0.0 { };' >$@.map
	@$(CC) -shared -x c /dev/null -Wl,--version-script=$@.map -o $@ 2>/dev/null || true
build/msgstore build/check/msgstore build/san/msgstore: | $(EMPTY)
build/msgstore: $(TOOL_C:tools/%.c=build/tool/%.o) $(TOOL_O)
	@echo 'build $@'
	@$(CC) $(CFLAGS) -pthread -o $@ $^ $(TOOL_LIBS)
build/examples.o: tests/support/msgstore_impl.c $(header)
	$(call build,$(O2) -O0 -c,)
build/sdk/project: tests/platform/sdk/project.c build/tool.o $(shared)
	$(call build,$(CC) $(C99) $(CFLAGS) $(INC) -pthread,build/tool.o $(LIBS))
build/quickstart: examples/quickstart.c $(header)
	$(call build,$(O2) -O0,)
build/%: examples/%.c build/examples.o $(header)
	$(call build,$(O2) -O0 $(LINKED),build/examples.o \
	    $(if $(findstring sqlite,$*),-lsqlite3))
build/quickstart_cpp: examples/quickstart.c $(header)
	$(call build,$(CXX) -x c++ -std=c++11 $(WARN) -Wno-misleading-indentation -O0 -g1 \
	    -pthread,)

# The benchmarks. Their programs are linked to the object that the tests use, optimised;
# for the tests, which ask only whether they work, they are not optimised themselves.
# bench_micro takes the implementation in: it calls functions of its inside.
PEER_sqlite  = -lsqlite3
PEER_lmdb    = -llmdb
PEER_leveldb = -lleveldb
PEER_jsonl   = -lcjson
CJSON        = $(if $(shell sh tools/setup.sh peers | grep jsonl),-DBENCH_CJSON)
LINK_CJSON   = $(CJSON:-DBENCH_CJSON=-lcjson) -lm
bench_h      = $(wildcard bench/*.h bench/*/*.h) $(header)
bench_c      = bench/data.c bench/system.c
GOALS        = $(wildcard bench/goals/*.c) $(bench_c) build/o2/msgstore.o
COMPARE      = bench/compare/compare.c bench/goals/table.c $(bench_c) build/o2/msgstore.o
sources      = $(filter %.c %.o,$(wordlist 2,99,$^))

build/bench_goals: $(GOALS) $(bench_h)
	$(call build,$(O2) $(INC) $(CJSON),$(sources) $(LINK_CJSON))
build/o2/bench_goals: $(GOALS) $(bench_h)
	$(call build,$(O2) -O0 $(INC) $(CJSON),$(sources) $(LINK_CJSON))
build/bench_micro: bench/micro.c $(bench_c) $(bench_h)
	$(call build,$(O2),$(sources) -lm)
build/o2/bench_micro: bench/micro.c $(bench_c) $(bench_h)
	$(call build,$(O2) -O0,$(sources) -lm)
build/bench: $(COMPARE) $(bench_h)
	$(call build,$(O2),$(sources) -lm)
build/bench_%: bench/compare/%.c bench/compare/driver.c $(bench_c) build/o2/msgstore.o $(bench_h)
	$(call build,$(O2) $(INC),$(sources) $(PEER_$*) -lm)
build/bench_postgres: bench/postgres.c $(PG_STORE) $(header)
	$(call build,$(CC) $(C99) -O2 -g1 $(PG_INC) -pthread,-lpq -lm)

# With these flags gcc also writes the frames and calls that tests/run/test_stack.sh reads.
FRAMES = -fstack-usage -fcallgraph-info=su,da
build/o2/msgstore.o: tests/support/msgstore_impl.c $(header)
	$(call build,$(O2) $(shell $(CC) $(FRAMES) -E -x c /dev/null >/dev/null 2>&1 && \
	    echo '$(FRAMES)') -c,)
build/check/msgstore.o: tests/support/msgstore_impl.c $(header)
	$(call build,$(O2) -O0 -c,)
# With -Os, what serves speed alone is left out; the arena variant is all that a program
# without log and changes has. Both are tested, too.
ARENA = -DMSGSTORE_NO_LOG -DMSGSTORE_NO_CHANGES
build/os/msgstore.o: tests/support/msgstore_impl.c $(header)
	$(call build,$(O2) -Os -c,)
build/arena/msgstore.o: tests/support/msgstore_impl.c $(header)
	$(call build,$(O2) -Os $(ARENA) -c,)
build/san/msgstore.o: tests/support/msgstore_impl.c $(header)
	$(call build,$(SAN) -c,)
build/tsan/msgstore.o: tests/support/msgstore_impl.c $(header)
	$(call build,$(TSAN) -c,)

# test_fast has the implementation twice more: with its wide paths, and without.
build/o2/fast_wide.o build/o2/fast_plain.o: tests/support/fast_impl.c tests/support/fast.h $(header)
	$(call build,$(O2) -O1 $(if $(findstring plain,$@),-DMS__SIMD=0) -c,)
build/check/fast_wide.o build/check/fast_plain.o: tests/support/fast_impl.c tests/support/fast.h $(header)
	$(call build,$(O2) -O0 $(if $(findstring plain,$@),-DMS__SIMD=0) -c,)
build/san/fast_wide.o build/san/fast_plain.o: tests/support/fast_impl.c tests/support/fast.h $(header)
	$(call build,$(SAN) -O0 $(if $(findstring plain,$@),-DMS__SIMD=0) -c,)
build/o2/test_fast build/check/test_fast build/san/test_fast: %/test_fast: %/fast_wide.o %/fast_plain.o

build/o2/test_ffi build/check/test_ffi build/san/test_ffi: bindings/msgstore_ffi.h
# Programs with an implementation of their own do not wait for the object.
vpath test_%.c $(sort $(dir $(SUITE_C)))
OWN_TESTS = $(basename $(notdir $(OWN)))
$(OWN_TESTS:%=build/o2/%): build/o2/%: %.c $(shared)
	$(call build,$(O2) -O0 $(INC) $(inside),$(LIBS))
$(OWN_TESTS:%=build/check/%): build/check/%: %.c $(shared)
	$(call build,$(O2) -O0 $(INC) $(inside),$(LIBS))
build/o2/test_%: test_%.c build/o2/msgstore.o $(shared)
	$(call build,$(O2) $(if $(filter $(SLOW),$(@F)),,-O0) $(INC) $(inside),$(object) $(fast) $(LIBS))
build/os/test_%: test_%.c build/os/msgstore.o $(shared)
	$(call build,$(O2) -O0 $(INC),$(object) $(LIBS))
build/arena/test_%: test_%.c build/arena/msgstore.o $(shared)
	$(call build,$(O2) -O0 $(ARENA) $(INC),$(object) $(LIBS))
build/check/test_%: test_%.c build/check/msgstore.o $(shared)
	$(call build,$(O2) -O0 $(INC) $(inside),$(object) $(fast) $(LIBS))
build/check/tool/%.o: tools/%.c $(tool) $(header) build/with
	$(call build,$(O2) -O0 $(TOOL_WITH) -c,)
# base.c has stb_ds, which shifts bits out of an int where it hashes.
build/san/tool/%.o: tools/%.c $(tool) $(header) build/with
	$(call build,$(SAN) $(if $(filter base,$*),-fno-sanitize=shift) $(TOOL_WITH) -c,)
build/san/tool/cmd_report.o: build/report_page.h
build/san/msgstore: $(TOOL_C:tools/%.c=build/san/tool/%.o) build/san/msgstore.o
	@echo 'build $@'
	@$(SAN) -o $@ $^ $(TOOL_LIBS)
build/check/msgstore: $(TOOL_C:tools/%.c=build/check/tool/%.o) build/check/msgstore.o
	@echo 'build $@'
	@$(O2) -o $@ $^ $(TOOL_LIBS)
# Tests of every store, and of its faults, over PostgreSQL.
PG_INC   = -isystem $(shell pg_config --includedir 2>/dev/null || echo /usr/include/postgresql)
PG_STORE = backends/msgstore_postgres.h tests/platform/postgres/kind.h
PG_TESTS = $(patsubst %,build/pg/test_%,twin views change change_shared memory \
           find copy session) build/pg/faults build/pg/shared_memory build/msgstore
build/pg/test_%: test_%.c build/check/msgstore.o $(PG_STORE) $(shared)
	$(call build,$(O2) -O1 -D_POSIX_C_SOURCE=200809L -DTEST_POSTGRES -Wno-unused \
	    -Wno-unused-const-variable $(INC) $(PG_INC),\
	    $(if $(filter $<,$(INSIDE)),,build/check/msgstore.o) $(LIBS) -lpq)
build/pg/shared_memory: examples/shared_memory/shared_memory.c $(PG_STORE) $(header)
	$(call build,$(O2) -O0 $(PG_INC),-lpq)
build/pg/%: tests/platform/postgres/%.c tests/platform/postgres/proxy.h build/check/msgstore.o $(PG_STORE) \
    $(shared)
	$(call build,$(O2) -O1 -D_POSIX_C_SOURCE=200809L $(INC) $(PG_INC),\
	    build/check/msgstore.o $(LIBS) -lpq)
build/san/test_%: test_%.c build/san/msgstore.o $(shared)
	$(call build,$(SAN) -O0 $(INC) $(inside),$(object) $(fast) $(LIBS))
build/tsan/test_%: test_%.c build/tsan/msgstore.o $(shared)
	$(call build,$(TSAN) $(INC) $(inside),$(object) $(LIBS))

# The fuzz targets: for libFuzzer, with sanitizers and without (plain), for running kept
# inputs once (san), and as for AFL++, so that it goes on compiling (see tests/fuzz/fuzz.h).
FUZZ_CHECK = -fsanitize=address,undefined -fno-sanitize-recover=all
FUZZ  = $(CLANG) $(C99) -O2 -g -pthread $(FUZZ_CHECK) -fno-omit-frame-pointer
COVER = -fsanitize=fuzzer-no-link -fno-sanitize-coverage=trace-cmp
fuzz  = $(wildcard tests/fuzz/*.h) $(shared)

build/fuzz/plain/%: FUZZ_CHECK =
build/fuzz/msgstore.o build/fuzz/plain/msgstore.o: tests/support/msgstore_impl.c $(header)
	$(call build,$(FUZZ) $(COVER) -c,)
build/fuzz/fuzz_%: tests/fuzz/fuzz_%.c build/fuzz/msgstore.o $(fuzz)
	$(call build,$(FUZZ) $(COVER) -fsanitize=fuzzer $(INC),$(@D)/msgstore.o $(LIBS))
build/fuzz/plain/fuzz_%: tests/fuzz/fuzz_%.c build/fuzz/plain/msgstore.o $(fuzz)
	$(call build,$(FUZZ) $(COVER) -fsanitize=fuzzer $(INC),$(@D)/msgstore.o $(LIBS))
build/san/fuzz_%: tests/fuzz/fuzz_%.c build/san/msgstore.o $(fuzz)
	$(call build,$(SAN) -O0 -DFUZZ_REPLAY $(INC),$(@D)/msgstore.o $(LIBS))
build/check/fuzz_%: tests/fuzz/fuzz_%.c build/check/msgstore.o $(fuzz)
	$(call build,$(O2) -O0 -DFUZZ_REPLAY $(INC),$(@D)/msgstore.o $(LIBS))
build/o2/fuzz_%: tests/fuzz/fuzz_%.c build/o2/msgstore.o $(fuzz)
	$(call build,$(O2) -O0 -DFUZZ_AFL $(INC),$(@D)/msgstore.o $(LIBS))

# Those that tools/lint.c judges.
LINTED = lint project project_window project_hostile answer

# The doctor and the readers of transcripts, which are many files.
READERS = base json files secrets trace formats doctor $(notdir $(basename $(wildcard tools/read*.c)))
build/o2/test_doctor: $(READERS:%=build/tool/%.o)
build/check/test_doctor build/san/test_doctor: %/test_doctor: $(READERS:%=\%/tool/%.o)
$(foreach dir,o2 check san,$(LINTED:%=build/$(dir)/test_%)): tools/lint.c tools/lint.h
build/o2/test_secrets build/check/test_secrets build/san/test_secrets: tools/secrets.c \
    tools/secrets.h

build/test_conformance: build/o2/test_conformance
	@cp $< $@
