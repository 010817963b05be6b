/*
 * session.c - the public face of a kernel: an interpreter in a box that is held open
 */
#include "nsbox.h"

#include "base/err.h"

int nsbox_kernel_open(struct nsbox_kernel **out, struct nsbox_box *box, const struct nsbox_run *run,
		      struct nsbox_error *err)
{
	err_clear(err);
	if (!out || !box || !run)
		return err_set(err, NSBOX_E_USAGE, "nsbox_kernel_open: out, box or run is NULL");
	err_hint(err, "run the code with nsbox_box_run()");
	return err_set(err, NSBOX_E_UNSUPPORTED, "kernels are not built yet");
}

int nsbox_kernel_fd(const struct nsbox_kernel *k)
{
	(void)k;
	return -1;
}

int nsbox_kernel_send(struct nsbox_kernel *k, const char *json, size_t len, struct nsbox_error *err)
{
	err_clear(err);
	(void)k;
	(void)json;
	(void)len;
	return err_set(err, NSBOX_E_USAGE, "nsbox_kernel_send: no kernel");
}

int nsbox_kernel_next(struct nsbox_kernel *k, const char **json, size_t *len,
		      struct nsbox_error *err)
{
	err_clear(err);
	(void)k;
	(void)json;
	(void)len;
	return err_set(err, NSBOX_E_USAGE, "nsbox_kernel_next: no kernel");
}

int nsbox_kernel_interrupt(struct nsbox_kernel *k, struct nsbox_error *err)
{
	err_clear(err);
	(void)k;
	return err_set(err, NSBOX_E_USAGE, "nsbox_kernel_interrupt: no kernel");
}

int nsbox_kernel_close(struct nsbox_kernel *k, struct nsbox_result **out, struct nsbox_error *err)
{
	err_clear(err);
	(void)k;
	(void)out;
	return err_set(err, NSBOX_E_USAGE, "nsbox_kernel_close: no kernel");
}
