# Everything that proves something: tests, lint, bench, sanitizers, fuzzers.
# tests/run prints TAP and ends with "N passed, N failed, N skipped".

UNIT_BINS := $(patsubst tests/unit/%.c,$(B)/tests/%,$(wildcard tests/unit/test_*.c))
ASAN_BINS := $(UNIT_BINS:$(B)/tests/%=$(B)/asan/tests/%)
FUZZ_SRCS := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BINS := $(FUZZ_SRCS:tests/fuzz/%.c=$(B)/fuzz/%)
FUZZ_SECONDS ?= 20
# Folders of suites, in this order; unit tests are the programs in $(B)/tests.
SUITES := $(B)/tests tests/box tests/escape tests/fault tests/abi tests/python

# Programs that the suites run: fragments tests/*.mk have their rules.
include $(wildcard tests/*.mk tests/*/*.mk)

$(B)/tests/%: tests/unit/%.c $(B)/lib/internal.a | $(GENERATED)
	@mkdir -p $(@D)
	$(call say,CC $@)
	$(Q)$(CC) $(LIB_CFLAGS) $(CFLAGS) -MMD -MP $< -o $@ $(B)/lib/internal.a -lcmocka -ljansson $(EXTRA_LIBS_$*)

$(B)/asan/internal.a: $(ASAN_OBJS) $(call PART_OBJS,asan)
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/asan/tests/%: tests/unit/%.c $(B)/asan/internal.a | $(GENERATED)
	@mkdir -p $(@D)
	$(call say,CC $@)
	$(Q)$(CC) $(ASAN_CFLAGS) $(CFLAGS) -MMD -MP $< -o $@ $(B)/asan/internal.a -lcmocka -ljansson $(EXTRA_LIBS_$*)

# What the suites need besides `all`.
test-programs: $(UNIT_BINS) $(PROOF_BINS) $(B)/fault/nsbox

test: ## install what is missing, build, run every test
	tools/setup build demo test lint
	$(MAKE) all test-programs
	tools/setup vm || echo "tests/vm: not everything could be installed; the guests will say what they miss"
	tests/run $(SUITES) tests/vm

check-unit: $(UNIT_BINS)
	@set -e; for t in $(UNIT_BINS); do $$t; done

check: $(UNIT_BINS) ## the tests that need no privilege (seconds)
	tests/run --as user $(B)/tests

check-root: all test-programs ## box and escape tests as root
	tests/run --as root tests/box tests/escape
check-user: all test-programs ## the same as an ordinary user
	tests/run --as user tests/box tests/escape
check-userns: all test-programs ## the same inside another user namespace
	tests/run --as userns tests/box tests/escape
check-escape: all test-programs ## attacks, every identity
	tests/run tests/escape
check-fault: all test-programs ## kill, fail and starve every stage
	tests/run tests/fault
check-vm: all test-programs ## limits, boxes, attacks on other kernels, in QEMU
	tools/setup vm || echo "tests/vm: not everything could be installed; the guests will say what they miss"
	tests/run tests/vm
check-abi: all ## symbols, struct sizes, installation
	tests/run tests/abi

asan: $(ASAN_BINS) ## unit tests under address and undefined-behaviour sanitizers
	@test -n '$(ASAN_BINS)'
	@set -e; for t in $(ASAN_BINS); do echo "== $$t"; \
		ASAN_OPTIONS=detect_leaks=1:abort_on_error=1 UBSAN_OPTIONS=print_stacktrace=1 $$t; done

# What threads may do at once: boxes of their own, and nsbox_box_kill() on any.
TSAN_BINS := $(B)/tsan/tests/test_box_threads

$(B)/tsan/internal.a: $(TSAN_OBJS) $(call PART_OBJS,tsan)
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/tsan/tests/%: tests/unit/%.c $(B)/tsan/internal.a | $(GENERATED)
	@mkdir -p $(@D)
	$(call say,CC $@)
	$(Q)$(CC) $(TSAN_CFLAGS) $(CFLAGS) -MMD -MP $< -o $@ $(B)/tsan/internal.a -lcmocka -ljansson $(EXTRA_LIBS_$*)

