# System call numbers (with libseccomp) and the built-in filters, as data. The
# machine that builds and the one that runs are of one architecture.
GENERATED += $(B)/gen/syscalls.inc $(B)/gen/foreign.inc $(B)/gen/filters.inc
GEN_FILTER_SRCS := tools/gen/gen_filters.c policy/seccomp.c policy/seccomp_rules.c \
	policy/seccomp_emit.c policy/seccomp_calls.c policy/syscalls.c policy/bpf.c base/err.c

$(B)/gen/gen_syscalls $(B)/gen/gen_foreign: $(B)/gen/%: tools/gen/%.c
	@mkdir -p $(@D)
	$(call say,CC $@)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE $(WARN) $(CFLAGS) $< -o $@ -lseccomp

$(B)/gen/gen_filters: $(GEN_FILTER_SRCS) $(B)/gen/syscalls.inc $(B)/gen/foreign.inc policy/seccomp.h \
		policy/seccomp_rules.h policy/policy.h
	$(call say,CC $@)
	$(Q)$(CC) $(LIB_CFLAGS) $(CFLAGS) $(GEN_FILTER_SRCS) -o $@

$(B)/gen/syscalls.inc $(B)/gen/foreign.inc $(B)/gen/filters.inc: $(B)/gen/%.inc: $(B)/gen/gen_%
	$(Q)$< > $@

EXTRA_LIBS_test_seccomp_diff := -lseccomp
