# nsbox. `make help` lists the targets; CONTRIBUTING.md says how they fit together.
#
# The same sources are compiled several times ("flavours"), one folder each:
#   build/lib    glibc, position independent: libnsbox.so, libnsbox.a, nsbox-policyc, nsbox-scope, nsbox-veth
#   build/hot    musl, static, no third-party code: the `nsbox` command
#   build/fault  the command with fault injection, for tests/fault
#   build/asan   the library with address and undefined-behaviour sanitizers
#   build/tsan   the library with the thread sanitizer
#   build/fuzz   the same with coverage feedback for libFuzzer, where clang has it
# Non-recursive: every rule is in this file and the fragments it includes. `test`,
# `demo` and `bench` start make once more, because they first install what this
# file needs to be read at all (a compiler).

# One place holds the version: the public header.
VERSION := $(shell awk '/define NSBOX_VERSION_(MAJOR|MINOR|PATCH)/ { v = v s $$3; s = "." } END { print v }' \
	runtime/include/nsbox.h)
SONAME := libnsbox.so.0
PREFIX ?= /usr/local
B ?= build
ifeq ($(origin CC),default)
CC := gcc
endif
MUSL_CC ?= musl-gcc
CFLAGS ?= -O2 -g
# V=1 shows whole commands.
Q := $(if $(V),,@)
say = $(if $(V),@:,@echo "  $(1)")

# --- flags -------------------------------------------------------------------
# WERROR= builds with a compiler that warns about more than ours did.
WERROR ?= -Werror
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wformat=2 -Wvla -Wundef -Wpointer-arith -Wwrite-strings $(WERROR)
HARDEN := -fstack-protector-strong -fstack-clash-protection -fcf-protection
COMMON_CFLAGS = -std=gnu11 -D_GNU_SOURCE -ffile-prefix-map=$(CURDIR)=. -I. -Iruntime/include \
	-I$(B)/gen -fvisibility=hidden $(WARN) $(HARDEN)
LIB_CFLAGS = $(COMMON_CFLAGS) -D_FORTIFY_SOURCE=2 -fPIC
# Debian's musl-gcc knows no kernel headers; behind its own, glibc's do no harm.
HOT_CFLAGS = $(COMMON_CFLAGS) -fno-pie -ffunction-sections -fdata-sections \
	-idirafter /usr/include -idirafter /usr/include/$(MULTIARCH)
FAULT_CFLAGS = $(HOT_CFLAGS) -DNSBOX_FAULTS
ASAN_CFLAGS = $(COMMON_CFLAGS) -fPIC -O1 -fno-omit-frame-pointer $(SANITIZE)
TSAN_CFLAGS = $(COMMON_CFLAGS) -fPIC -O1 -fno-omit-frame-pointer -fsanitize=thread
FUZZ_CFLAGS = $(ASAN_CFLAGS) $(FUZZ_FLAGS)
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all
MULTIARCH := $(shell $(CC) -print-multiarch 2>/dev/null || $(CC) -dumpmachine)

# (-flto and -Os were tried on the command: the same start, one page less.)
LIB_LDFLAGS := -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--as-needed
# Why musl, static and not PIE: an empty program of each kind, started 300 times in
# turn (2 CPUs, Linux 6.18), median microseconds / page faults: musl 144 / 5, the
# same without separate code pages 135 / 3, musl static PIE 234 / 24, glibc static
# 426 / 26, glibc dynamic 536 / 49. Every box pays this before anything else.
HOT_LDFLAGS := -static -no-pie -Wl,--gc-sections -Wl,-z,noexecstack,-z,noseparate-code \
	-Wl,--build-id=none

