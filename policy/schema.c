/* shape: table */
/*
 * Every policy key, once. The C setter, policy files, command-line flags, the JSON
 * schema, man page and completion are driven by this table.
 *
 * Must have one row for every field of struct policy (a unit test counts the
 * bytes). Mustn't hold anything that a reader of nsbox(5) should not see.
 */
#include "policy/value.h"

#include <string.h>

#define AT(member) offsetof(struct policy, member)
#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)
#define TIB (GIB * 1024)
#define MS UINT64_C(1000)
#define SECOND (MS * 1000)
#define DAY (SECOND * 86400)

static const char *const net_modes[] = { "disabled", "filtered", "open", NULL };
static const char *const precedences[] = { "allow", "deny", NULL };
static const char *const net_paths[] = { "inlet", "veth", NULL };
static const char *const net_compats[] = { "none", "e2b", NULL };
static const char *const levels[] = { "strict", "default", "build", "debug",
				      "audit",	NULL };
static const char *const import_modes[] = { "toplevel", "strict", NULL };
static const char *const collect_whens[] = { "success", "always", "never",
					     NULL };
static const char *const output_actions[] = { "truncate", "kill", NULL };
static const char *const oom_actions[] = { "group", "process", NULL };
static const char *const disk_actions[] = { "deny", "kill", NULL };
static const char *const installers[] = { "auto", "pip", "uv", NULL };
static const char *const floors[] = { "userspace", "kernel", NULL };
static const char *const isolations[] = { "namespaces", "landlock", NULL };
static const char *const reaches[] = { "here", "scope", "move", NULL };

/*
 * Names that a tool of the host would execute, or take commands from, the next
 * time somebody works in the folder. A box that may write a project could
 * otherwise leave a program there that runs later without any box.
 * Kept short: each name costs a mount per writable folder.
 */
static const char protected_names[] =
	".git/hooks\n"		   /* run by git itself */
	".git/config\n"		   /* core.fsmonitor, core.sshCommand, aliases */
	".git/config.worktree\n"   /* the same, for one worktree */
	".git/modules\n"	   /* each submodule's own hooks and config */
	".gitmodules\n"		   /* update = !command */
	".envrc\n"		   /* direnv */
	".vscode\n"		   /* tasks that run when the folder is opened */
	".idea\n"		   /* run configurations, file watchers */
	".devcontainer\n"	   /* initializeCommand runs on the host */
	".mcp.json\n"		   /* servers that an agent starts */
	".claude\n"		   /* agents' hooks, settings and instructions */
	".cursor\n"
	".codex\n"
	".gemini\n"
	".husky\n"		   /* git hooks managers */
	".pre-commit-config.yaml\n"
	"lefthook.yml\n"
	".npmrc\n"		   /* script-shell, node-options */
	".yarnrc.yml\n"		   /* yarnPath is a program */
	".nsbox.json";		   /* what the next box may do */

/*
 * The same for the caller's home: what shells, the session and nsbox itself read
 * there. A project folder has no use for these names, and a placeholder named
 * .cache would keep tools from making theirs.
 */
static const char home_names[] =
	".config/nsbox\n"	   /* what the next box may do */
	".cache/nsbox\n"	   /* parsed policies, interpreters: as good as a policy */
	".bashrc\n"
	".bash_profile\n"
	".bash_login\n"
	".bash_logout\n"
	".profile\n"
	".zshrc\n"
	".zshenv\n"
	".zprofile\n"
	".zlogin\n"
	".config/fish\n"
	".local/bin\n"		   /* on PATH */
	".ssh\n"		   /* authorized_keys, ProxyCommand */
	".gitconfig\n"
	".config/git\n"
	".config/systemd\n"	   /* units of the user */
	".config/environment.d\n"
	".config/autostart\n"
	".config/nvim\n"
	".vimrc";

