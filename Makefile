# nsbox. `make help` lists the targets.
#
# Two builds of the same sources: build/lib (glibc, libnsbox.so and .a, with jansson
# for policy files) and build/hot (musl, static, no third-party code: the `nsbox`
# command, whose start-up time is part of every run).

VERSION := 0.1.0
PREFIX ?= /usr/local
CC ?= gcc
MUSL_CC ?= musl-gcc
B := build

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wvla -Wundef -Werror
HARDEN := -fstack-protector-strong -fstack-clash-protection -fcf-protection
CFLAGS ?= -O2 -g
BASE_CFLAGS := -std=gnu11 -D_GNU_SOURCE -I. -Iruntime/include -I$(B)/gen $(WARN) $(HARDEN) -fvisibility=hidden
LIB_CFLAGS := $(BASE_CFLAGS) -D_FORTIFY_SOURCE=2 -fPIC
# Debian's musl-gcc knows no kernel headers; behind its own they do no harm.
HOT_CFLAGS := $(BASE_CFLAGS) -fno-pie -idirafter /usr/include -idirafter /usr/include/$(shell $(CC) -print-multiarch)

LIB_SRCS := $(filter-out runtime/parse_exec.c,$(wildcard base/*.c policy/*.c rootfs/*.c runtime/*.c))
HOT_SRCS := $(filter-out policy/load.c,$(wildcard base/*.c policy/*.c rootfs/*.c runtime/*.c)) $(wildcard tools/nsbox/*.c)
UNIT_SRCS := $(wildcard tests/unit/test_*.c)

LIB_OBJS := $(LIB_SRCS:%.c=$(B)/lib/%.o)
HOT_OBJS := $(HOT_SRCS:%.c=$(B)/hot/%.o)
UNIT_BINS := $(UNIT_SRCS:tests/unit/%.c=$(B)/tests/%)

all: $(B)/lib/libnsbox.a

$(B)/lib/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(LIB_CFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(B)/hot/%.o: %.c
	@mkdir -p $(@D)
	$(MUSL_CC) $(HOT_CFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

# --- generated data (tools/gen): build machine and target are one architecture -----
GEN_FILTER_SRCS := tools/gen/gen_filters.c policy/seccomp.c policy/seccomp_rules.c \
	policy/seccomp_emit.c policy/syscalls.c policy/bpf.c base/err.c

$(B)/gen/gen_syscalls: tools/gen/gen_syscalls.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE $(WARN) $(CFLAGS) $< -o $@ -lseccomp

$(B)/gen/gen_filters: $(GEN_FILTER_SRCS) $(B)/gen/syscalls.inc $(wildcard base/*.h) \
		policy/seccomp.h policy/seccomp_rules.h policy/policy.h
	$(CC) $(LIB_CFLAGS) $(CFLAGS) $(GEN_FILTER_SRCS) -o $@

$(B)/gen/syscalls.inc $(B)/gen/filters.inc: $(B)/gen/%.inc: $(B)/gen/gen_%
	$< >$@

$(B)/lib/policy/syscalls.o $(B)/hot/policy/syscalls.o: $(B)/gen/syscalls.inc
$(B)/lib/policy/seccomp_builtin.o $(B)/hot/policy/seccomp_builtin.o: $(B)/gen/filters.inc

EXTRA_LIBS_test_seccomp_diff := -lseccomp

$(B)/lib/libnsbox.a: $(LIB_OBJS)
	rm -f $@ && ar rcs $@ $^

$(B)/tests/%: tests/unit/%.c $(B)/lib/libnsbox.a
	@mkdir -p $(@D)
	$(CC) $(LIB_CFLAGS) $(CFLAGS) -MMD -MP $< -o $@ $(B)/lib/libnsbox.a -lcmocka -ljansson $(EXTRA_LIBS_$*)

check-unit: $(UNIT_BINS)
	@set -e; for t in $(UNIT_BINS); do $$t; done

clean:
	rm -rf $(B)

.PHONY: all check-unit clean
.DELETE_ON_ERROR:
-include $(LIB_OBJS:.o=.d) $(HOT_OBJS:.o=.d)
