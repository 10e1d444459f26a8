/* test_atomic_file.c - a reader of the target sees one whole file or another, whoever writes, fails or is killed; and
 * nothing is left behind. */
#include "base/atomic_file.h"

#include "base/folder.h"
#include "base/regular_file.h"
#include "support/testing.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define WRITERS 4
#define ROUNDS 60

static struct atomic_file file;

/* A path in the folder of this test; valid until the next call but seven. */
static const char *at(const char *name)
{
	static char path[8][600];
	static unsigned next;
	char *made = path[next++ % 8];
	snprintf(made, sizeof path[0], "%s/%ld-%s", testing_directory(), (long)getpid(), name);
	return made;
}

static void put(const char *path, const char *text)
{
	FILE *stream = fopen(path, "wb");
	ck_assert_ptr_nonnull(stream);
	fputs(text, stream);
	ck_assert_int_eq(fclose(stream), 0);
}

static const char *get(const char *path)
{
	static char text[64];
	FILE *stream = fopen(path, "rb");
	ck_assert_ptr_nonnull(stream);
	text[fread(text, 1, sizeof text - 1, stream)] = '\0';
	fclose(stream);
	return text;
}

static enum tarn_status replace(const char *path, const char *text, const char *previous)
{
	enum tarn_status st = atomic_file_open(&file, path);
	if (!st)
		st = atomic_file_write(&file, text, strlen(text));
	if (!st)
		st = atomic_file_commit(&file, previous);
	atomic_file_abandon(&file);
	return st;
}

/* Files of this test with "tarn-tmp" in their names. */
static uint32_t temporaries(void)
{
	uint32_t count = 0;
	DIR *folder = opendir(testing_directory());
	ck_assert_ptr_nonnull(folder);
	for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
		count += strstr(entry->d_name, "tarn-tmp") != NULL;
	closedir(folder);
	return count;
}

START_TEST(replaces_and_keeps_the_file_before)
{
	const char *path = at("file"), *previous = at("file.previous");
	struct stat status;
	ck_assert_ok(replace(path, "one", previous));
	ck_assert_str_eq(get(path), "one");
	ck_assert_int_ne(access(previous, F_OK), 0);
	ck_assert_int_eq(chmod(path, 0640), 0);
	ck_assert_ok(replace(path, "two", previous));
	ck_assert_str_eq(get(previous), "one");
	ck_assert_ok(replace(path, "three", previous));
	ck_assert_str_eq(get(previous), "two");
	ck_assert_ok(replace(path, "four", NULL));
	ck_assert_str_eq(get(previous), "two");
	ck_assert_str_eq(get(path), "four");
	ck_assert_int_eq(stat(path, &status), 0);
	ck_assert_int_eq(status.st_mode & 0777, 0640);
	ck_assert_uint_eq(status.st_ino, file.status.st_ino);
	ck_assert_int_eq(status.st_size, 4);
	ck_assert_uint_eq(temporaries(), 0);
	/* Names without a folder lie in the one where the program runs. */
	ck_assert_int_eq(chdir(testing_directory()), 0);
	ck_assert_ok(replace("plain", "text", NULL));
	ck_assert_str_eq(get("plain"), "text");
}
END_TEST

/* Relative and absolute links, links to links, to other folders, and to what is not there yet. */
START_TEST(replaces_what_links_point_to)
{
	struct stat status;
	char relative[64];
	const char *folder = at("folder"), *direct = at("direct"), *second = at("second");
	ck_assert_int_eq(mkdir(folder, 0700), 0);
	snprintf(relative, sizeof relative, "%ld-folder/target", (long)getpid());
	char target[700];
	snprintf(target, sizeof target, "%s/target", folder);
	ck_assert_int_eq(symlink(relative, direct), 0);
	ck_assert_int_eq(symlink(direct, second), 0);
	ck_assert_ok(replace(second, "new", NULL));
	ck_assert_str_eq(get(target), "new");
	ck_assert_ok(replace(direct, "newer", NULL));
	ck_assert_str_eq(get(target), "newer");
	ck_assert_ok(folder_prepare(second));
	ck_assert_int_eq(lstat(direct, &status), 0);
	ck_assert(S_ISLNK(status.st_mode));
	ck_assert_int_eq(lstat(second, &status), 0);
	ck_assert(S_ISLNK(status.st_mode));
	ck_assert_int_eq(symlink(at("circle"), at("circle")), 0);
	ck_assert_fails(replace(at("circle"), "x", NULL), TARN_EIO, "symbolic links");
	ck_assert_uint_eq(temporaries(), 0);
}
END_TEST

