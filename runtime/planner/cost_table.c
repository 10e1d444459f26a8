/* cost_table.c - see cost_table.h. */
#include "planner/cost_table.h"

#include "base/regular_file.h"
#include "exec/profile.h"
#include "graph/signature.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int compare_entries(const void *a, const void *b)
{
	return strcmp(((const struct cost_entry *)a)->signature, ((const struct cost_entry *)b)->signature);
}

static enum tarn_status check_header(const char *path, const char *line, const char *driver, uint32_t threads)
{
	char name[32];
	uint32_t count;
	if (sscanf(line, PROFILE_HEADER " driver %31s threads %" SCNu32, name, &count) != 2)
		return tarn_fail(TARN_EFORMAT, "%s:1: is not a file of costs; `tarn calibrate` writes one", path);
	if (strcmp(name, driver) != 0 || count != threads)
		return tarn_fail(TARN_EINVAL,
				 "%s: the costs were measured with the %s driver and %" PRIu32
				 " threads, this run has %s and %" PRIu32 "; run `tarn calibrate` for it",
				 path, name, count, driver, threads);
	return TARN_OK;
}

static enum tarn_status read_line(const char *path, uint32_t number, char *line, struct host_arena *arena,
				  struct cost_entry *entry)
{
	char *end;
	size_t length = strcspn(line, "\n");
	errno = 0;
	entry->ns = strtoull(line, &end, 10);
	if (line[0] < '0' || line[0] > '9' || *end != '\t' || errno || line[length] != '\n')
		return tarn_fail(TARN_EFORMAT, "%s:%" PRIu32 ": expected nanoseconds, a tab and an op", path, number);
	line[length] = '\0';
	entry->signature = host_arena_text(arena, end + 1);
	return entry->signature ? TARN_OK : TARN_ENOMEM;
}

enum tarn_status cost_table_load(const char *path, const char *driver, uint32_t threads, struct host_arena *arena,
				 struct cost_table *table)
{
	char line[SIGNATURE_TEXT + 64];
	size_t capacity = 0;
	uint64_t bytes;
	int fd;
	enum tarn_status st = regular_file_open(path, &fd, &bytes);
	if (st)
		return st;
	FILE *file = fdopen(fd, "r");
	if (!file) {
		close(fd);
		return tarn_fail(TARN_EIO, "%s: cannot read: %s", path, strerror(errno));
	}
	*table = (struct cost_table){ 0 };
	st = check_header(path, fgets(line, sizeof line, file) ? line : "", driver, threads);
	for (uint32_t number = 2; !st && fgets(line, sizeof line, file); number++) {
		table->entry =
			host_arena_grow(arena, table->entry, &capacity, table->entries + 1u, sizeof *table->entry);
		st = table->entry ? read_line(path, number, line, arena, &table->entry[table->entries]) : TARN_ENOMEM;
		if (!st)
			table->entries++;
	}
	if (!st && ferror(file))
		st = tarn_fail(TARN_EIO, "%s: cannot read", path);
	fclose(file);
	if (!st && table->entries)
		qsort(table->entry, table->entries, sizeof *table->entry, compare_entries);
	return st;
}

bool cost_table_find(const struct cost_table *table, const struct graph *graph, uint32_t op, uint64_t *ns)
{
	char signature[SIGNATURE_TEXT];
	const struct cost_entry key = { .signature = op_signature(graph, op, signature) };
	if (!table->entries)
		return false;
	const struct cost_entry *found =
		bsearch(&key, table->entry, table->entries, sizeof *table->entry, compare_entries);
	if (found)
		*ns = found->ns;
	return found != NULL;
}
