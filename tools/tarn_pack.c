/* tarn_pack.c - `tarn pack`: offsets for a list of buffers. */
#include "command.h"

#ifdef CONFIG_PLANNER
#include "base/atomic_file.h"
#include "base/bytes.h"
#include "base/host_arena.h"
#include "planner/pack.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Work at least: less than two seconds to minimise, longer to answer a question about a capacity. */
#define EFFORT_MINIMISE 1700000u
#define EFFORT_DECIDE 20000000u
#define EFFORT_PER_SECOND 1e6 /* of --timeout, when that is more */
#define LONGEST_LINE 4096
#define NAMED_BUFFERS 8u

enum column { COLUMN_ID, COLUMN_LOWER, COLUMN_UPPER, COLUMN_SIZE, COLUMN_ALIGNMENT, COLUMN_PINNED, COLUMNS };
static const char *const column_name[COLUMNS] = { "id", "lower", "upper", "size", "alignment", "pinned" };

struct row {
	const char *id;
	struct pack_buffer buffer;
	uint32_t line;
};

struct table {
	struct row *row;
	size_t capacity;
	uint32_t rows;
	uint32_t place[COLUMNS]; /* of each column in a line; UINT32_MAX: not there */
	uint32_t fields;         /* in the first line */
};

struct pack_arguments {
	const char *input, *output;
	uint64_t capacity;
	double timeout; /* seconds; 0: none */
	bool json, help;
};

/* ---- Arguments ---- */

static enum tarn_status parse_capacity(const char *text, uint64_t *out)
{
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end && !errno) {
		*out = value;
		return TARN_OK;
	}
	return bytes_parse(text, out);
}

static enum tarn_status parse_arguments(int argc, char **argv, struct pack_arguments *a)
{
	*a = (struct pack_arguments){ .capacity = UINT64_MAX };
	for (int i = 1; i < argc; i++) {
		const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
		bool takes_value = !strcmp(name, "--capacity") || !strcmp(name, "--timeout") || !strcmp(name, "-o");
		if (takes_value && !value)
			return tarn_fail(TARN_EINVAL, "pack: %s needs a value", name);
		if (!strcmp(name, "--json")) {
			a->json = true;
		} else if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
			a->help = true;
		} else if (!strcmp(name, "--capacity")) {
			enum tarn_status st = parse_capacity(value, &a->capacity);
			if (st)
				return st;
		} else if (!strcmp(name, "--timeout")) {
			char *end;
			a->timeout = strtod(value, &end);
			if (end == value || *end || !(a->timeout > 0) || a->timeout > 1e9)
				return tarn_fail(TARN_EINVAL, "pack: --timeout wants seconds above 0, not \"%s\"",
						 value);
		} else if (!strcmp(name, "-o")) {
			a->output = value;
		} else if (name[0] == '-' && name[1]) {
			return tarn_fail(TARN_EINVAL,
					 "pack: unknown option \"%s\"; there are --capacity, --timeout, -o and --json",
					 name);
		} else if (a->input) {
			return tarn_fail(TARN_EINVAL, "pack: one file at a time; \"%s\" is one too many", name);
		} else {
			a->input = name;
		}
		i += takes_value;
	}
	if (!a->input && !a->help)
		return tarn_fail(TARN_EINVAL, "pack: which file? It has the columns id, lower, upper and size");
	return TARN_OK;
}

/* ---- Reading ---- */

/* Cuts the line at commas, blanks around fields taken off; returns the number of fields, at most `most`. */
static uint32_t split_line(char *line, char **field, uint32_t most)
{
	uint32_t count = 0;
	for (char *at = line; at && count < most;) {
		char *comma = strchr(at, ',');
		if (comma)
			*comma = '\0';
		at += strspn(at, " \t");
		for (char *end = at + strlen(at); end > at && strchr(" \t\r\n", end[-1]);)
			*--end = '\0';
		field[count++] = at;
		at = comma ? comma + 1 : NULL;
	}
	return count;
}

#define MOST_FIELDS 32u