/* Neither read, nor replaced, nor waited for; directly, through a link, or as the name of the file before. */
START_TEST(refuses_what_is_no_regular_file)
{
	static const struct {
		const char *name, *sentence;
	} cases[] = { { "place", "is a folder, not" },
		      { "fifo", "is a FIFO, not" },
		      { "socket", "is a socket, not" },
		      { "null", "is a device, not" } };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	ck_assert_int_eq(mkdir(at("place"), 0700), 0);
	ck_assert_int_eq(mkfifo(at("fifo"), 0600), 0);
	ck_assert_int_eq(symlink("/dev/null", at("null")), 0);
	ck_assert_uint_lt(strlen(at("socket")), sizeof address.sun_path);
	strcpy(address.sun_path, at("socket"));
	int bound = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(bound, (struct sockaddr *)&address, sizeof address), 0);
	put(at("regular"), "old");
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const char *path = at(cases[i].name), *link = at("to-it");
		struct stat before, after;
		int fd;
		uint64_t bytes;
		ck_assert_int_eq(stat(path, &before), 0);
		ck_assert_fails(replace(path, "x", NULL), TARN_EIO, cases[i].sentence);
		ck_assert_fails(folder_prepare(path), TARN_EIO, cases[i].sentence);
		ck_assert_fails(regular_file_open(path, &fd, &bytes), TARN_EIO, cases[i].sentence);
		ck_assert_int_eq(fd, -1);
		ck_assert_int_eq(symlink(path, link), 0);
		ck_assert_fails(replace(link, "x", NULL), TARN_EIO, cases[i].sentence);
		unlink(link);
		if (strcmp(cases[i].name, "null"))
			ck_assert_fails(replace(at("regular"), "x", path), TARN_EIO, cases[i].sentence);
		ck_assert_int_eq(stat(path, &after), 0);
		ck_assert_uint_eq(before.st_ino, after.st_ino);
	}
	ck_assert_str_eq(get(at("regular")), "old");
	ck_assert_uint_eq(temporaries(), 0);
	close(bound);
}
END_TEST

START_TEST(says_what_is_wrong_with_a_path)
{
	char endless[ATOMIC_FILE_PATH_BYTES + 10];
	memset(endless, 'x', sizeof endless - 1);
	endless[sizeof endless - 1] = '\0';
	ck_assert_fails(replace("", "x", NULL), TARN_EINVAL, "the path has 0 bytes");
	ck_assert_fails(replace(endless, "x", NULL), TARN_EINVAL, "the path has 4105 bytes");
	endless[300] = '\0';
	ck_assert_fails(replace(endless, "x", NULL), TARN_EIO, "cannot create: File name too long");
	ck_assert_fails(replace(at("missing/file"), "x", NULL), TARN_EIO, "cannot create: No such file");
	put(at("leaf"), "");
	ck_assert_fails(replace(at("leaf/file"), "x", NULL), TARN_EIO, "cannot create: Not a directory");
}
END_TEST

START_TEST(prints_to_a_stream)
{
	const char *path = at("printed");
	FILE *stream;
	put(path, "old");
	ck_assert_ok(atomic_file_open_stream(&file, path, &stream));
	fputs("new", stream);
	ck_assert_str_eq(get(path), "old");
	ck_assert_ok(atomic_file_close_stream(&file, stream, TARN_OK));
	ck_assert_str_eq(get(path), "new");
	ck_assert_ok(atomic_file_open_stream(&file, path, &stream));
	fputs("half", stream);
	ck_assert_uint_eq(atomic_file_close_stream(&file, stream, TARN_EINVAL), TARN_EINVAL);
	ck_assert_str_eq(get(path), "new");
	ck_assert_fails(atomic_file_open_stream(&file, at("no/file"), &stream), TARN_EIO, "cannot create");
	ck_assert_ptr_null(stream);
	ck_assert_uint_eq(temporaries(), 0);
}
END_TEST

START_TEST(a_failed_write_changes_nothing)
{
	static char text[5000];
	const char *path = at("file");
	const struct rlimit limit = { 4000, 4000 };
	memset(text, 'y', sizeof text - 1);
	put(path, "old");
	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ck_assert_fails(replace(path, text, at("file.previous")), TARN_EIO, "write failed: File too large");
	FILE *stream;
	ck_assert_ok(atomic_file_open_stream(&file, path, &stream));
	fputs(text, stream);
	ck_assert_fails(atomic_file_close_stream(&file, stream, TARN_OK), TARN_EIO, "write failed: File too large");
	ck_assert_str_eq(get(path), "old");
	ck_assert_int_ne(access(at("file.previous"), F_OK), 0);
	ck_assert_uint_eq(temporaries(), 0);
	atomic_file_abandon(&file);
}
END_TEST

