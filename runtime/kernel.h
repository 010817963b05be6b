/*
 * Kernel constants that the headers of older distributions lack. Each is the value
 * of the kernel's own uapi header; the kernel says at run time whether it knows it.
 */
#ifndef RUNTIME_KERNEL_H
#define RUNTIME_KERNEL_H

#include <stdint.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif
#ifndef KEYCTL_JOIN_SESSION_KEYRING
#define KEYCTL_JOIN_SESSION_KEYRING 1
#endif
#ifndef MNT_DETACH /* in libc's header only, which cannot stand beside the kernel's */
#define MNT_DETACH 2
#endif
#ifndef MOUNT_ATTR_IDMAP
#define MOUNT_ATTR_IDMAP 0x00100000
#endif
#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

/* struct landlock_ruleset_attr of ABI 6 (6.12); older kernels take a shorter size. */
struct nsbox_landlock_ruleset {
	uint64_t handled_access_fs;
	uint64_t handled_access_net;
	uint64_t scoped;
};

#endif
