# What the child says to the kernel about a box's network: constant batches of netlink
# messages, encoded with libmnl. They depend on no policy and on no host.
GENERATED += $(B)/gen/netlink.inc

$(B)/gen/gen_netlink: tools/gen/gen_netlink.c runtime/egress_wire.h
	@mkdir -p $(@D)
	$(call say,CC $@)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -I. $(WARN) $(CFLAGS) $< -o $@ -lmnl

$(B)/gen/netlink.inc: $(B)/gen/gen_netlink
	$(Q)$< > $@
