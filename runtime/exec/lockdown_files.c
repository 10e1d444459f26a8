/*
 * lockdown_files.c - Landlock rules, see lockdown.h.
 *
 * The kernel's interface is older in some headers than in the kernels it is built for, so the numbers of its versions
 * stand here: include/uapi/linux/landlock.h and Documentation/userspace-api/landlock.rst of Linux.
 */
#include "exec/lockdown.h"

#include "base/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(CONFIG_LOCKDOWN) && defined(SYS_landlock_create_ruleset)

/* Rights to files, by the version of the interface that brought them. */
#define FILES_VERSION_1 ((UINT64_C(1) << 13) - 1)
#define RIGHT_REFER (UINT64_C(1) << 13)    /* version 2: to link or rename across folders */
#define RIGHT_TRUNCATE (UINT64_C(1) << 14) /* version 3 */
#define RIGHT_IOCTL (UINT64_C(1) << 15)    /* version 5: of device files */
#define RIGHT_WRITE_FILE (UINT64_C(1) << 1)
#define RIGHT_READ_FILE (UINT64_C(1) << 2)
#define RIGHT_READ_FOLDER (UINT64_C(1) << 3)
#define RIGHT_REMOVE_FILE (UINT64_C(1) << 5)
#define RIGHT_MAKE_FILE (UINT64_C(1) << 8)
#define TCP_BIND_AND_CONNECT UINT64_C(3)      /* version 4 */
#define SCOPE_SOCKETS_AND_SIGNALS UINT64_C(3) /* version 6 */

#define QUERY_VERSION 1u
#define RULE_PATH_BENEATH 1

struct ruleset {
	uint64_t files, network, scope;
};

struct path_rule {
	uint64_t allowed;
	int32_t folder;
} __attribute__((packed));

static struct ruleset rules_of_version(int version)
{
	struct ruleset rules = { .files = FILES_VERSION_1 };
	rules.files |= (version >= 2 ? RIGHT_REFER : 0) | (version >= 3 ? RIGHT_TRUNCATE : 0) |
		       (version >= 5 ? RIGHT_IOCTL : 0);
	rules.network = version >= 4 ? TCP_BIND_AND_CONNECT : 0;
	rules.scope = version >= 6 ? SCOPE_SOCKETS_AND_SIGNALS : 0;
	return rules;
}

/* Allows `rights` in the folder that the file lies in, its symbolic links followed. */
static enum tarn_status allow_folder_of(int ruleset, const char *file, uint64_t rights)
{
	char target[ATOMIC_FILE_PATH_BYTES];
	if (!file || !*file)
		return TARN_OK;
	enum tarn_status st = atomic_file_resolve(file, target);
	if (st)
		return st;
	char *slash = strrchr(target, '/');
	if (slash)
		slash[slash == target] = '\0'; /* "/file" lies in "/" */
	const char *folder = slash ? target : ".";
	struct path_rule rule = { rights, open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC) };
	if (rule.folder < 0)
		return tarn_fail(TARN_EIO, "lockdown: %s: cannot open this folder: %s", folder, strerror(errno));
	if (syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0))
		st = tarn_fail(TARN_EUNSUPPORTED, "lockdown: %s: Landlock refuses a rule for it: %s", folder,
			       strerror(errno));
	close(rule.folder);
	return st;
}

enum tarn_status lockdown_files(const char *const *writable, uint32_t writables, const char *const *readable,
				uint32_t readables, bool *confined)
{
	long version = syscall(SYS_landlock_create_ruleset, NULL, 0, QUERY_VERSION);
	*confined = version > 0;
	if (!*confined)
		return TARN_OK;
	const uint64_t reading = RIGHT_READ_FILE | RIGHT_READ_FOLDER;
	struct ruleset rules = rules_of_version((int)version);
	uint64_t writing = reading | RIGHT_WRITE_FILE | RIGHT_REMOVE_FILE | RIGHT_MAKE_FILE | RIGHT_TRUNCATE;
	/* A kernel refuses a structure that ends in members it does not know, unless they are zero: so they are. */
	int ruleset = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
	if (ruleset < 0)
		return tarn_fail(TARN_EUNSUPPORTED, "lockdown: Landlock %ld refuses a set of rules: %s", version,
				 strerror(errno));
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < writables && !st; i++)
		st = allow_folder_of(ruleset, writable[i], writing & rules.files);
	for (uint32_t i = 0; i < readables && !st; i++)
		st = allow_folder_of(ruleset, readable[i], reading);
	if (!st && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_landlock_restrict_self, ruleset, 0)))
		st = tarn_fail(TARN_EUNSUPPORTED, "lockdown: Landlock cannot be entered: %s", strerror(errno));
	close(ruleset);
	return st;
}
#else
enum tarn_status lockdown_files(const char *const *writable, uint32_t writables, const char *const *readable,
				uint32_t readables, bool *confined)
{
	(void)writable;
	(void)writables;
	(void)readable;
	(void)readables;
	*confined = false;
	return TARN_OK;
}
#endif
