# The programs that start a snippet in its language, as data: lang/boot.py is the
# array boot_py in boot_py.inc.
LANG_SRCS := $(wildcard runtime/lang/*)
LANG_INCS := $(foreach f,$(notdir $(LANG_SRCS)),$(B)/gen/$(subst .,_,$(f)).inc)
GENERATED += $(LANG_INCS)

$(LANG_INCS): $(LANG_SRCS) tools/gen/embed.sh
	@mkdir -p $(@D)
	$(Q)set -e; for f in $(LANG_SRCS); do name=$$(basename $$f | tr . _); \
		tools/gen/embed.sh $$name $$f > $(B)/gen/$$name.inc; done
