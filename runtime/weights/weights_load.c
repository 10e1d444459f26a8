/* weights_load.c - see weights_load.h. */
#include "weights/weights_load.h"

#include "base/regular_file.h"
#include "models/exchange.h"
#include "weights/weights_file.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_MAP_BYTES ((uint64_t)16 << 20)
/* Of one list in a message: three of them and the words between fit into a sentence. */
#define LIST_BYTES 280u

struct load {
	struct executor *executor;
	const struct weights_request *request;
	struct host_arena *arena;
	struct weights_file file;
	struct exchange exchange;
	bool *used;                          /* tensors of the file */
	const struct weights_tensor **found; /* for each entry; NULL: keeps its values */
	bool pattern_used[CONFIG_MAX_LIST];
	uint32_t loaded;
};

enum tarn_status weights_read_text(const char *path, struct host_arena *arena, const char **text)
{
	uint64_t bytes, done = 0;
	int fd;
	enum tarn_status st = regular_file_open(path, &fd, &bytes);
	if (st)
		return st;
	char *buffer = bytes > MAX_MAP_BYTES ? NULL : HOST_ARRAY(arena, bytes + 1, char);
	while (buffer && done < bytes) {
		ssize_t got = read(fd, buffer + done, bytes - done);
		if (got <= 0)
			break;
		done += (uint64_t)got;
	}
	close(fd);
	if (bytes > MAX_MAP_BYTES)
		return tarn_fail(TARN_EFORMAT, "%s: %" PRIu64 " bytes are no map; it has at most %" PRIu64, path, bytes,
				 MAX_MAP_BYTES);
	if (buffer && done < bytes)
		return tarn_fail(TARN_EIO, "%s: cannot read at byte %" PRIu64, path, done);
	*text = buffer;
	return buffer ? TARN_OK : TARN_ENOMEM;
}

/* ---- lists of names ---- */

/* Names for a sentence; what has no room is counted. */
struct names {
	char text[LIST_BYTES];
	size_t used;
	uint32_t count, left_out;
};

static void name_add(struct names *names, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void name_add(struct names *names, const char *format, ...)
{
	char text[256];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	size_t length = strlen(text) + 2;
	names->count++;
	if (names->left_out || names->used + length + 20 > sizeof names->text) {
		names->left_out++;
		return;
	}
	names->used += (size_t)snprintf(names->text + names->used, sizeof names->text - names->used, "%s%s",
					names->used ? ", " : "", text);
}

static const char *names_text(struct names *names)
{
	if (names->left_out)
		snprintf(names->text + names->used, sizeof names->text - names->used, " and %" PRIu32 " more",
			 names->left_out);
	return names->count ? names->text : "none";
}

/* A line of the report, whose names are all there. */
static enum tarn_status line_add(struct load *load, const char **line, const char *name)
{
	*line = host_arena_printf(load->arena, "%s%s%s", *line, **line ? ", " : "", name);
	return *line ? TARN_OK : TARN_ENOMEM;
}

/* ---- matching ---- */

static bool skipped(struct load *load, const char *name)
{
	const struct text_list *skip = load->request->skip;
	bool any = false;
	for (uint32_t i = 0; i < skip->count; i++)
		if (!fnmatch(skip->item[i], name, 0)) {
			load->pattern_used[i] = true;
			any = true;
		}
	return any;
}

static enum tarn_status collect(struct load *load)
{
	const struct plan *plan = load->executor->plan;
	const char **name = HOST_ARRAY(load->arena, plan->persistents + 1u, const char *), *map = NULL;
	uint32_t count = 0;
	if (!name)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < plan->persistents; i++) {
		uint32_t role = plan->persistent[i].role;
		if (role == ROLE_PARAMETER || role == ROLE_RUNNING_STATISTIC || role == ROLE_COUNTER)
			name[count++] = plan->program[0].graph.text + plan->persistent[i].name;
	}
	enum tarn_status st = TARN_OK;
	if (load->request->map[0])
		st = weights_read_text(load->request->map, load->arena, &map);
	if (!st)
		st = exchange_build(name, count, map, load->arena, &load->exchange);
	if (st)
		return load->request->map[0] ? tarn_fail_prefix(st, "%s", load->request->map) : st;
	if (load->file.snapshot && !map) {
		load->exchange.entries = count;
		for (uint32_t i = 0; i < count; i++)
			load->exchange.entry[i] = (struct exchange_entry){ .own = name[i], .foreign = name[i] };
	}
	load->used = HOST_ARRAY(load->arena, load->file.tensors + 1u, bool);
	load->found = HOST_ARRAY(load->arena, load->exchange.entries + 1u, const struct weights_tensor *);
	return load->used && load->found ? TARN_OK : TARN_ENOMEM;
}

/* Dimensions of 1 in front do not count: PyTorch has them where a batch would be, and none in a counter. */
static void strip(const uint64_t *dim, uint32_t rank, const uint64_t **out, uint32_t *count)
{
	while (rank && *dim == 1) {
		dim++;
		rank--;
	}
	*out = dim;
	*count = rank;
}

