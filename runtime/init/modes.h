/*
 * Modes and times of files in the run's own folder, which init sets for a payload that has the
 * caller's id: seccomp holds the calls (SECCOMP_HOLDS_MODES), as Landlock knows nothing of them.
 */
#ifndef RUNTIME_INIT_MODES_H
#define RUNTIME_INIT_MODES_H

#include <stddef.h>

struct seccomp_notif;

/* Once, before anything is held: the run's folder, @len with its NUL. -errno: it cannot be opened. */
long modes_begin(const char *path, size_t len);

/* Is it a call for modes_answer()? */
int modes_know(int nr);
/* Does it; 0, or an errno for who called. @is_valid: is it that thread still, after the last look
 * at it (SECCOMP_IOCTL_NOTIF_ID_VALID)? */
int modes_answer(const struct seccomp_notif *call, int (*is_valid)(const void *arg, unsigned long id),
		 const void *arg);

#endif