const struct key policy_keys[] = {
	{ .name = "extends", .type = KEY_STRING, .field = AT(profile),
	  .value_name = "PROFILE", .by = BY_CODE, .tighter = TIGHTER_FIXED,
	  .help = "built-in profile whose settings come first" },

	/* --- file system --- */
	{ .name = "fs.read", .type = KEY_LIST, .field = AT(fs.read),
	  .flag = "--ro", .value_name = "PATH[:DEST]",
	  .by = BY_MOUNTS | BY_LANDLOCK, .tighter = TIGHTER_FEWER,
	  .help = "host file or folder, visible read-only" },
	{ .name = "fs.write", .type = KEY_LIST, .field = AT(fs.write),
	  .flag = "--rw", .value_name = "PATH[:DEST]",
	  .by = BY_MOUNTS | BY_LANDLOCK, .tighter = TIGHTER_FEWER,
	  .help = "host file or folder of the caller, writable" },
	{ .name = "fs.tmpfs", .type = KEY_LIST, .field = AT(fs.tmpfs),
	  .flag = "--tmpfs", .value_name = "DEST[:SIZE]", .by = BY_MOUNTS,
	  .tighter = TIGHTER_FEWER,
	  .help = "empty writable folder in memory; SIZE in bytes, default limits.tmp" },
	{ .name = "fs.hidden", .type = KEY_LIST, .field = AT(fs.hidden),
	  .value_name = "PATH", .by = BY_MOUNTS, .tighter = TIGHTER_MORE,
	  .help = "path in the box that is covered by nothing" },
	{ .name = "fs.protect", .type = KEY_LIST, .field = AT(fs.protect),
	  .preset = protected_names, .value_name = "NAME", .by = BY_MOUNTS,
	  .tighter = TIGHTER_MORE,
	  .help = "name in a writable folder that stays read-only, also when it does not exist yet" },
	{ .name = "fs.protect_home", .type = KEY_LIST,
	  .field = AT(fs.protect_home), .preset = home_names,
	  .value_name = "NAME", .by = BY_MOUNTS, .tighter = TIGHTER_MORE,
	  .help = "name in the caller's home that stays read-only wherever a writable folder holds it, and is refused as one" },

	/* --- network --- */
	{ .name = "net.mode", .type = KEY_CHOICE, .field = AT(net.mode),
	  .preset = "disabled", .choices = net_modes, .flag = "--net",
	  .value_name = "MODE", .by = BY_NETNS | BY_SECCOMP,
	  .tighter = TIGHTER_FIRST,
	  .help = "disabled: loopback only; filtered: what the lists let through, without any nothing; open: all but net.deny_out and private addresses" },
	{ .name = "net.precedence", .type = KEY_CHOICE,
	  .field = AT(net.precedence), .preset = "allow",
	  .choices = precedences, .value_name = "RULE", .by = BY_NETNS,
	  .tighter = TIGHTER_LAST,
	  .help = "which list wins when both match a destination" },
	{ .name = "net.path", .type = KEY_CHOICE, .field = AT(net.path),
	  .preset = "inlet", .choices = net_paths, .flag = "--net-path",
	  .value_name = "PATH", .by = BY_NETNS, .tighter = TIGHTER_FIRST,
	  .help = "how packets leave: inlet: by a process that connects for the box; veth: by an interface of its own (root; IPv4; rules for addresses alone)" },
	{ .name = "net.compat", .type = KEY_CHOICE, .field = AT(net.compat),
	  .preset = "none", .choices = net_compats, .flag = "--compat",
	  .value_name = "WHOSE", .by = BY_CODE, .tighter = TIGHTER_FIXED,
	  .help = "whose meaning the lists have; e2b: allow_out alone blocks nothing, and deny_out has addresses only" },
	{ .name = "net.allow_out", .type = KEY_LIST, .field = AT(net.allow_out),
	  .flag = "--allow-out", .value_name = "DESTINATION",
	  .by = BY_NETNS, .tighter = TIGHTER_FEWER, .zero_is_all = true,
	  .help = "destination that may be reached; with any, all others may not" },
	{ .name = "net.deny_out", .type = KEY_LIST, .field = AT(net.deny_out),
	  .flag = "--deny-out", .value_name = "DESTINATION", .by = BY_NETNS,
	  .tighter = TIGHTER_MORE,
	  .help = "destination that may not be reached" },
	{ .name = "net.allow_private", .type = KEY_LIST,
	  .field = AT(net.allow_private), .flag = "--allow-private",
	  .value_name = "CIDR", .by = BY_NETNS, .tighter = TIGHTER_FEWER,
	  .help = "private or local addresses that a rule may lead to (RFC 1918, RFC 6890)" },
	{ .name = "net.connections", .type = KEY_COUNT,
	  .field = AT(net.connections), .preset = "1024", .min = 1,
	  .max = 65536, .value_name = "N", .by = BY_NETNS,
	  .tighter = TIGHTER_LOWER,
	  .help = "connections at a time, flows of UDP included" },
	{ .name = "net.names", .type = KEY_COUNT, .field = AT(net.names),
	  .preset = "4096", .min = 1, .max = 65000, .value_name = "N",
	  .by = BY_NETNS, .tighter = TIGHTER_LOWER,
	  .help = "different names that may be looked up" },
	{ .name = "net.bytes", .type = KEY_SIZE, .field = AT(net.bytes),
	  .preset = "0", .min = 0, .max = 64 * TIB, .value_name = "SIZE",
	  .by = BY_NETNS, .tighter = TIGHTER_LOWER, .zero_is_all = true,
	  .help = "data of all connections, both ways, in bytes, K, M, G; 0: no limit" },
	{ .name = "net.host_bytes", .type = KEY_SIZE,
	  .field = AT(net.host_bytes), .preset = "0", .min = 0,
	  .max = 64 * TIB, .value_name = "SIZE", .by = BY_NETNS,
	  .tighter = TIGHTER_LOWER, .zero_is_all = true,
	  .help = "data with one name or address, both ways, in bytes, K, M, G; 0: no limit" },
	{ .name = "net.proxy", .type = KEY_STRING, .field = AT(net.proxy),
	  .value_name = "URL", .by = BY_NETNS, .tighter = TIGHTER_FIXED,
	  .help = "proxy that the host goes out by: http:// or socks5://, then [USER:PASSWORD@]HOST:PORT; shown without its password" },
	{ .name = "net.resolvers", .type = KEY_LIST,
	  .field = AT(net.resolvers), .value_name = "ADDRESS[:PORT]",
	  .by = BY_NETNS, .tighter = TIGHTER_FIXED,
	  .help = "name server to ask; none: those of the host (resolv.conf(5))" },
	{ .name = "net.publish", .type = KEY_LIST, .field = AT(net.publish),
	  .flag = "--publish", .value_name = "[ADDRESS:]HOSTPORT:PORT",
	  .by = BY_NETNS, .tighter = TIGHTER_FEWER,
	  .help = "port of the host, of 127.0.0.1 unless written, that leads to a port of the box" },

	/* --- processes and environment --- */
	{ .name = "process.subprocesses", .type = KEY_BOOL,
	  .field = AT(process.subprocesses), .preset = "true",
	  .by = BY_SECCOMP | BY_LANDLOCK, .tighter = TIGHTER_FALSE,
	  .help = "may start other processes and programs (threads are always fine)" },
	{ .name = "env.set", .type = KEY_LIST, .field = AT(env.set),
	  .flag = "--env", .letter = 'e', .value_name = "NAME[=VALUE]",
	  .by = BY_CODE, .tighter = TIGHTER_FEWER,
	  .help = "environment variable NAME=VALUE; the flag with NAME alone is env.pass" },
	{ .name = "env.pass", .type = KEY_LIST, .field = AT(env.pass),
	  .value_name = "NAME", .by = BY_CODE, .tighter = TIGHTER_FEWER,
	  .help = "environment variable taken from the caller, by name" },
	{ .name = "env.inherit", .type = KEY_BOOL, .field = AT(env.inherit),
	  .preset = "false", .by = BY_CODE, .tighter = TIGHTER_FALSE,
	  .help = "take all of the caller's variables but those with secret-looking names" },

	/* --- limits: time --- */
	{ .name = "limits.timeout", .type = KEY_TIME,
	  .field = AT(limits.timeout), .preset = "30s", .min = MS,
	  .max = 365 * DAY, .flag = "--timeout", .value_name = "TIME",
	  .by = BY_SUPERVISOR, .tighter = TIGHTER_LOWER,
	  .help = "wall clock for one run: seconds, or with ms, s, m, h, d" },
	{ .name = "limits.grace", .type = KEY_TIME, .field = AT(limits.grace),
	  .preset = "100ms", .min = 0, .max = 60 * SECOND,
	  .value_name = "TIME", .by = BY_SUPERVISOR, .tighter = TIGHTER_LOWER,
	  .help = "time between SIGTERM and SIGKILL when the timeout is over" },
	{ .name = "limits.cpu_time", .type = KEY_TIME,
	  .field = AT(limits.cpu_time), .preset = "0", .min = 0,
	  .max = 365 * DAY, .flag = "--cpu-time", .value_name = "TIME",
	  .by = BY_RLIMIT | BY_SUPERVISOR, .tighter = TIGHTER_LOWER,
	  .zero_is_all = true,
	  .help = "processor time, rounded up to seconds per process (RLIMIT_CPU, getrlimit(2)); 0: none" },
	{ .name = "limits.cpus", .type = KEY_SHARE, .field = AT(limits.cpus),
	  .preset = "1", .min = 0, .max = 8192 * 1000, .flag = "--cpus",
	  .value_name = "N", .by = BY_CGROUP, .tighter = TIGHTER_LOWER,
	  .zero_is_all = true,
	  .help = "processor cores, fractions allowed (cpu.max, cgroup v2); 0: no limit" },

	/* --- limits: memory and disk --- */
	{ .name = "limits.memory", .type = KEY_SIZE, .field = AT(limits.memory),
	  .preset = "512M", .min = 4 * MIB, .max = 64 * TIB,
	  .flag = "--memory", .letter = 'm', .value_name = "SIZE",
	  .by = BY_CGROUP | BY_RLIMIT | BY_SUPERVISOR,
	  .tighter = TIGHTER_LOWER,
	  .help = "memory of the whole box in bytes, K, M, G (memory.max, cgroup v2)" },
	{ .name = "limits.swap", .type = KEY_SIZE, .field = AT(limits.swap),
	  .preset = "0", .min = 0, .max = 64 * TIB, .value_name = "SIZE",
	  .by = BY_CGROUP, .tighter = TIGHTER_LOWER,
	  .help = "swap space in bytes, K, M, G (memory.swap.max, cgroup v2); 0: none" },
	{ .name = "limits.memory_high", .type = KEY_SIZE,
	  .field = AT(limits.memory_high), .preset = "0", .min = 0,
	  .max = 64 * TIB, .value_name = "SIZE", .by = BY_CGROUP,
	  .tighter = TIGHTER_LOWER, .zero_is_all = true,
	  .help = "memory in bytes, K, M, G from which the box is slowed down and its memory reclaimed (memory.high, cgroup v2); 0: none" },
	{ .name = "limits.oom", .type = KEY_CHOICE, .field = AT(limits.oom),
	  .preset = "group", .choices = oom_actions, .value_name = "WHOM",
	  .by = BY_CGROUP, .tighter = TIGHTER_FIRST,
	  .help = "whom the kernel kills at limits.memory (memory.oom.group, cgroup v2): all of the box, or one process" },
	/* A tmpfs of size 0 has no limit at all (tmpfs(5)), hence the minimum. */
	{ .name = "limits.disk", .type = KEY_SIZE, .field = AT(limits.disk),
	  .preset = "256M", .min = 64 * KIB, .max = 64 * TIB,
	  .flag = "--disk", .value_name = "SIZE", .by = BY_MOUNTS,
	  .tighter = TIGHTER_LOWER,
	  .help = "size of the work folder in bytes, K, M, G (tmpfs(5))" },
	{ .name = "limits.tmp", .type = KEY_SIZE, .field = AT(limits.tmp),
	  .preset = "64M", .min = 64 * KIB, .max = 64 * TIB,
	  .value_name = "SIZE", .by = BY_MOUNTS, .tighter = TIGHTER_LOWER,
	  .help = "size of /tmp in bytes, K, M, G (tmpfs(5))" },
	{ .name = "limits.shm", .type = KEY_SIZE, .field = AT(limits.shm),
	  .preset = "64M", .min = 64 * KIB, .max = 64 * TIB,
	  .value_name = "SIZE", .by = BY_MOUNTS, .tighter = TIGHTER_LOWER,
	  .help = "size of /dev/shm in bytes, K, M, G (tmpfs(5))" },
	{ .name = "limits.inodes", .type = KEY_COUNT, .field = AT(limits.inodes),
	  .preset = "0", .min = 0, .max = 1048576, .value_name = "N",
	  .by = BY_MOUNTS, .tighter = TIGHTER_LOWER, .zero_is_all = true,
	  .help = "files and folders at most in each of the work folder, /tmp, /dev/shm and fs.tmpfs; 0: one for each 4 KiB of its size, 1024 to 1048576" },
	{ .name = "limits.disk_action", .type = KEY_CHOICE,
	  .field = AT(limits.disk_action), .preset = "deny",
	  .choices = disk_actions, .value_name = "ACTION",
	  .by = BY_MOUNTS | BY_SUPERVISOR, .tighter = TIGHTER_LAST,
	  .help = "when the work folder, /tmp, /dev/shm or an entry of fs.tmpfs is full: deny the write (ENOSPC), or kill the box once that is seen (looked at every 20 ms)" },
	{ .name = "limits.io_weight", .type = KEY_COUNT,
	  .field = AT(limits.io_weight), .preset = "0", .min = 0, .max = 10000,
	  .value_name = "N", .by = BY_CGROUP, .tighter = TIGHTER_FIXED,
	  .help = "share of disk time against other groups, 1 to 10000, where others have 100 (io.weight, cgroup v2); 0: unset" },

	/* --- limits: counts and output --- */
	{ .name = "limits.pids", .type = KEY_COUNT, .field = AT(limits.pids),
	  .preset = "128", .min = 1, .max = 4194304, .flag = "--pids",
	  .value_name = "N", .by = BY_CGROUP | BY_RLIMIT | BY_SUPERVISOR,
	  .tighter = TIGHTER_LOWER,
	  .help = "processes and threads of the program; the box's init comes on top (pids.max, cgroup v2)" },
	{ .name = "limits.files", .type = KEY_COUNT, .field = AT(limits.files),
	  .preset = "1024", .min = 16, .max = 1048576, .value_name = "N",
	  .by = BY_RLIMIT, .tighter = TIGHTER_LOWER,
	  .help = "open files per process (RLIMIT_NOFILE, getrlimit(2))" },
	{ .name = "limits.file_size", .type = KEY_SIZE,
	  .field = AT(limits.file_size), .preset = "0", .min = 0,
	  .max = 64 * TIB, .value_name = "SIZE", .by = BY_RLIMIT,
	  .tighter = TIGHTER_LOWER, .zero_is_all = true,
	  .help = "size of one file in bytes, K, M, G (RLIMIT_FSIZE, getrlimit(2)); 0: no limit" },
	{ .name = "limits.stdout", .type = KEY_SIZE,
	  .field = AT(limits.stdout_bytes), .preset = "1M", .min = 0,
	  .max = GIB, .value_name = "SIZE", .by = BY_SUPERVISOR,
	  .tighter = TIGHTER_LOWER,
	  .help = "standard output kept, in bytes, K, M, G" },
	{ .name = "limits.stderr", .type = KEY_SIZE,
	  .field = AT(limits.stderr_bytes), .preset = "1M", .min = 0,
	  .max = GIB, .value_name = "SIZE", .by = BY_SUPERVISOR,
	  .tighter = TIGHTER_LOWER,
	  .help = "standard error kept, in bytes, K, M, G" },
	{ .name = "limits.output", .type = KEY_SIZE,
	  .field = AT(limits.stdout_bytes), .also = AT(limits.stderr_bytes),
	  .preset = "1M", .min = 0, .max = GIB, .flag = "--output-limit",
	  .value_name = "SIZE", .by = BY_SUPERVISOR, .tighter = TIGHTER_LOWER,
	  .help = "shorthand: limits.stdout and limits.stderr, each this many bytes" },
	{ .name = "limits.output_action", .type = KEY_CHOICE,
	  .field = AT(limits.output_action), .preset = "truncate",
	  .choices = output_actions, .value_name = "ACTION",
	  .by = BY_SUPERVISOR, .tighter = TIGHTER_LAST,
	  .help = "when output passes its limit: truncate it, or kill the box" },

	/* --- imports and packages --- */
	{ .name = "imports.allow", .type = KEY_LIST_OR_NULL,
	  .field = AT(imports.allow), .preset = "null",
	  .flag = "--allow-import", .value_name = "MODULE",
	  .by = BY_CODE, .tighter = TIGHTER_FEWER,
	  .help = "module that may be imported; null: no check; none listed: nothing" },
	{ .name = "imports.mode", .type = KEY_CHOICE, .field = AT(imports.mode),
	  .preset = "toplevel", .choices = import_modes, .value_name = "MODE",
	  .by = BY_CODE, .tighter = TIGHTER_LAST,
	  .help = "toplevel: the first part of the name decides; strict: all of it" },
	{ .name = "packages.install", .type = KEY_BOOL,
	  .field = AT(packages.install), .preset = "false", .by = BY_CODE,
	  .tighter = TIGHTER_FALSE,
	  .help = "packages may be installed; packages.list says which, and says this as well" },
	{ .name = "packages.list", .type = KEY_LIST, .field = AT(packages.list),
	  .flag = "--with", .value_name = "SPEC", .by = BY_CODE,
	  .tighter = TIGHTER_FEWER,
	  .help = "package that is installed before the run: name==1.2 (PEP 508), for JavaScript name@1.2; kept in the cache" },
	{ .name = "packages.inline", .type = KEY_BOOL,
	  .field = AT(packages.in_code), .preset = "false", .flag = "--with-inline",
	  .by = BY_CODE, .tighter = TIGHTER_FALSE,
	  .help = "install what the code's own block \"# /// script\" asks for as well (PEP 723)" },
	{ .name = "packages.installer", .type = KEY_CHOICE, .field = AT(packages.installer),
	  .preset = "auto", .choices = installers, .value_name = "NAME", .by = BY_CODE,
	  .tighter = TIGHTER_LAST,
	  .help = "who installs packages of Python; auto: uv where it is on PATH, else pip" },
	{ .name = "packages.max_bytes", .type = KEY_SIZE,
	  .field = AT(packages.max_bytes), .preset = "2G", .min = MIB,
	  .max = TIB, .value_name = "SIZE", .by = BY_SUPERVISOR,
	  .tighter = TIGHTER_LOWER,
	  .help = "bytes that an install of packages may write, its temporary files included" },

	/* --- artifacts --- */
	{ .name = "artifacts.collect", .type = KEY_CHOICE,
	  .field = AT(artifacts.collect), .preset = "success",
	  .choices = collect_whens, .value_name = "WHEN", .by = BY_SUPERVISOR,
	  .tighter = TIGHTER_FIXED,
	  .help = "when files of the work folder are collected" },
	{ .name = "artifacts.paths", .type = KEY_LIST,
	  .field = AT(artifacts.paths), .value_name = "PATH",
	  .by = BY_SUPERVISOR, .tighter = TIGHTER_FEWER, .zero_is_all = true,
	  .help = "file or folder to collect, relative to the work folder; none: all of it" },
	{ .name = "artifacts.max_count", .type = KEY_COUNT,
	  .field = AT(artifacts.max_count), .preset = "64", .min = 0,
	  .max = 100000, .value_name = "N", .by = BY_SUPERVISOR,
	  .tighter = TIGHTER_LOWER, .help = "files collected at most" },
	{ .name = "artifacts.max_bytes", .type = KEY_SIZE,
	  .field = AT(artifacts.max_bytes), .preset = "32M", .min = 0,
	  .max = TIB, .value_name = "SIZE", .by = BY_SUPERVISOR,
	  .tighter = TIGHTER_LOWER,
	  .help = "bytes collected at most, all files together" },
	{ .name = "artifacts.max_depth", .type = KEY_COUNT,
	  .field = AT(artifacts.max_depth), .preset = "8", .min = 1,
	  .max = 64, .value_name = "N", .by = BY_SUPERVISOR,
	  .tighter = TIGHTER_LOWER, .help = "folder levels looked into" },

	/* --- system calls and devices --- */
	{ .name = "syscalls.level", .type = KEY_CHOICE,
	  .field = AT(syscalls.level), .preset = "default", .choices = levels,
	  .value_name = "LEVEL", .by = BY_SECCOMP, .tighter = TIGHTER_FIRST,
	  .help = "which filter (seccomp(2)); audit allows what it would deny, and logs it" },
	{ .name = "syscalls.allow", .type = KEY_LIST,
	  .field = AT(syscalls.allow), .value_name = "NAME",
	  .by = BY_SECCOMP, .tighter = TIGHTER_FEWER,
	  .help = "system call allowed on top of the level (syscalls(2))" },
	{ .name = "syscalls.deny", .type = KEY_LIST, .field = AT(syscalls.deny),
	  .value_name = "NAME", .by = BY_SECCOMP, .tighter = TIGHTER_MORE,
	  .help = "system call denied with EPERM (syscalls(2))" },
	{ .name = "devices.allow", .type = KEY_LIST, .field = AT(devices.allow),
	  .value_name = "NAME", .by = BY_MOUNTS, .tighter = TIGHTER_FEWER,
	  .help = "device below /dev on top of null, zero, full, random, urandom, tty" },

	/* --- how sure it must be --- */
	{ .name = "enforce.floor", .type = KEY_CHOICE,
	  .field = AT(enforce.floor), .preset = "userspace", .choices = floors,
	  .flag = "--require", .value_name = "STRENGTH", .by = BY_CODE,
	  .tighter = TIGHTER_LAST,
	  .help = "weakest strength accepted for a limit: userspace or kernel" },
	{ .name = "enforce.degraded", .type = KEY_BOOL,
	  .field = AT(enforce.degraded), .preset = "false",
	  .flag = "--allow-degraded", .by = BY_CODE, .tighter = TIGHTER_FALSE,
	  .help = "run also where a limit cannot be enforced; the result says which" },
	{ .name = "enforce.optional", .type = KEY_LIST,
	  .field = AT(enforce.optional), .value_name = "KEY", .by = BY_CODE,
	  .tighter = TIGHTER_FEWER,
	  .help = "limit (a key limits.*) that may stay unenforced" },
	{ .name = "enforce.cgroup", .type = KEY_CHOICE,
	  .field = AT(enforce.cgroup), .preset = "scope", .choices = reaches,
	  .value_name = "REACH", .by = BY_CODE, .tighter = TIGHTER_FIXED,
	  .help = "how far to go for cgroup controllers: here: take what there is; scope: also ask the user's systemd for a scope; move: also move the calling process into a cgroup of its own (default of the command)" },

	{ .name = "isolation.floor", .type = KEY_CHOICE,
	  .field = AT(isolation.floor), .preset = "namespaces", .choices = isolations,
	  .flag = "--isolation-floor", .value_name = "KIND", .by = BY_CODE,
	  .tighter = TIGHTER_FIRST,
	  .help = "weakest isolation accepted: namespaces; landlock: where user namespaces are refused, Landlock and seccomp alone" },

	/* --- who may see it --- */
	{ .name = "observe.listed", .type = KEY_BOOL,
	  .field = AT(observe.listed), .preset = "true", .by = BY_CODE,
	  .tighter = TIGHTER_FIXED,
	  .help = "show the box in the caller's own list (nsbox top)" },
};
const size_t policy_key_count = ARRAY_SIZE(policy_keys);

const struct key *policy_key(const char *name)
{
	for (size_t i = 0; i < policy_key_count; i++)
		if (strcmp(policy_keys[i].name, name) == 0)
			return &policy_keys[i];
	return NULL;
}