/* The file of a writer that is alive stays, whoever cleans; that of a killed one goes, whatever has its number now. */
START_TEST(cleans_after_the_dead_only)
{
	const char *path = at("file");
	struct atomic_file mine;
	char target[ATOMIC_FILE_PATH_BYTES], other[700];
	ck_assert_ok(atomic_file_resolve(path, target));
	ck_assert_ok(atomic_file_open(&mine, path));
	pid_t child = fork();
	ck_assert_int_ge(child, 0);
	if (!child) {
		_exit(atomic_file_open(&file, path) || atomic_file_write(&file, "half", 4) || raise(SIGKILL));
	}
	int status;
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status));
	snprintf(other, sizeof other, "%s.tarn-tmp.%ld.77", path, (long)getpid());
	put(other, "of a process that had this number before");
	ck_assert_uint_eq(temporaries(), 3);
	/* Names that only look like them. */
	put(at("file.tarn-tmp.notes"), "");
	put(at("file.tarn-tmp.1.2.txt"), "");
	put(at("file2.tarn-tmp.1.2"), "");
	atomic_file_clean(target);
	ck_assert_uint_eq(temporaries(), 4);
	ck_assert_ok(atomic_file_write(&mine, "whole", 5));
	ck_assert_ok(atomic_file_commit(&mine, NULL));
	ck_assert_str_eq(get(path), "whole");
	ck_assert_uint_eq(temporaries(), 3);
	unlink(at("file.tarn-tmp.notes"));
	unlink(at("file.tarn-tmp.1.2.txt"));
	unlink(at("file2.tarn-tmp.1.2"));
}
END_TEST

static void *write_many(void *argument)
{
	struct atomic_file own;
	char letter[2000], previous[ATOMIC_FILE_PATH_BYTES + 16];
	enum tarn_status st = TARN_OK;
	memset(letter, *(const char *)argument, sizeof letter);
	const char *path = (const char *)argument + 1;
	snprintf(previous, sizeof previous, "%s.previous", path);
	for (int i = 0; i < ROUNDS && !st; i++) {
		st = atomic_file_open(&own, path);
		if (st)
			break;
		atomic_file_clean(own.target);
		for (size_t done = 0; done < sizeof letter && !st; done += 500)
			st = atomic_file_write(&own, letter + done, 500);
		if (!st)
			st = atomic_file_commit(&own, previous);
		atomic_file_abandon(&own);
	}
	return st ? (void *)(uintptr_t)st : NULL;
}

/* Bytes of the file, all of one letter; or the test fails. */
static void check_whole(const char *path)
{
	char text[2100];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ssize_t bytes = read(fd, text, sizeof text);
	close(fd);
	ck_assert_int_eq(bytes, 2000);
	for (ssize_t i = 1; i < bytes; i++)
		ck_assert_int_eq(text[i], text[0]);
}

/* Threads of two processes write, keep and clean at the same time: each save works, and whoever looks finds a whole
 * file. */
START_TEST(writers_do_not_disturb_one_another)
{
	char argument[WRITERS][700];
	const char *path = at("file");
	pthread_t thread[WRITERS];
	char first[2000];
	memset(first, 'z', sizeof first);
	ck_assert_ok(atomic_file_open(&file, path));
	ck_assert_ok(atomic_file_write(&file, first, sizeof first));
	ck_assert_ok(atomic_file_commit(&file, NULL));
	for (int i = 0; i < WRITERS; i++)
		snprintf(argument[i], sizeof argument[i], "%c%s", 'a' + i, path);
	pid_t child = fork();
	ck_assert_int_ge(child, 0);
	if (!child)
		_exit(write_many(argument[0]) != NULL);
	for (int i = 1; i < WRITERS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, write_many, argument[i]), 0);
	for (int i = 0; i < 1000; i++)
		check_whole(path);
	for (int i = 1; i < WRITERS; i++) {
		void *failure;
		ck_assert_int_eq(pthread_join(thread[i], &failure), 0);
		ck_assert_msg(!failure, "writer %d: status %d", i, (int)(uintptr_t)failure);
	}
	int status;
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	check_whole(path);
	check_whole(at("file.previous"));
	ck_assert_uint_eq(temporaries(), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("atomic_file");
	TCase *test = tcase_create("atomic_file");
	tcase_set_timeout(test, 60);
	tcase_add_test(test, replaces_and_keeps_the_file_before);
	tcase_add_test(test, replaces_what_links_point_to);
	tcase_add_test(test, refuses_what_is_no_regular_file);
	tcase_add_test(test, says_what_is_wrong_with_a_path);
	tcase_add_test(test, prints_to_a_stream);
	tcase_add_test(test, a_failed_write_changes_nothing);
	tcase_add_test(test, cleans_after_the_dead_only);
	tcase_add_test(test, writers_do_not_disturb_one_another);
	suite_add_tcase(suite, test);
	return testing_run(suite);
}
