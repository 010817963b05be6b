# The programs that start a snippet in its language, as data.
LANG_INCS := $(patsubst runtime/lang/boot.%,$(B)/gen/boot_%.inc,$(wildcard runtime/lang/boot.*))
GENERATED += $(LANG_INCS)

$(B)/gen/boot_%.inc: runtime/lang/boot.% tools/gen/embed.sh
	@mkdir -p $(@D)
	$(Q)tools/gen/embed.sh boot_$* $< > $@
