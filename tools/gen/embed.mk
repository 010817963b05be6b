# The programs that start a snippet in its language, as data:
# runtime/lang/boot.py becomes boot_py[] in $(B)/gen/boot_py.inc.
define embed
GENERATED += $(B)/gen/$(2).inc
$(B)/gen/$(2).inc: $(1) tools/gen/embed.sh
	@mkdir -p $$(@D)
	$$(Q)tools/gen/embed.sh $(2) $$< > $$@
endef
$(foreach file,$(wildcard runtime/lang/*.*),$(eval $(call embed,$(file),$(subst .,_,$(notdir $(file))))))
