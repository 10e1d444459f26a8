/*
 * test_lockdown.c - what a locked process can still do, and what it cannot: each test locks a child of its own.
 */
#include "exec/lockdown.h"
#include "support/testing.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child ends with. */
enum { ALL_HOLDS, SOMETHING_DOES_NOT, NO_LANDLOCK };

/* Runs `child` in a process of its own. */
static int run_child(int (*child)(void))
{
	int status;
	pid_t pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		_exit(child());
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) != SOMETHING_DOES_NOT, "status %d", status);
	return WEXITSTATUS(status);
}

#define HOLDS(condition)                                                                         \
	do {                                                                                     \
		if (!(condition)) {                                                              \
			static const char text[] = __FILE__ ": does not hold: " #condition "\n"; \
			ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);           \
			(void)written;                                                           \
			return SOMETHING_DOES_NOT;                                               \
		}                                                                                \
	} while (0)
#define REFUSED(call, reason)             \
	do {                              \
		errno = 0;                \
		HOLDS((call) == -1);      \
		HOLDS(errno == (reason)); \
	} while (0)

static void *no_thread(void *argument)
{
	return argument;
}

static int try_system_calls(void)
{
	static char *const arguments[] = { "true", NULL };
	pthread_t thread;
	char byte = 0;
	HOLDS(lockdown_enter(false) == TARN_OK);
	REFUSED(socket(AF_INET, SOCK_STREAM, 0), EPERM);
	REFUSED(socket(AF_UNIX, SOCK_STREAM, 0), EPERM);
	REFUSED(execv("/bin/true", arguments), EPERM);
	REFUSED(fork(), EPERM);
	REFUSED(chdir("/"), EPERM);
	REFUSED(kill(getppid(), 0), EPERM);
	HOLDS(pthread_create(&thread, NULL, no_thread, NULL) != 0);
	HOLDS(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
	void *page = (void *)((uintptr_t)&no_thread & ~(uintptr_t)4095);
	REFUSED(mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC), EPERM);
	/* Writing, reading and the clock are still there. */
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	HOLDS(fd >= 0 && read(fd, &byte, 1) == 1 && !close(fd));
	HOLDS(write(STDERR_FILENO, "", 0) == 0);
	return ALL_HOLDS;
}

START_TEST(system_calls_are_refused)
{
	const char *sanitizer = getenv("SAN");
	if (sanitizer && *sanitizer)
		TESTING_SKIP("sanitizers map memory on their own account");
#ifndef CONFIG_LOCKDOWN
	TESTING_SKIP("this build has no seccomp (CONFIG_LOCKDOWN is off)");
#endif
	ck_assert_int_eq(run_child(try_system_calls), ALL_HOLDS);
}
END_TEST

static char run_folder[512], start_folder[512], data_file[512];

static int join_and_open(const char *folder, const char *name, int flags)
{
	char path[1024];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return open(path, flags | O_CLOEXEC, 0600);
}

static int try_files(void)
{
	char writable[600], readable[600], moved[600];
	bool confined = false;
	snprintf(writable, sizeof writable, "%s/net.safetensors", run_folder);
	snprintf(moved, sizeof moved, "%s/net.safetensors.previous", run_folder);
	snprintf(readable, sizeof readable, "%s/start.safetensors", start_folder);
	const char *writables[] = { writable, "" }, *from = readable;
	HOLDS(lockdown_files(writables, 2, &from, 1, &confined) == TARN_OK);
	if (!confined)
		return NO_LANDLOCK;
	/* The folder of snapshots: all that a save does. */
	int fd = join_and_open(run_folder, "net.safetensors", O_RDWR | O_CREAT | O_EXCL);
	HOLDS(fd >= 0 && write(fd, "x", 1) == 1 && !fsync(fd) && !close(fd));
	HOLDS(!link(writable, moved) && !unlink(moved) && !rename(writable, moved));
	HOLDS(join_and_open(run_folder, "net.safetensors.previous", O_RDWR | O_TRUNC) >= 0);
	HOLDS(join_and_open(run_folder, "", O_RDONLY | O_DIRECTORY) >= 0);
	/* That of the start: reading. */
	HOLDS(join_and_open(start_folder, "start.safetensors", O_RDONLY) >= 0);
	REFUSED(join_and_open(start_folder, "start.safetensors", O_RDWR), EACCES);
	REFUSED(join_and_open(start_folder, "new", O_WRONLY | O_CREAT), EACCES);
	REFUSED(unlink(readable), EACCES);
	/* Nothing else. */
	REFUSED(open(data_file, O_RDONLY | O_CLOEXEC), EACCES);
	REFUSED(open("/etc/passwd", O_RDONLY | O_CLOEXEC), EACCES);
	REFUSED(open("/dev/null", O_WRONLY | O_CLOEXEC), EACCES);
	return ALL_HOLDS;
}

START_TEST(files_are_confined_to_the_folders_of_snapshots)
{
	snprintf(run_folder, sizeof run_folder, "%s/run", testing_directory());
	snprintf(start_folder, sizeof start_folder, "%s/start", testing_directory());
	ck_assert_int_eq(mkdir(run_folder, 0700) | mkdir(start_folder, 0700), 0);
	testing_file("start/start.safetensors", "s", 1);
	snprintf(data_file, sizeof data_file, "%s", testing_file("data", "d", 1));
	if (run_child(try_files) == NO_LANDLOCK)
		TESTING_SKIP("this kernel has no Landlock");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("lockdown");
	TCase *tcase = tcase_create("lockdown");
	tcase_add_test(tcase, system_calls_are_refused);
	tcase_add_test(tcase, files_are_confined_to_the_folders_of_snapshots);
	suite_add_tcase(suite, tcase);
	return testing_run(suite);
}
