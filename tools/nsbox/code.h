/* SPDX-License-Identifier: Apache-2.0 */
/* `nsbox code`: a snippet, a file or standard input in a language. */
#ifndef NSBOX_CODE_H
#define NSBOX_CODE_H

#include "tools/nsbox/args.h"

#define CODE_MAX (16u << 20)

int verb_code(struct args *a);
int verb_check(struct args *a);

#endif
