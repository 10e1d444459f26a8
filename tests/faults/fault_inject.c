/*
 * fault_inject.c - a library for LD_PRELOAD that makes one system or heap call of the program fail.
 *
 *   TARN_FAULT=KIND:N[:ERRNO]   the N-th call of that kind fails, once (N = 0: none)
 *   TARN_FAULT_MARK=FILE        is created when it does, so that the caller knows whether there was an N-th call
 *
 * Kinds: heap (malloc, calloc, realloc, aligned_alloc, posix_memalign), map (mmap), open (open, openat, creat, fopen,
 * opendir), read (read, pread, fread), write (write, pwrite, fwrite, fflush, fclose of what is buffered), sync (fsync),
 * rename (rename, link), thread (pthread_create), kill (no failure: SIGKILL just before the N-th write, sync, rename or
 * link, so that death strikes inside a snapshot).
 *
 * Only calls that come from the program itself or from libyaml, libz and libpng count. What other libraries do with a
 * failed call is theirs, and calls before main are the loader's.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MOST_RANGES 32u

enum kind { KIND_HEAP, KIND_MAP, KIND_OPEN, KIND_READ, KIND_WRITE, KIND_SYNC, KIND_RENAME, KIND_THREAD, KIND_KILL };
static const char *const kind_name[] = { "heap", "map", "open", "read", "write", "sync", "rename", "thread", "kill" };

/* Set by the constructor, before any thread of the program exists; only the counter moves later. */
static struct {
	bool armed;
	enum kind kind;
	uint64_t number;
	int error;
	const char *mark;
	struct {
		uintptr_t first, last;
	} code[MOST_RANGES];
	unsigned ranges;
} fault;
static atomic_uint_fast64_t calls;

static int note_code(struct dl_phdr_info *object, size_t size, void *context)
{
	static const char *const counted[] = { "libyaml", "libz.", "libpng" };
	(void)size;
	(void)context;
	bool wanted = !object->dlpi_name[0];
	for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
		wanted = wanted || strstr(object->dlpi_name, counted[i]);
	for (unsigned i = 0; wanted && i < object->dlpi_phnum && fault.ranges < MOST_RANGES; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
			continue;
		fault.code[fault.ranges].first = object->dlpi_addr + part->p_vaddr;
		fault.code[fault.ranges++].last = object->dlpi_addr + part->p_vaddr + part->p_memsz;
	}
	return 0;
}

__attribute__((constructor)) static void arm(void)
{
	const char *text = getenv("TARN_FAULT");
	const char *colon = text ? strchr(text, ':') : NULL;
	if (!colon)
		return;
	char *end;
	size_t length = (size_t)(colon - text);
	fault.number = strtoull(colon + 1, &end, 10);
	fault.error = *end == ':' ? (int)strtol(end + 1, NULL, 10) : 0;
	fault.mark = getenv("TARN_FAULT_MARK");
	dl_iterate_phdr(note_code, NULL);
	for (size_t i = 0; i < sizeof kind_name / sizeof *kind_name; i++)
		if (strlen(kind_name[i]) == length && !strncmp(text, kind_name[i], length)) {
			fault.kind = (enum kind)i;
			fault.armed = fault.number > 0;
		}
}

static bool is_counted(const void *caller)
{
	for (unsigned i = 0; i < fault.ranges; i++)
		if ((uintptr_t)caller >= fault.code[i].first && (uintptr_t)caller < fault.code[i].last)
			return true;
	return false;
}

/* Is this the call that fails? Then errno is set, to `error` unless another was asked for. */
static bool fails(enum kind kind, const void *caller, int error)
{
	bool changes_files = kind == KIND_WRITE || kind == KIND_SYNC || kind == KIND_RENAME;
	if (!fault.armed || (kind != fault.kind && !(fault.kind == KIND_KILL && changes_files)) || !is_counted(caller))
		return false;
	if (atomic_fetch_add(&calls, 1) + 1 != fault.number)
		return false;
	if (fault.mark) /* past the wrappers here */
		syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, fault.mark, O_CREAT | O_WRONLY, 0600));
	if (fault.kind == KIND_KILL)
		kill(getpid(), SIGKILL);
	errno = fault.error ? fault.error : error;
	return true;
}

