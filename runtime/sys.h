/*
 * System calls without libc, for the two places that have none: the child between
 * clone() and exec (it shares memory and thread-local storage with a thread of the
 * caller, so it may not even write errno) and init (a freestanding program).
 * Every call returns the kernel's value: >= 0, or -errno.
 */
#ifndef RUNTIME_SYS_H
#define RUNTIME_SYS_H

#include <asm/unistd.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
static inline long sys6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

/*
 * clone3() onto a new stack: the child calls fn(arg), which must not return.
 * The frame pointer is cleared so that a backtrace ends there.
 */
static inline long sys_clone3_on(const void *args, size_t size, void (*fn)(void *), void *arg)
{
	register void (*r12)(void *) __asm__("r12") = fn;
	register void *r13 __asm__("r13") = arg;
	long ret;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r13, %%rdi\n\t"
			 "call *%%r12\n\t"
			 "ud2\n"
			 "1:"
			 : "=a"(ret)
			 : "a"((long)__NR_clone3), "D"(args), "S"(size), "r"(r12), "r"(r13)
			 : "rcx", "r11", "memory");
	return ret;
}

/* The same with clone(): for kernels and outer filters that answer clone3 ENOSYS. */
static inline long sys_clone_on(unsigned long flags, void *stack_top, int *pidfd,
				void (*fn)(void *), void *arg)
{
	register long r10 __asm__("r10") = 0;
	register long r8 __asm__("r8") = 0;
	register void (*r12)(void *) __asm__("r12") = fn;
	register void *r13 __asm__("r13") = arg;
	long ret;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r13, %%rdi\n\t"
			 "call *%%r12\n\t"
			 "ud2\n"
			 "1:"
			 : "=a"(ret)
			 : "a"((long)__NR_clone), "D"(flags), "S"(stack_top), "d"(pidfd),
			   "r"(r10), "r"(r8), "r"(r12), "r"(r13)
			 : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
static inline long sys6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}

static inline long sys_clone3_on(const void *args, size_t size, void (*fn)(void *), void *arg)
{
	register long x8 __asm__("x8") = __NR_clone3;
	register const void *x0 __asm__("x0") = args;
	register long x1 __asm__("x1") = (long)size;
	register void (*x9)(void *) __asm__("x9") = fn;
	register void *x10 __asm__("x10") = arg;

	__asm__ volatile("svc 0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t"
			 "mov x0, x10\n\t"
			 "blr x9\n\t"
			 "brk 1\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x9), "r"(x10)
			 : "memory");
	return (long)x0;
}

static inline long sys_clone_on(unsigned long flags, void *stack_top, int *pidfd,
				void (*fn)(void *), void *arg)
{
	register long x8 __asm__("x8") = __NR_clone;
	register unsigned long x0 __asm__("x0") = flags;
	register void *x1 __asm__("x1") = stack_top;
	register int *x2 __asm__("x2") = pidfd;
	register long x3 __asm__("x3") = 0;
	register long x4 __asm__("x4") = 0;
	register void (*x9)(void *) __asm__("x9") = fn;
	register void *x10 __asm__("x10") = arg;

	__asm__ volatile("svc 0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t"
			 "mov x0, x10\n\t"
			 "blr x9\n\t"
			 "brk 1\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x9), "r"(x10)
			 : "memory");
	return (long)x0;
}
#else
#error "nsbox knows x86-64 and aarch64"
#endif

#define SYS_PICK(_1, _2, _3, _4, _5, _6, _7, name, ...) name
#define SYS0(nr) sys6((nr), 0, 0, 0, 0, 0, 0)
#define SYS1(nr, a) sys6((nr), (long)(a), 0, 0, 0, 0, 0)
#define SYS2(nr, a, b) sys6((nr), (long)(a), (long)(b), 0, 0, 0, 0)
#define SYS3(nr, a, b, c) sys6((nr), (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define SYS4(nr, a, b, c, d) sys6((nr), (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define SYS5(nr, a, b, c, d, e) \
	sys6((nr), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define SYS6(nr, a, b, c, d, e, f) \
	sys6((nr), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
/* sys(openat, dirfd, path, flags, mode): the call by its name */
#define sys(name, ...) \
	SYS_PICK(0, ##__VA_ARGS__, SYS6, SYS5, SYS4, SYS3, SYS2, SYS1, SYS0) \
	(__NR_##name, ##__VA_ARGS__)

#endif
