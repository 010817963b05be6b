# The programs that the suites run: static, so that they work bare and in any box.
# Included by the top Makefile, or used alone: make -f tests/tests.mk

B ?= build
MUSL_CC ?= musl-gcc
PROOF_CFLAGS := -std=gnu11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wformat=2 -Wvla -Wundef -Werror -static \
	-idirafter /usr/include -idirafter /usr/include/$(shell uname -m)-linux-gnu
ATTACK_SRCS := $(wildcard tests/escape/attack/*.c)
PROOF_BINS := $(B)/tests/attack $(B)/tests/refuse $(B)/tests/contain

proof-bins: $(PROOF_BINS)

$(B)/tests/attack: $(ATTACK_SRCS) tests/escape/attack/attack.h tests/tests.mk
	@mkdir -p $(@D)
	$(MUSL_CC) $(PROOF_CFLAGS) -o $@ $(ATTACK_SRCS)

$(B)/tests/refuse $(B)/tests/contain: $(B)/tests/%: tests/harness/%.c tests/tests.mk
	@mkdir -p $(@D)
	$(MUSL_CC) $(PROOF_CFLAGS) -o $@ $<

.PHONY: proof-bins

# Two other readers of DNS messages, to agree with.
EXTRA_LIBS_test_egress_dns_diff := -lldns -lresolv