/* The function that this one stands before. POSIX makes the conversion of dlsym's result good. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAILS(kind, error) fails(kind, __builtin_return_address(0), error)

/* glibc's own names: dlsym may need the heap itself. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

EXPORT void *malloc(size_t bytes)
{
	return FAILS(KIND_HEAP, ENOMEM) ? NULL : __libc_malloc(bytes);
}

EXPORT void *calloc(size_t count, size_t bytes)
{
	return FAILS(KIND_HEAP, ENOMEM) ? NULL : __libc_calloc(count, bytes);
}

EXPORT void *realloc(void *block, size_t bytes)
{
	return FAILS(KIND_HEAP, ENOMEM) ? NULL : __libc_realloc(block, bytes);
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes)
{
	return FAILS(KIND_HEAP, ENOMEM) ? NULL : __libc_memalign(alignment, bytes);
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t bytes)
{
	if (FAILS(KIND_HEAP, ENOMEM))
		return ENOMEM;
	void *made = __libc_memalign(alignment, bytes);
	if (made)
		*block = made;
	return made ? 0 : ENOMEM;
}

EXPORT void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	return FAILS(KIND_MAP, ENOMEM) ? MAP_FAILED : REAL(mmap)(address, bytes, protection, flags, fd, offset);
}

static mode_t mode_of(int flags, va_list list)
{
	return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(list, unsigned) : 0;
}

EXPORT int open(const char *path, int flags, ...)
{
	va_list list;
	va_start(list, flags);
	mode_t mode = mode_of(flags, list);
	va_end(list);
	return FAILS(KIND_OPEN, EMFILE) ? -1 : REAL(open)(path, flags, mode);
}

EXPORT int openat(int folder, const char *path, int flags, ...)
{
	va_list list;
	va_start(list, flags);
	mode_t mode = mode_of(flags, list);
	va_end(list);
	return FAILS(KIND_OPEN, EMFILE) ? -1 : REAL(openat)(folder, path, flags, mode);
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
	return FAILS(KIND_OPEN, EMFILE) ? NULL : REAL(fopen)(path, mode);
}

EXPORT DIR *opendir(const char *path)
{
	return FAILS(KIND_OPEN, EMFILE) ? NULL : REAL(opendir)(path);
}

EXPORT ssize_t read(int fd, void *data, size_t bytes)
{
	return FAILS(KIND_READ, EIO) ? -1 : REAL(read)(fd, data, bytes);
}

EXPORT ssize_t pread(int fd, void *data, size_t bytes, off_t offset)
{
	return FAILS(KIND_READ, EIO) ? -1 : REAL(pread)(fd, data, bytes, offset);
}

/* What ferror() looks at; glibc has no call that sets it. */
static void mark_failed(FILE *stream)
{
	stream->_flags |= 0x20; /* _IO_ERR_SEEN */
}

EXPORT size_t fread(void *data, size_t size, size_t count, FILE *stream)
{
	if (!FAILS(KIND_READ, EIO))
		return REAL(fread)(data, size, count, stream);
	mark_failed(stream);
	return 0;
}

EXPORT ssize_t write(int fd, const void *data, size_t bytes)
{
	return FAILS(KIND_WRITE, ENOSPC) ? -1 : REAL(write)(fd, data, bytes);
}

EXPORT ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
	return FAILS(KIND_WRITE, ENOSPC) ? -1 : REAL(pwrite)(fd, data, bytes, offset);
}

EXPORT size_t fwrite(const void *data, size_t size, size_t count, FILE *stream)
{
	if (!FAILS(KIND_WRITE, ENOSPC))
		return REAL(fwrite)(data, size, count, stream);
	mark_failed(stream);
	return 0;
}

EXPORT int fflush(FILE *stream)
{
	if (!FAILS(KIND_WRITE, ENOSPC))
		return REAL(fflush)(stream);
	if (stream)
		mark_failed(stream);
	return EOF;
}

/* The stream is closed all the same, as close(2) does after an error. Reading ends without one. */
EXPORT int fclose(FILE *stream)
{
	bool writes = (fcntl(fileno(stream), F_GETFL) & O_ACCMODE) != O_RDONLY;
	bool failed = writes && FAILS(KIND_WRITE, ENOSPC);
	int error = errno, result = REAL(fclose)(stream);
	if (!failed)
		return result;
	errno = error;
	return EOF;
}

EXPORT int fsync(int fd)
{
	return FAILS(KIND_SYNC, EIO) ? -1 : REAL(fsync)(fd);
}

EXPORT int rename(const char *from, const char *to)
{
	return FAILS(KIND_RENAME, EIO) ? -1 : REAL(rename)(from, to);
}

EXPORT int link(const char *from, const char *to)
{
	return FAILS(KIND_RENAME, EIO) ? -1 : REAL(link)(from, to);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
	return FAILS(KIND_THREAD, EAGAIN) ? EAGAIN : REAL(pthread_create)(thread, attributes, run, argument);
}
