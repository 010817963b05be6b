# make install DESTDIR= PREFIX=. Nothing here runs as part of the build.

I := $(DESTDIR)$(PREFIX)
LIBDIR ?= $(PREFIX)/lib
L := $(DESTDIR)$(LIBDIR)
MANPAGES := $(foreach n,1 3 5,$(wildcard tools/man/*.$(n)))
DOCS := $(wildcard README.md SECURITY.md CHANGELOG.md LICENSE)

install: all ## install below DESTDIR/PREFIX
	install -d $(I)/bin $(I)/libexec/nsbox $(I)/include $(L)/pkgconfig \
		$(I)/share/doc/nsbox $(I)/share/bash-completion/completions
	install -m 755 $(B)/bin/nsbox $(I)/bin/nsbox
	install -m 755 $(B)/bin/nsbox-policyc $(I)/libexec/nsbox/nsbox-policyc
	$(if $(wildcard runtime/egress/main.c),install -m 755 $(B)/bin/nsbox-egress $(I)/libexec/nsbox/nsbox-egress)
	$(if $(HAS_SD_BUS),install -m 755 $(B)/bin/nsbox-scope $(I)/libexec/nsbox/nsbox-scope)
	$(if $(HAS_NL),install -m 755 $(B)/bin/nsbox-veth $(I)/libexec/nsbox/nsbox-veth)
	install -m 644 runtime/include/nsbox.h $(I)/include/nsbox.h
	install -m 644 $(B)/lib/libnsbox.a $(L)/libnsbox.a
	install -m 755 $(B)/lib/libnsbox.so.$(VERSION) $(L)/libnsbox.so.$(VERSION)
	ln -sf libnsbox.so.$(VERSION) $(L)/$(SONAME)
	ln -sf $(SONAME) $(L)/libnsbox.so
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' \
		runtime/nsbox.pc.in > $(L)/pkgconfig/nsbox.pc
	chmod 644 $(L)/pkgconfig/nsbox.pc
	set -e; for page in $(MANPAGES); do \
		install -D -m 644 $$page $(I)/share/man/man$${page##*.}/$${page##*/}; done
	install -m 644 $(DOCS) $(I)/share/doc/nsbox/
	$(B)/bin/nsbox help --completion bash > $(I)/share/bash-completion/completions/nsbox
	chmod 644 $(I)/share/bash-completion/completions/nsbox

uninstall: ## remove what install put there
	rm -f $(I)/bin/nsbox $(I)/include/nsbox.h $(L)/libnsbox.a $(L)/libnsbox.so $(L)/$(SONAME) \
		$(L)/libnsbox.so.$(VERSION) $(L)/pkgconfig/nsbox.pc \
		$(I)/share/bash-completion/completions/nsbox \
		$(foreach page,$(MANPAGES),$(I)/share/man/man$(subst .,,$(suffix $(page)))/$(notdir $(page)))
	rm -rf $(I)/libexec/nsbox $(I)/share/doc/nsbox

.PHONY: install uninstall