static enum tarn_status read_header(struct table *t, const char *path, char *line)
{
	char *field[MOST_FIELDS];
	if (!strncmp(line, "\xEF\xBB\xBF", 3))
		line += 3;
	t->fields = split_line(line, field, MOST_FIELDS);
	for (uint32_t c = 0; c < COLUMNS; c++) {
		t->place[c] = UINT32_MAX;
		for (uint32_t f = 0; f < t->fields; f++) {
			if (strcmp(field[f], column_name[c]))
				continue;
			if (t->place[c] != UINT32_MAX)
				return tarn_fail(TARN_EINVAL, "%s:1: column \"%s\" twice", path, column_name[c]);
			t->place[c] = f;
		}
		if (t->place[c] == UINT32_MAX && c <= COLUMN_SIZE)
			return tarn_fail(TARN_EINVAL,
					 "%s:1: no column \"%s\"; the first line must name id, lower, upper and size",
					 path, column_name[c]);
	}
	return TARN_OK;
}

static enum tarn_status read_number(const char *path, uint32_t line, enum column column, const char *text,
				    uint64_t *out)
{
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno)
		return tarn_fail(TARN_EINVAL,
				 "%s:%" PRIu32 ": %s is \"%s\", but must be a whole number from 0 to 2^64 - 1", path,
				 line, column_name[column], text);
	*out = value;
	return TARN_OK;
}

static enum tarn_status read_row(struct table *t, const char *path, uint32_t line, char *text, struct host_arena *arena)
{
	char *field[MOST_FIELDS];
	uint32_t fields = split_line(text, field, MOST_FIELDS);
	if (fields != t->fields)
		return tarn_fail(TARN_EINVAL, "%s:%" PRIu32 ": %u fields, but the first line has %u", path, line,
				 fields, t->fields);
	struct row row = { .buffer = { .align = 1, .pinned = PACK_ANYWHERE }, .line = line };
	uint64_t *number[COLUMNS] = {
		NULL, &row.buffer.first, &row.buffer.last, &row.buffer.bytes, &row.buffer.align, &row.buffer.pinned
	};
	for (uint32_t c = COLUMN_LOWER; c < COLUMNS; c++) {
		if (t->place[c] == UINT32_MAX || (c > COLUMN_SIZE && !*field[t->place[c]]))
			continue;
		enum tarn_status st = read_number(path, line, (enum column)c, field[t->place[c]], number[c]);
		if (st)
			return st;
	}
	const char *id = field[t->place[COLUMN_ID]];
	if (!*id)
		return tarn_fail(TARN_EINVAL, "%s:%" PRIu32 ": the id is empty", path, line);
	if (row.buffer.first >= row.buffer.last)
		return tarn_fail(TARN_EINVAL,
				 "%s:%" PRIu32 ": id %s lives from %" PRIu64 " to %" PRIu64
				 "; upper must be above lower",
				 path, line, id, row.buffer.first, row.buffer.last);
	row.id = host_arena_text(arena, id);
	t->row = host_arena_grow(arena, t->row, &t->capacity, (size_t)t->rows + 1, sizeof *t->row);
	if (!row.id || !t->row)
		return TARN_ENOMEM;
	t->row[t->rows++] = row;
	return TARN_OK;
}

static int compare_ids(const void *a, const void *b)
{
	return strcmp(((const struct row *)a)->id, ((const struct row *)b)->id);
}

/* Rows by id: nothing depends on the order of lines. */
static enum tarn_status sort_rows(struct table *t, const char *path)
{
	if (t->rows)
		qsort(t->row, t->rows, sizeof *t->row, compare_ids);
	for (uint32_t i = 1; i < t->rows; i++)
		if (!strcmp(t->row[i - 1].id, t->row[i].id)) {
			uint32_t one = t->row[i - 1].line, other = t->row[i].line;
			return tarn_fail(TARN_EINVAL, "%s:%" PRIu32 ": id %s again, first on line %" PRIu32, path,
					 one > other ? one : other, t->row[i].id, one > other ? other : one);
		}
	return TARN_OK;
}

