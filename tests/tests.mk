# The programs that the suites run: static, so that they work bare and in any box.
# Included by the top Makefile, or used alone: make -f tests/tests.mk

B ?= build
MUSL_CC ?= musl-gcc
PROOF_CFLAGS := -std=gnu11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wformat=2 -Wvla -Wundef -Werror -static \
	-idirafter /usr/include -idirafter /usr/include/$(shell uname -m)-linux-gnu
ATTACK_SRCS := $(wildcard tests/escape/attack/*.c)
PROOF_BINS := $(B)/tests/attack $(B)/tests/refuse $(B)/tests/contain \
	$(B)/tests/netclient $(B)/tests/netclient-libc

proof-bins: $(PROOF_BINS)

$(B)/tests/attack: $(ATTACK_SRCS) tests/escape/attack/attack.h tests/tests.mk
	@mkdir -p $(@D)
	$(MUSL_CC) $(PROOF_CFLAGS) -o $@ $(ATTACK_SRCS)

$(B)/tests/refuse $(B)/tests/contain $(B)/tests/netclient: $(B)/tests/%: tests/harness/%.c tests/tests.mk
	@mkdir -p $(@D)
	$(MUSL_CC) $(PROOF_CFLAGS) -o $@ $<

# The same client with glibc's resolver, as most programs have it.
$(B)/tests/netclient-libc: tests/harness/netclient.c tests/tests.mk
	@mkdir -p $(@D)
	$(CC) $(filter-out -static -idirafter /usr/include%,$(PROOF_CFLAGS)) -o $@ $<

# A client without any libc, where Go is installed; the suite says when it is not.
GO ?= $(firstword $(shell command -v go) $(wildcard /usr/local/go/bin/go))
ifneq ($(GO),)
proof-bins: $(B)/tests/goclient
endif
$(B)/tests/goclient: tests/harness/goclient.go tests/tests.mk
	@mkdir -p $(@D)
	CGO_ENABLED=0 GO111MODULE=off GOCACHE=$(abspath $(B))/tests/go-cache HOME=$(abspath $(B)) \
		$(GO) build -o $@ $<

.PHONY: proof-bins

# Two other readers of DNS messages, to agree with.
EXTRA_LIBS_test_egress_dns_diff := -lldns -lresolv

# A program that is told by its wire alone.
$(B)/tests/test_egress_program $(B)/asan/tests/test_egress_program: | $(B)/bin/nsbox-egress

# These include the sources that they test.
$(foreach b,tests/test_rpc asan/tests/test_rpc fuzz/fuzz_rpc,$(B)/$(b)): \
	$(wildcard tools/nsbox/rpc*.[ch])

# The network by calls, alone: it starts what the launcher starts, so it is of this build.
ifneq ($(LIB_CFLAGS),)
PROOF_BINS += $(B)/tests/callsbox
proof-bins: $(B)/tests/callsbox
endif
$(B)/tests/callsbox: tests/harness/callsbox.c $(B)/lib/internal.a $(B)/gen/init.bin $(B)/bin/nsbox-egress
	@mkdir -p $(@D)
	$(CC) $(LIB_CFLAGS) $(CFLAGS) -o $@ $< $(B)/lib/internal.a -ljansson