tsan: $(TSAN_BINS) ## threads under the thread sanitizer
	@set -e; for t in $(TSAN_BINS); do echo "== $$t"; TSAN_OPTIONS=halt_on_error=0:exitcode=66 $$t; done

# With clang's libFuzzer where its runtime is installed, else with a driver of
# ours that replays the corpus and mutates it without coverage feedback.
FUZZ_ENGINE = $(shell tools/fuzz-run --engine)
FUZZ_CC = $(if $(filter libfuzzer,$(FUZZ_ENGINE)),clang,$(CC))
FUZZ_FLAGS = $(if $(filter libfuzzer,$(FUZZ_ENGINE)),-fsanitize=fuzzer-no-link)
FUZZ_MAIN = $(if $(filter libfuzzer,$(FUZZ_ENGINE)),-fsanitize=fuzzer,tests/fuzz/driver.c)

$(B)/fuzz/internal.a: $(FUZZ_OBJS) $(call PART_OBJS,fuzz)
	$(Q)rm -f $@ && ar rcs $@ $^

$(FUZZ_BINS): $(B)/fuzz/%: tests/fuzz/%.c tests/fuzz/driver.c $(B)/fuzz/internal.a | $(GENERATED)
	@mkdir -p $(@D)
	$(call say,CC $@)
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) $(CFLAGS) $< $(FUZZ_MAIN) -o $@ $(B)/fuzz/internal.a -ljansson $(EXTRA_LIBS_$*)

fuzz-smoke: $(FUZZ_BINS) ## every fuzzer for FUZZ_SECONDS (20) each
	@test -n '$(FUZZ_BINS)'
	@set -e; for f in $(FUZZ_BINS); do tools/fuzz-run $$f $(FUZZ_SECONDS); done

lint: $(B)/lib/libnsbox.so ## layers, shape, banned calls, claims, text, headers, analysers
	tools/lint/run

bench: ## measure against bare spawn and the neighbours (QUICK=1: one minute)
	tools/setup build bench
	$(MAKE) all $(BENCH_BINS)
	tools/bench/run

demo: ## install what is missing, build, run the examples
	tools/setup build demo
	$(MAKE) all
	examples/demo.sh

BENCH_BINS := $(addprefix $(B)/bench/,rr lib filter true payload stream)
$(B)/bench/true $(B)/bench/payload $(B)/bench/stream: $(B)/bench/%: tools/bench/%.c
	@mkdir -p $(@D)
	$(call say,CC $@)
	$(Q)$(MUSL_CC) -std=gnu11 -D_GNU_SOURCE $(WARN) -O2 -static -no-pie $< -o $@
$(B)/bench/rr: tools/bench/rr.c
	@mkdir -p $(@D)
	$(call say,CC $@)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE $(WARN) $(HARDEN) -O2 $< -o $@
$(B)/bench/lib: tools/bench/lib.c $(B)/lib/libnsbox.a
	@mkdir -p $(@D)
	$(call say,CC $@)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -Iruntime/include $(WARN) $(HARDEN) -O2 $< -o $@ $(B)/lib/libnsbox.a -ljansson
$(B)/bench/filter: tools/bench/filter.c $(B)/lib/internal.a
	@mkdir -p $(@D)
	$(call say,CC $@)
	$(Q)$(CC) $(LIB_CFLAGS) $(CFLAGS) $< -o $@ $(B)/lib/internal.a

.PHONY: test-programs test check-unit check check-root check-user check-userns check-escape \
	check-fault check-vm check-abi asan tsan fuzz-smoke lint bench demo
-include $(UNIT_BINS:=.d) $(ASAN_BINS:=.d) $(TSAN_BINS:=.d)