# Flags of one file: the policy floor converts no number silently, and the child
# runs on a stack of its own with another thread's TLS, where a stack protector's
# canary or a sanitizer's shadow would belong to somebody else.
flags_of = $(if $(filter policy/%,$(1)),-Wconversion) $(FLAGS_$(1))
CHILD_FLAGS := -fno-stack-protector -U_FORTIFY_SOURCE -fno-sanitize=all
FLAGS_runtime/child.c := $(CHILD_FLAGS)
FLAGS_runtime/child_mount.c := $(CHILD_FLAGS)
FLAGS_runtime/child_lock.c := $(CHILD_FLAGS)
FLAGS_runtime/child_net.c := $(CHILD_FLAGS)
FLAGS_runtime/companion.c := $(CHILD_FLAGS)

# --- sources -----------------------------------------------------------------
FLOORS := base policy rootfs runtime
ALL_SRCS := $(foreach floor,$(FLOORS),$(wildcard $(floor)/*.c))
INIT_SRCS := $(wildcard runtime/init/*.c)
# The supervisor of a box's network, a program of its own; what it is made of can be
# tested as functions.
EGRESS_SRCS := $(wildcard runtime/egress/*.c)
EGRESS_PARTS := $(filter-out runtime/egress/main.c,$(EGRESS_SRCS))
BLOBS := $(if $(INIT_SRCS),runtime/init_blob.S)
# Reading a policy text: jansson in the library, nsbox-policyc for the command.
LIB_SRCS := $(filter-out runtime/parse_exec.c,$(ALL_SRCS))
HOT_SRCS := $(filter-out policy/load.c,$(ALL_SRCS)) $(wildcard tools/nsbox/*.c)

objs = $(patsubst %,$(B)/$(1)/%.o,$(basename $(2)))
LIB_OBJS := $(call objs,lib,$(LIB_SRCS) $(BLOBS))
HOT_OBJS := $(call objs,hot,$(HOT_SRCS) $(BLOBS))
FAULT_OBJS := $(call objs,fault,$(HOT_SRCS) $(BLOBS))
ASAN_OBJS := $(call objs,asan,$(LIB_SRCS) $(BLOBS))
TSAN_OBJS := $(call objs,tsan,$(LIB_SRCS) $(BLOBS))
FUZZ_OBJS := $(call objs,fuzz,$(LIB_SRCS) $(BLOBS))
EGRESS_OBJS := $(call objs,hot,$(EGRESS_SRCS) $(filter-out policy/load.c,$(foreach floor,base policy,$(wildcard $(floor)/*.c))))
PART_OBJS = $(call objs,$(1),$(EGRESS_PARTS))
POLICYC_OBJS := $(call objs,lib,$(wildcard tools/policyc/*.c))
# The scope of a user's systemd. Without libsystemd's header there is none, and nsbox
# says so (`nsbox doctor`).
HAS_SD_BUS := $(shell echo '\#include <systemd/sd-bus.h>' | $(CC) -E - >/dev/null 2>&1 && echo yes)
SCOPE_OBJS := $(if $(HAS_SD_BUS),$(call objs,lib,$(wildcard tools/scope/*.c)))
# net.path=veth. Without the headers of libnl and libmnl there is none, and nsbox says so.
NL_CFLAGS := -I/usr/include/libnl3
HAS_NL := $(shell printf '\043include <libmnl/libmnl.h>\n\043include <netlink/route/link/veth.h>\n' | \
	$(CC) $(NL_CFLAGS) -E - >/dev/null 2>&1 && echo yes)
VETH_OBJS := $(if $(HAS_NL),$(call objs,lib,$(wildcard tools/veth/*.c)))
FLAGS_tools/veth/link.c := $(NL_CFLAGS)
FLAGS_tools/veth/main.c := $(NL_CFLAGS)
ALL_OBJS := $(LIB_OBJS) $(HOT_OBJS) $(FAULT_OBJS) $(ASAN_OBJS) $(TSAN_OBJS) $(FUZZ_OBJS) $(POLICYC_OBJS) $(SCOPE_OBJS) $(VETH_OBJS) \
	$(EGRESS_OBJS) $(foreach flavour,lib asan tsan fuzz,$(call PART_OBJS,$(flavour)))

LIBS := $(B)/lib/libnsbox.a $(B)/lib/libnsbox.so $(B)/lib/nsbox.pc
BINS := $(B)/bin/nsbox $(B)/bin/nsbox-policyc
BINS += $(if $(wildcard runtime/egress/main.c),$(B)/bin/nsbox-egress)
BINS += $(if $(HAS_SD_BUS),$(B)/bin/nsbox-scope)
BINS += $(if $(HAS_NL),$(B)/bin/nsbox-veth)

all: $(LIBS) $(BINS) compile_commands.json ## build everything (the default)

# --- generated ---------------------------------------------------------------
# Sources made at build time go to $(B)/gen. Each generator has a fragment
# tools/gen/<name>.mk that adds its outputs to GENERATED and holds their rules;
# every object waits for all of them.
GENERATED :=
include $(wildcard tools/gen/*.mk)
$(ALL_OBJS): | $(GENERATED)
generated: $(GENERATED)

# init is a program of its own without any libc. One read-and-execute segment of
# a page or two: each page it does not have is a fault less in every box.
# (Its entry is called from assembly: no prototype.)
INIT_CFLAGS = -std=gnu11 -D_GNU_SOURCE -I. $(WARN) -Wno-missing-prototypes -Os -ffreestanding -fno-pie -fno-stack-protector \
	-fcf-protection=none -fno-asynchronous-unwind-tables -fno-unwind-tables \
	$(INIT_NO_MEMSET) -ffunction-sections -fdata-sections -g0
# A loop must stay a loop: there is no memset() to call.
INIT_NO_MEMSET := $(if $(findstring clang,$(CC)),-fno-builtin,-fno-tree-loop-distribute-patterns)
INIT_LDFLAGS := -nostdlib -static -Wl,--gc-sections -Wl,-z,noseparate-code,-z,norelro \
	-Wl,-z,noexecstack -Wl,-z,max-page-size=4096 -Wl,--build-id=none -s

$(B)/gen/init.bin: $(INIT_SRCS) $(wildcard runtime/init/*.h runtime/*.h) tools/lint/check-init Makefile
	@mkdir -p $(@D)
	$(call say,LINK $@)
	$(Q)$(CC) $(INIT_CFLAGS) $(INIT_LDFLAGS) $(INIT_SRCS) -o $@.elf
	$(Q)objcopy -R .comment -R '.note*' $@.elf $@
	$(Q)tools/lint/check-init $@

# --- compiling ---------------------------------------------------------------
# $(call flavour,name,compiler variable,flags variable)
# .flags changes only when the command does, and takes every object with it.
define flavour
$(B)/$(1)/.flags: FORCE
	@mkdir -p $$(@D)
	@echo '$$($(2)) $$($(3)) $$(CFLAGS)' | cmp -s - $$@ || echo '$$($(2)) $$($(3)) $$(CFLAGS)' > $$@
$(B)/$(1)/%.o: %.c $(B)/$(1)/.flags
	@mkdir -p $$(@D)
	$$(call say,CC $(1) $$<)
	$$(Q)$$($(2)) $$($(3)) $$(CFLAGS) $$(call flags_of,$$<) -MMD -MP -c $$< -o $$@
$(B)/$(1)/runtime/init_blob.o: runtime/init_blob.S $(B)/gen/init.bin
	@mkdir -p $$(@D)
	$$(Q)$$($(2)) -DNSBOX_INIT_BIN='"$(B)/gen/init.bin"' -c $$< -o $$@
endef
$(eval $(call flavour,lib,CC,LIB_CFLAGS))
$(eval $(call flavour,hot,MUSL_CC,HOT_CFLAGS))
$(eval $(call flavour,fault,MUSL_CC,FAULT_CFLAGS))
$(eval $(call flavour,asan,CC,ASAN_CFLAGS))
$(eval $(call flavour,tsan,CC,TSAN_CFLAGS))
$(eval $(call flavour,fuzz,FUZZ_CC,FUZZ_CFLAGS))

# --- products ----------------------------------------------------------------
$(B)/bin/nsbox: $(HOT_OBJS)
	@mkdir -p $(@D)
	$(call say,LINK $@)
	$(Q)$(MUSL_CC) $(HOT_LDFLAGS) $^ -o $@

$(B)/fault/nsbox: $(FAULT_OBJS)
	$(call say,LINK $@)
	$(Q)$(MUSL_CC) $(HOT_LDFLAGS) $^ -o $@

$(B)/bin/nsbox-policyc: $(POLICYC_OBJS) $(B)/lib/internal.a
	@mkdir -p $(@D)
	$(call say,LINK $@)
	$(Q)$(CC) -pie $(LIB_LDFLAGS) $^ -ljansson -o $@

$(B)/bin/nsbox-egress: $(EGRESS_OBJS)
	@mkdir -p $(@D)
	$(call say,LINK $@)
	$(Q)$(MUSL_CC) $(HOT_LDFLAGS) $^ -o $@

$(B)/bin/nsbox-scope: $(SCOPE_OBJS)
	@mkdir -p $(@D)
	$(call say,LINK $@)
	$(Q)$(CC) -pie $(LIB_LDFLAGS) $^ -lsystemd -o $@

$(B)/bin/nsbox-veth: $(VETH_OBJS) $(B)/lib/internal.a
	@mkdir -p $(@D)
	$(call say,LINK $@)
	$(Q)$(CC) -pie $(LIB_LDFLAGS) $^ -lnl-route-3 -lnl-3 -lmnl -o $@

# What tests and our own programs link: internal names are visible.
$(B)/lib/internal.a: $(LIB_OBJS) $(call PART_OBJS,lib)
	$(Q)rm -f $@ && ar rcs $@ $^

# What others link: one object whose internal names are local, so that a program
# with a buf_add() or json_object() of its own keeps it.
$(B)/lib/libnsbox.a: $(LIB_OBJS)
	$(call say,LINK $@)
	$(Q)$(LD) -r $^ -o $(@:.a=.o)
	$(Q)objcopy --localize-hidden $(@:.a=.o)
	$(Q)rm -f $@ && ar rcs $@ $(@:.a=.o)

$(B)/lib/libnsbox.so: $(LIB_OBJS) runtime/nsbox.map
	$(call say,LINK $@)
	$(Q)$(CC) -shared $(LIB_LDFLAGS) -Wl,-z,defs -Wl,-soname,$(SONAME) \
		-Wl,--version-script=runtime/nsbox.map $(LIB_OBJS) -ljansson -o $(B)/lib/libnsbox.so.$(VERSION)
	$(Q)ln -sf libnsbox.so.$(VERSION) $(B)/lib/$(SONAME)
	$(Q)ln -sf $(SONAME) $@

$(B)/lib/nsbox.pc: runtime/nsbox.pc.in Makefile
	@mkdir -p $(@D)
	$(Q)sed -e "s|@PREFIX@|$(PREFIX)|" -e "s|@LIBDIR@|$(LIBDIR)|" -e "s|@VERSION@|$(VERSION)|" $< > $@

compile_commands.json: Makefile tools/compile-commands $(LIB_SRCS) $(HOT_SRCS)
	@tools/compile-commands '$(CC) $(LIB_CFLAGS) $(CFLAGS)' $(sort $(LIB_SRCS) $(HOT_SRCS)) > $@.new
	@mv $@.new $@

include tools/checks.mk tools/install.mk

setup: ## install what is missing to build nsbox
	tools/setup build

clean: ## remove everything that was built
	rm -rf $(B) compile_commands.json

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile tools/*.mk

.DEFAULT_GOAL := all
FORCE:
.PHONY: all generated setup clean help FORCE
.DELETE_ON_ERROR:
.SUFFIXES:
-include $(ALL_OBJS:.o=.d)
