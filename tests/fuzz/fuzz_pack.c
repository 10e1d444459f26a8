/* fuzz_pack.c - libFuzzer entry: any bytes as the table of buffers of `tarn pack`. */
#include "tools/command.c"
#include "tools/progress.c"
#include "tools/tarn_pack.c"

#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* tools/tarn.c has it, together with main. */
bool print_command_help(const char *name)
{
	return name && false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	char path[64];
	struct host_arena arena;
	struct table table = { 0 };
	if (fd < 0)
		fd = memfd_create("pack", 0);
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	host_arena_init(&arena);
	tarn_error_clear();
	enum tarn_status st = read_table(&table, path, &arena);
	if (st && (!*tarn_error() || strchr(tarn_error(), '\n') || st == TARN_EINTERNAL))
		abort();
	host_arena_fini(&arena);
	return 0;
}
