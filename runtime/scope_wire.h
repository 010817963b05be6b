/*
 * What the launcher and nsbox-scope say to each other, over one SOCK_SEQPACKET pair.
 *
 *   nsbox-scope -> launcher  answer   once, when the scope is there or cannot be had
 *   launcher -> nsbox-scope  request  move this process into that leaf
 *   nsbox-scope -> launcher  answer   to each request
 *
 * A packet of another length or with another magic, and EOF, are failures on either
 * side. EOF is how the launcher says that the scope is no longer needed.
 */
#ifndef RUNTIME_SCOPE_WIRE_H
#define RUNTIME_SCOPE_WIRE_H

#include <stdint.h>

enum {
	SCOPE_MAGIC = 0x6e736331, /* the last byte counts versions */
	SCOPE_PATH_MAX = 256,
	SCOPE_LEAF_MAX = 64,
	SCOPE_TEXT_MAX = 128,
};

struct scope_request {
	uint32_t magic;
	uint32_t pid;
	char leaf[SCOPE_LEAF_MAX]; /* a folder of the scope */
};

struct scope_answer {
	uint32_t magic;
	uint32_t pid;		   /* of the request; 0: the first answer */
	int32_t failed;		   /* 0: done; else text and os_errno say why not */
	int32_t os_errno;
	char text[SCOPE_TEXT_MAX]; /* verb and object, as in an error */
	char path[SCOPE_PATH_MAX]; /* first answer: the scope, as /proc/self/cgroup has it */
};

#endif