static bool fits(const struct exchange_entry *entry, const struct tensor *own, const struct weights_tensor *found)
{
	uint64_t wanted[OP_MAX_RANK];
	const uint64_t *a, *b;
	uint32_t a_rank, b_rank;
	for (uint32_t i = 0; i < own->rank; i++)
		wanted[i] = own->dim[entry->kind == EXCHANGE_TRANSPOSED ? own->rank - 1 - i : i];
	strip(wanted, own->rank, &a, &a_rank);
	strip(found->dim, found->rank, &b, &b_rank);
	return a_rank == b_rank && !memcmp(a, b, a_rank * sizeof *a) &&
	       (entry->kind != EXCHANGE_TRANSPOSED || (own->rank == 2 && found->rank == 2));
}

static const char *shape_text(const struct weights_tensor *tensor, char text[SHAPE_TEXT])
{
	int used = snprintf(text, SHAPE_TEXT, "%s", tensor->rank ? "" : "one number");
	for (uint32_t i = 0; i < tensor->rank && used < SHAPE_TEXT; i++)
		used += snprintf(text + used, SHAPE_TEXT - (size_t)used, "%s%" PRIu64, i ? "x" : "", tensor->dim[i]);
	return text;
}

/* The entry's tensor in the file, also without the names' common beginning. */
static const struct weights_tensor *find(const struct load *load, const struct exchange_entry *entry)
{
	const struct weights_tensor *found = weights_file_find(&load->file, entry->foreign);
	const char *prefix = load->exchange.prefix;
	size_t length = strlen(prefix);
	if (!found && length && !strncmp(entry->foreign, prefix, length))
		found = weights_file_find(&load->file, entry->foreign + length);
	return found;
}

static bool ignored(const struct load *load, const char *name)
{
	const bool state =
		!strncmp(name, "optimizer/", 10) || !strncmp(name, AVERAGE_PREFIX, sizeof AVERAGE_PREFIX - 1);
	if (load->file.snapshot)
		return state;
	for (const char *const *pattern = load->exchange.ignored; *pattern; pattern++)
		if (!fnmatch(*pattern, name, 0))
			return true;
	return false;
}

static const struct tensor *own_tensor(const struct load *load, const char *name)
{
	const struct persistent *persistent = exec_find(load->executor, name);
	return &load->executor->plan->program[0].graph.tensor[persistent->tensor];
}

/* Every entry finds its tensor, or is left out; *kept and *unused: what the report names. */
static enum tarn_status match(struct load *load, const char **kept, const char **unused)
{
	struct names missing = { .used = 0 }, unexpected = { .used = 0 }, wrong = { .used = 0 };
	char want[SHAPE_TEXT], got[SHAPE_TEXT];
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < load->exchange.entries && !st; i++) {
		const struct exchange_entry *entry = &load->exchange.entry[i];
		const struct weights_tensor *found = find(load, entry);
		const struct tensor *own = own_tensor(load, entry->own);
		const bool extra = entry->kind == EXCHANGE_BIAS || entry->kind == EXCHANGE_TWIN;
		if (found)
			load->used[found - load->file.tensor] = true;
		if (skipped(load, entry->own)) {
			st = extra ? TARN_OK : line_add(load, kept, entry->own);
		} else if (found && !fits(entry, own, found)) {
			name_add(&wrong, "%s (file %s, network %s)", found->name, shape_text(found, got),
				 shape_format(own->dim, own->rank, want, sizeof want));
		} else if (!found && !extra) {
			name_add(&missing, "%s", entry->foreign);
		} else {
			load->found[i] = found;
		}
	}
	for (uint32_t i = 0; i < load->file.tensors && !st; i++) {
		char printable[SAFETENSORS_PRINTABLE];
		const char *name = safetensors_printable(load->file.tensor[i].name, printable);
		if (load->used[i] || ignored(load, load->file.tensor[i].name))
			continue;
		if (skipped(load, load->file.tensor[i].name))
			st = line_add(load, unused, name);
		else
			name_add(&unexpected, "%s", name);
	}
	if (st || !(missing.count + unexpected.count + wrong.count))
		return st;
	return tarn_fail(TARN_EFORMAT,
			 "%s: does not fit this network (names: %s): missing: %s; unexpected: %s; shape: %s",
			 load->file.path,
			 load->file.snapshot        ? "its own"
			 : load->exchange.family[0] ? load->exchange.family
						    : "its own with points",
			 names_text(&missing), names_text(&unexpected), names_text(&wrong));
}

static enum tarn_status check_patterns(const struct load *load)
{
	const struct text_list *skip = load->request->skip;
	for (uint32_t i = 0; i < skip->count; i++)
		if (!load->pattern_used[i])
			return tarn_fail(TARN_EINVAL,
					 "train.initialize_skip: %s matches no tensor of the network, such as %s, and "
					 "none of %s",
					 skip->item[i], load->exchange.entries ? load->exchange.entry[0].own : "none",
					 load->file.path);
	return TARN_OK;
}