static enum tarn_status read_table(struct table *t, const char *path, struct host_arena *arena)
{
	char line[LONGEST_LINE];
	uint32_t number = 0;
	enum tarn_status st = TARN_OK;
	*t = (struct table){ 0 };
	FILE *file = fopen(path, "r");
	if (!file)
		return tarn_fail(TARN_EIO, "%s: %s", path, strerror(errno));
	while (!st && fgets(line, sizeof line, file)) {
		number++;
		if (strlen(line) == sizeof line - 1)
			st = tarn_fail(TARN_EINVAL, "%s:%" PRIu32 ": a line of more than %d characters", path, number,
				       LONGEST_LINE - 2);
		else if (number == 1)
			st = read_header(t, path, line);
		else if (line[strspn(line, " \t\r\n")])
			st = read_row(t, path, number, line, arena);
	}
	if (!st && ferror(file))
		st = tarn_fail(TARN_EIO, "%s: %s", path, strerror(errno));
	if (!st && !number)
		st = tarn_fail(TARN_EINVAL, "%s:1: the file is empty", path);
	fclose(file);
	return st ? st : sort_rows(t, path);
}

/* ---- Writing ---- */

static int compare_lines(const void *a, const void *b)
{
	const struct row *const *x = a, *const *y = b;
	return (*x)->line < (*y)->line ? -1 : (*x)->line > (*y)->line;
}

/* The input's rows in the input's order, with their offsets. */
static enum tarn_status write_table(const struct table *t, const uint64_t *offset, const char *path,
				    struct host_arena *arena)
{
	const struct row **by_line = HOST_ARRAY(arena, t->rows, const struct row *);
	if (!by_line)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < t->rows; i++)
		by_line[i] = &t->row[i];
	if (t->rows)
		qsort(by_line, t->rows, sizeof(const struct row *), compare_lines);
	struct atomic_file target;
	FILE *file;
	enum tarn_status st = atomic_file_open_stream(&target, path, &file);
	if (st)
		return st;
	fputs("id,lower,upper,size,offset\n", file);
	for (uint32_t i = 0; i < t->rows; i++) {
		const struct pack_buffer *b = &by_line[i]->buffer;
		fprintf(file, "%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", by_line[i]->id, b->first, b->last,
			b->bytes, offset[by_line[i] - t->row]);
	}
	return atomic_file_close_stream(&target, file, TARN_OK);
}

/* ---- Answers ---- */

struct clock_limit {
	struct timespec start;
	double seconds;
};

static double seconds_since(clockid_t clock, const struct timespec *start)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
}

static bool out_of_time(void *context)
{
	const struct clock_limit *limit = context;
	return seconds_since(CLOCK_MONOTONIC, &limit->start) > limit->seconds;
}

static int compare_sizes(const void *a, const void *b)
{
	const struct row *const *x = a, *const *y = b;
	if ((*x)->buffer.bytes != (*y)->buffer.bytes)
		return (*x)->buffer.bytes > (*y)->buffer.bytes ? -1 : 1;
	return strcmp((*x)->id, (*y)->id);
}

/* Says which buffers are live together at the fullest time. */
static enum tarn_status name_overfull(const struct table *t, const struct pack_result *result, uint64_t capacity,
				      struct host_arena *arena)
{
	const struct row **live = HOST_ARRAY(arena, t->rows, const struct row *);
	uint32_t count = 0;
	char names[NAMED_BUFFERS * 64 + 64] = "";
	size_t length = 0;
	if (!live)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < t->rows; i++)
		if (t->row[i].buffer.bytes && t->row[i].buffer.first <= result->fullest &&
		    result->fullest < t->row[i].buffer.last)
			live[count++] = &t->row[i];
	qsort(live, count, sizeof(const struct row *), compare_sizes);
	for (uint32_t i = 0; i < count && i < NAMED_BUFFERS && length < sizeof names - 64; i++)
		length += (size_t)snprintf(names + length, 64, "%s%.32s (%" PRIu64 ")", i ? ", " : "", live[i]->id,
					   live[i]->buffer.bytes);
	if (count > NAMED_BUFFERS)
		snprintf(names + length, sizeof names - length, " and %u more", count - NAMED_BUFFERS);
	return tarn_fail(TARN_EBUDGET,
			 "pack: %u buffers of %" PRIu64 " bytes are live together at time %" PRIu64 ", %" PRIu64
			 " more than the capacity of %" PRIu64 ": %s",
			 count, result->load, result->fullest, result->load - capacity, capacity, names);
}

