# The programs that start a snippet in its language, as data: runtime/lang/boot.py
# becomes the array boot_py in boot_py.inc.
LANG_PROGRAMS := $(notdir $(wildcard runtime/lang/*.py runtime/lang/*.js runtime/lang/*.sh))
LANG_INCS := $(foreach f,$(LANG_PROGRAMS),$(B)/gen/$(subst .,_,$(f)).inc)
GENERATED += $(LANG_INCS)

define embed
$(B)/gen/$(subst .,_,$(1)).inc: runtime/lang/$(1) tools/gen/embed.sh
	@mkdir -p $$(@D)
	$$(Q)tools/gen/embed.sh $(subst .,_,$(1)) $$< > $$@
endef
$(foreach f,$(LANG_PROGRAMS),$(eval $(call embed,$(f))))