/* ---- values ---- */

static void transpose(const float *from, uint64_t rows, uint64_t columns, float *to)
{
	for (uint64_t r = 0; r < rows; r++)
		for (uint64_t c = 0; c < columns; c++)
			to[c * rows + r] = from[r * columns + c];
}

/* A bias in front of a batch norm only moves the mean that is subtracted; a twin must be what it is a twin of. */
static enum tarn_status merge(struct load *load, const struct exchange_entry *entry, const float *values,
			      uint64_t count)
{
	float *own = HOST_ARRAY(load->arena, count + 1, float);
	if (!own)
		return TARN_ENOMEM;
	enum tarn_status st = exec_read(load->executor, entry->own, own, count * sizeof *own);
	if (!st && entry->kind == EXCHANGE_TWIN && memcmp(own, values, count * sizeof *own) != 0)
		return tarn_fail(TARN_EFORMAT,
				 "%s: %s has other values than %s, and this network has one table for both",
				 load->file.path, entry->foreign, entry->own);
	if (st || entry->kind == EXCHANGE_TWIN)
		return st;
	for (uint64_t i = 0; i < count; i++)
		own[i] -= values[i];
	return exec_write(load->executor, entry->own, own, count * sizeof *own);
}

static enum tarn_status load_entry(struct load *load, const struct exchange_entry *entry,
				   const struct weights_tensor *found)
{
	const struct tensor *own = own_tensor(load, entry->own);
	uint64_t count = tensor_elements(own), batches;
	if (own->dtype == DTYPE_U64) {
		enum tarn_status st = weights_file_read_count(&load->file, found, &batches);
		return st ? st : exec_write(load->executor, entry->own, &batches, sizeof batches);
	}
	float *values = HOST_ARRAY(load->arena, count + 1, float), *turned = values;
	if (!values)
		return TARN_ENOMEM;
	enum tarn_status st = weights_file_read(&load->file, found, load->arena, values);
	if (!st && entry->kind == EXCHANGE_TRANSPOSED) {
		turned = HOST_ARRAY(load->arena, count + 1, float);
		if (!turned)
			return TARN_ENOMEM;
		transpose(values, found->dim[0], found->dim[1], turned);
	}
	if (st)
		return st;
	if (entry->kind == EXCHANGE_BIAS || entry->kind == EXCHANGE_TWIN)
		return merge(load, entry, values, count);
	return exec_write(load->executor, entry->own, turned, count * sizeof(float));
}

/* Moving averages begin at the weights. */
static enum tarn_status start_averages(struct load *load)
{
	const struct plan *plan = load->executor->plan;
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < plan->persistents && !st; i++) {
		const char *name = plan->program[0].graph.text + plan->persistent[i].name;
		if (strncmp(name, AVERAGE_PREFIX, sizeof AVERAGE_PREFIX - 1) != 0)
			continue;
		struct host_mark mark = host_arena_mark(load->arena);
		const uint64_t bytes = plan->persistent[i].bytes;
		void *values = host_arena_alloc(load->arena, bytes + 1, 1);
		st = values ? exec_read(load->executor, name + sizeof AVERAGE_PREFIX - 1, values, bytes) : TARN_ENOMEM;
		if (!st)
			st = exec_write(load->executor, name, values, bytes);
		host_arena_release(load->arena, mark);
	}
	return st;
}

static enum tarn_status load_all(struct load *load)
{
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < load->exchange.entries && !st; i++) {
		struct host_mark mark = host_arena_mark(load->arena);
		if (load->found[i]) {
			st = load_entry(load, &load->exchange.entry[i], load->found[i]);
			load->loaded++;
		}
		host_arena_release(load->arena, mark);
	}
	return st ? st : start_averages(load);
}

static enum tarn_status write_report(struct load *load, const char *kept, const char *unused, const char **report)
{
	*report = host_arena_printf(load->arena, "initialized %" PRIu32 " tensors from %s%s%s%s%s%s%s\n", load->loaded,
				    load->file.path,
				    load->exchange.family[0] && !load->file.snapshot ? ", names of " : "",
				    load->file.snapshot ? "" : load->exchange.family, *kept ? "\n  not loaded  " : "",
				    kept, *unused ? "\n  not used    " : "", unused);
	return *report ? TARN_OK : TARN_ENOMEM;
}

enum tarn_status weights_load(struct executor *executor, const struct weights_request *request,
			      struct host_arena *arena, const char **report)
{
	struct load load = { .executor = executor, .request = request, .arena = arena };
	const char *kept = "", *unused = "";
	enum tarn_status st = weights_file_open(request->path, arena, &load.file);
	if (!st)
		st = collect(&load);
	if (!st)
		st = match(&load, &kept, &unused);
	if (!st)
		st = check_patterns(&load);
	if (!st)
		st = load_all(&load);
	weights_file_close(&load.file);
	return st ? st : write_report(&load, kept, unused, report);
}