static enum tarn_status judge(const struct table *t, const struct pack_result *result, uint64_t capacity,
			      struct host_arena *arena)
{
	if (result->outcome == PACK_FITS)
		return TARN_OK;
	if (result->outcome == PACK_UNDECIDED)
		return tarn_fail(TARN_EUNKNOWN,
				 "pack: unknown whether the capacity of %" PRIu64
				 " bytes can be met; the best height found is %" PRIu64 ", and none is below %" PRIu64,
				 capacity, result->height, result->lower_bound);
	if (result->load > capacity)
		return name_overfull(t, result, capacity, arena);
	return tarn_fail(TARN_EBUDGET,
			 "pack: proved that no packing fits the capacity of %" PRIu64
			 " bytes; the best height found is %" PRIu64,
			 capacity, result->height);
}

static void print_result(const struct pack_result *result, double pack_ms)
{
	static const char *const outcome[] = { "ok", "infeasible", "unknown" };
	printf("{\"height\": %" PRIu64 ", \"lower_bound\": %" PRIu64 ", \"optimal\": %s, ", result->height,
	       result->lower_bound, result->optimal && result->outcome == PACK_FITS ? "true" : "false");
	json_number("pack_ms", pack_ms);
	printf(", \"status\": \"%s\", \"load\": %" PRIu64 ", \"nodes\": %" PRIu64 "}\n", outcome[result->outcome],
	       result->load, result->nodes);
}

static enum tarn_status pack_file(const struct pack_arguments *a, struct host_arena *arena)
{
	struct table t;
	struct timespec cpu;
	struct clock_limit limit = { .seconds = a->timeout };
	struct pack_result result;
	clock_gettime(CLOCK_MONOTONIC, &limit.start);
	enum tarn_status st = read_table(&t, a->input, arena);
	if (st)
		return st;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
	struct pack_buffer *buffer = HOST_ARRAY(arena, t.rows, struct pack_buffer);
	uint64_t *offset = HOST_ARRAY(arena, t.rows, uint64_t);
	const char **id = HOST_ARRAY(arena, t.rows, const char *);
	if (!buffer || !offset || !id)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < t.rows; i++) {
		buffer[i] = t.row[i].buffer;
		id[i] = t.row[i].id;
	}
	bool decide = a->capacity != UINT64_MAX;
	struct pack_options options = { .capacity = a->capacity,
					.minimise = !decide,
					.effort = decide ? EFFORT_DECIDE : EFFORT_MINIMISE,
					.stop = a->timeout > 0 ? out_of_time : NULL,
					.context = &limit,
					.name = id };
	if (a->timeout * EFFORT_PER_SECOND > (double)options.effort)
		options.effort = (uint64_t)(a->timeout * EFFORT_PER_SECOND);
	st = pack_solve(buffer, t.rows, &options, arena, offset, &result);
	if (st)
		return st;
	print_result(&result, 1e3 * seconds_since(CLOCK_THREAD_CPUTIME_ID, &cpu));
	st = judge(&t, &result, a->capacity, arena);
	if (!st && a->output)
		st = write_table(&t, offset, a->output, arena);
	return st;
}

int command_pack(int argc, char **argv)
{
	struct pack_arguments arguments;
	struct host_arena arena;
	enum tarn_status st = parse_arguments(argc, argv, &arguments);
	if (st)
		return command_fail(st);
	if (arguments.help) {
		print_command_help("pack");
		return 0;
	}
	host_arena_init(&arena);
	st = pack_file(&arguments, &arena);
	host_arena_fini(&arena);
	return st ? command_fail(st) : 0;
}
#endif
