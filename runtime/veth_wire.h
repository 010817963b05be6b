/*
 * What launcher and nsbox-veth share (net.path=veth).
 *
 * SOCK_SEQPACKET, descriptor 0 of nsbox-veth:
 *   launcher -> nsbox-veth  struct veth_request with two descriptors: the box's network
 *                           namespace, and a sealed memfd with its struct egress_rules
 *   nsbox-veth -> launcher  struct veth_answer; the box may start when `failed` is 0
 * EOF, or the death of the launcher: nsbox-veth takes down what it made, and ends.
 */
#ifndef RUNTIME_VETH_WIRE_H
#define RUNTIME_VETH_WIRE_H

#include <stdint.h>

enum { VETH_MAGIC = 0x6e737674, VETH_TEXT = 200, VETH_NAME = 16 };

struct veth_request {
	uint32_t magic;
	uint32_t pid;	/* of the box: where the search for a free address begins */
};
struct veth_answer {
	uint32_t magic;
	uint32_t failed;
	int32_t os_errno;	/* 0: none */
	char text[VETH_TEXT];	/* failed: what */
	char hint[VETH_TEXT];	/* failed: a remedy, or empty */
	char device[VETH_NAME];	/* of the host */
	char address[VETH_NAME]; /* of the box */
};
/* The box's end. */
#define VETH_BOX_DEVICE "eth0"

#endif
