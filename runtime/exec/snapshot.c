/* snapshot.c - see snapshot.h. The file's header is parsed by safetensors.c. */
#include "exec/snapshot.h"

#include "base/atomic_file.h"
#include "base/regular_file.h"
#include "exec/finite.h"
#include "exec/snapshot_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are written as they lie in memory");

/* Upper bounds of the header's fixed texts, for the size of its buffer. */
#define ENTRY_TEXT_BYTES ((size_t)256)
#define METADATA_TEXT_BYTES ((size_t)512)
/* Names in each list of a mismatch. */
#define LISTED_NAMES 3u

struct entry {
	const char *name;
	const struct tensor *tensor;
	uint64_t arena_offset, bytes;
	uint64_t begin; /* in the file's data */
};

struct snapshot {
	struct executor *executor;
	struct host_arena *arena; /* for the header of a file that is loaded; given back */
	const char *default_path, *config;
	struct atomic_file file; /* of the save that is going on */
	char previous[SNAPSHOT_PATH_BYTES + 32];
	struct whole_files whole;
	struct entry *entry;        /* in the order of the data */
	const struct entry **named; /* sorted by name */
	uint32_t entries;
	uint64_t data_bytes;
	char *header;
	uint8_t *buffer;
	XXH64_state_t *hash;
	bool without_optimizer;
};

/* Names of enum dtype in the format. */
static const char *const format_dtype[DTYPES] = { [DTYPE_F32] = "F32", [DTYPE_I32] = "I32",   [DTYPE_U8] = "U8",
						  [DTYPE_U64] = "U64", [DTYPE_BF16] = "BF16", [DTYPE_F16] = "F16" };

static bool is_saved(uint32_t role)
{
	return role == ROLE_PARAMETER || role == ROLE_OPTIMIZER_STATE || role == ROLE_RUNNING_STATISTIC ||
	       role == ROLE_COUNTER;
}

/* Wide elements first, so that each tensor is aligned in the file; then by name. */
static int by_place(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	size_t x_bytes = dtype_bytes(x->tensor->dtype), y_bytes = dtype_bytes(y->tensor->dtype);
	if (x_bytes != y_bytes)
		return x_bytes > y_bytes ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
	const struct entry *const *x = a, *const *y = b;
	return strcmp((*x)->name, (*y)->name);
}

static enum tarn_status collect_entries(struct snapshot *snapshot, size_t *text_bytes)
{
	const struct plan *plan = snapshot->executor->plan;
	const struct graph *graph = &plan->program[0].graph;
	snapshot->entry = HOST_ARRAY(snapshot->arena, plan->persistents, struct entry);
	snapshot->named = HOST_ARRAY(snapshot->arena, plan->persistents, const struct entry *);
	if (!snapshot->entry || !snapshot->named)
		return TARN_ENOMEM;
	*text_bytes = 0;
	for (uint32_t i = 0; i < plan->persistents; i++) {
		const struct persistent *persistent = &plan->persistent[i];
		if (!is_saved(persistent->role))
			continue;
		struct entry *entry = &snapshot->entry[snapshot->entries++];
		char *name = host_arena_text(snapshot->arena, graph->text + persistent->name);
		if (!name)
			return TARN_ENOMEM;
		safetensors_make_valid(name);
		entry->name = name;
		entry->tensor = &graph->tensor[persistent->tensor];
		entry->arena_offset = persistent->offset;
		entry->bytes = persistent->bytes;
		*text_bytes += ENTRY_TEXT_BYTES + 6 * strlen(entry->name);
	}
	if (snapshot->entries)
		qsort(snapshot->entry, snapshot->entries, sizeof *snapshot->entry, by_place);
	for (uint32_t i = 0; i < snapshot->entries; i++) {
		snapshot->named[i] = &snapshot->entry[i];
		snapshot->entry[i].begin = snapshot->data_bytes;
		snapshot->data_bytes += snapshot->entry[i].bytes;
	}
	if (snapshot->entries)
		qsort(snapshot->named, snapshot->entries, sizeof *snapshot->named, by_name);
	return TARN_OK;
}

/* --- what is on the disk already --- */

/* A whole snapshot becomes `.previous`; whatever else stood there must not take its place, and is not lost either. */
static void name_kept(char name[SNAPSHOT_PATH_BYTES + 32], const char *target, bool whole)
{
	snprintf(name, SNAPSHOT_PATH_BYTES + 32, "%s.%s", target, whole ? "previous" : "damaged");
}

/* A place where no file can be made must be known before the first step, not after the last. */
static enum tarn_status try_to_create(struct atomic_file *file, const char *path)
{
	enum tarn_status st = atomic_file_open(file, path);
	atomic_file_abandon(file);
	return st;
}

/* A snapshot that was cut or damaged still begins like one; anything else is somebody's file. */
static bool begins_like_a_snapshot(const char *path)
{
	static const char start[] = "{\"" SAFETENSORS_METADATA "\"";
	char text[SAFETENSORS_LENGTH_BYTES + sizeof start - 1];
	uint64_t bytes;
	int fd;
	if (regular_file_open(path, &fd, &bytes))
		return false;
	ssize_t got = read(fd, text, sizeof text);
	close(fd);
	return !got ||
	       (got == (ssize_t)sizeof text && !memcmp(text + SAFETENSORS_LENGTH_BYTES, start, sizeof start - 1));
}

/* What a save would find at the default path is found now: places that cannot be written to, leftovers of processes
 * that were killed, and whether the file there is worth keeping. */
static enum tarn_status look_at_target(struct snapshot *snapshot)
{
	char *target = snapshot->file.target;
	struct stat status;
	struct snapshot_file file;
	enum tarn_status st = atomic_file_resolve(snapshot->default_path, target);
	if (st)
		return st;
	name_kept(snapshot->previous, target, true);
	if (!stat(snapshot->previous, &status) && !S_ISREG(status.st_mode))
		return tarn_fail(TARN_EIO, "%s: is no regular file; the snapshot before is to be kept there",
				 snapshot->previous);
	atomic_file_clean(target);
	st = try_to_create(&snapshot->file, snapshot->default_path);
	if (st || access(target, F_OK))
		return st;
	struct host_mark mark = host_arena_mark(snapshot->arena);
	st = snapshot_file_open(target, snapshot->arena, snapshot->hash, snapshot->buffer, &file);
	if (!st && !fstat(file.fd, &status))
		whole_files_note(&snapshot->whole, &status);
	snapshot_file_close(&file);
	host_arena_release(snapshot->arena, mark);
	if (st != TARN_EIO && st != TARN_EFORMAT)
		return st;
	if (!begins_like_a_snapshot(target))
		return tarn_fail(TARN_EIO,
				 "%s: a file is there that is no snapshot; move it away or choose another name",
				 target);
	/* That it is damaged is no failure of this call: it will be replaced, and a load says what is wrong. */
	tarn_error_clear();
	return TARN_OK;
}

/* The default path, and the texts of the header as they will be read back. */
static enum tarn_status copy_texts(struct snapshot *snapshot, const char *path)
{
	const char *lines = snapshot->executor->plan->config_lines;
	char *config = host_arena_text(snapshot->arena, lines ? lines : "");
	snapshot->default_path = host_arena_text(snapshot->arena, path ? path : "");
	if (!config || !snapshot->default_path)
		return TARN_ENOMEM;
	safetensors_make_valid(config);
	snapshot->config = config;
	return TARN_OK;
}

enum tarn_status snapshot_open(struct executor *executor, const char *path, struct host_arena *arena,
			       struct snapshot **snapshot)
{
	struct snapshot *made = HOST_NEW(arena, struct snapshot);
	size_t text_bytes;
	if (!made)
		return TARN_ENOMEM;
	made->executor = executor;
	made->arena = arena;
	made->file.fd = -1;
	enum tarn_status st = copy_texts(made, path);
	if (!st)
		st = collect_entries(made, &text_bytes);
	if (st)
		return st;
	made->header = HOST_ARRAY(arena, METADATA_TEXT_BYTES + 6 * strlen(made->config) + text_bytes, char);
	made->buffer = HOST_ARRAY(arena, SNAPSHOT_BUFFER_BYTES, uint8_t);
	if (!made->header || !made->buffer)
		return TARN_ENOMEM;
	made->hash = XXH64_createState();
	if (!made->hash)
		return tarn_fail(TARN_ENOMEM, "host memory: no state for XXH64");
	st = *made->default_path ? look_at_target(made) : TARN_OK;
	if (st)
		snapshot_close(made);
	else
		*snapshot = made;
	return st;
}

void snapshot_close(struct snapshot *snapshot)
{
	if (!snapshot)
		return;
	XXH64_freeState(snapshot->hash);
	snapshot->hash = NULL;
}

/* --- saving --- */

/* A piece of an entry that lies in the buffer, `done` bytes behind the entry's beginning. */
static enum tarn_status hash_piece(struct snapshot *snapshot, const struct entry *entry, uint64_t done, size_t bytes)
{
	(void)entry;
	(void)done;
	XXH64_update(snapshot->hash, snapshot->buffer, bytes);
	return TARN_OK;
}

/* A run does not recover from a value that is not finite: such a state must not replace one that can be gone on from.
 */
static enum tarn_status check_piece(struct snapshot *snapshot, const struct entry *entry, uint64_t done, size_t bytes)
{
	char name[SAFETENSORS_PRINTABLE];
	size_t size = dtype_bytes(entry->tensor->dtype), count = bytes / size;
	size_t at = finite_find_other(entry->tensor->dtype, snapshot->buffer, count);
	if (at < count)
		return tarn_fail(TARN_EDIVERGED,
				 "tensor %s holds a value that is not finite at element %" PRIu64
				 "; the snapshot before is kept",
				 safetensors_printable(entry->name, name), done / size + at);
	return hash_piece(snapshot, entry, done, bytes);
}

static enum tarn_status write_piece(struct snapshot *snapshot, const struct entry *entry, uint64_t done, size_t bytes)
{
	(void)entry;
	(void)done;
	return atomic_file_write(&snapshot->file, snapshot->buffer, bytes);
}

/* The bytes of an entry from the arena through the buffer. */
static enum tarn_status stream_entry(struct snapshot *snapshot, const struct entry *entry,
				     enum tarn_status (*take)(struct snapshot *, const struct entry *, uint64_t done,
							      size_t bytes))
{
	struct device *device = snapshot->executor->device;
	for (uint64_t done = 0; done < entry->bytes;) {
		uint64_t step =
			entry->bytes - done < SNAPSHOT_BUFFER_BYTES ? entry->bytes - done : SNAPSHOT_BUFFER_BYTES;
		enum tarn_status st = device->ops->read(device, entry->arena_offset + done, snapshot->buffer, step);
		if (!st)
			st = device->ops->synchronize(device);
		if (!st)
			st = take(snapshot, entry, done, step);
		if (st)
			return st;
		done += step;
	}
	return TARN_OK;
}

static char *put(char *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The header's buffer was sized for the longest text, so that nothing is cut here. */
static char *put(char *out, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(out, ENTRY_TEXT_BYTES, format, arguments);
	va_end(arguments);
	return out + length;
}

/* An entry as the header describes it. */
static struct safetensors_tensor describe(const struct entry *entry)
{
	struct safetensors_tensor tensor = { .name = entry->name,
					     .dtype = format_dtype[entry->tensor->dtype],
					     .begin = entry->begin,
					     .end = entry->begin + entry->bytes,
					     .rank = entry->tensor->rank };
	for (uint32_t i = 0; i < tensor.rank; i++)
		tensor.dim[i] = entry->tensor->dim[i];
	return tensor;
}

static char *put_tensor(char *out, const struct safetensors_tensor *tensor)
{
	*out++ = ',';
	out += safetensors_quote(out, tensor->name);
	out = put(out, ":{\"dtype\":\"%s\",\"shape\":[", tensor->dtype);
	for (uint32_t i = 0; i < tensor->rank; i++)
		out = put(out, "%s%" PRIu64, i ? "," : "", tensor->dim[i]);
	return put(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", tensor->begin, tensor->end);
}

static uint64_t header_checksum(struct snapshot *snapshot, const struct snapshot_position *position, uint64_t checksum)
{
	snapshot_header_checksum_begin(snapshot->hash, position, snapshot->config, checksum);
	for (uint32_t i = 0; i < snapshot->entries; i++) {
		const struct safetensors_tensor tensor = describe(snapshot->named[i]);
		snapshot_header_checksum_add(snapshot->hash, &tensor);
	}
	return XXH64_digest(snapshot->hash);
}

/* The length field is written too. Returns the bytes of both, a multiple of 8, so that the data are aligned. */
static size_t build_header(struct snapshot *snapshot, const struct snapshot_position *position, uint64_t checksum)
{
	char *out = snapshot->header + SAFETENSORS_LENGTH_BYTES;
	out = put(out,
		  "{\"" SAFETENSORS_METADATA "\":{\"tarn.version\":\"%u\",\"tarn.epoch\":\"%" PRIu32
		  "\",\"tarn.batch\":\"%" PRIu32 "\",",
		  SNAPSHOT_VERSION, position->epoch, position->batch);
	out = put(out,
		  "\"tarn.step\":\"%" PRIu64 "\",\"tarn.seed\":\"%" PRIu64 "\",\"tarn.checksum\":\"%016" PRIx64 "\",",
		  position->step, position->seed, checksum);
	out = put(out, "\"tarn.batch_size\":\"%" PRIu32 "\",\"tarn.samples\":\"%" PRIu32 "\",", position->batch_size,
		  position->samples);
	out = put(out, "\"tarn.header_checksum\":\"%016" PRIx64 "\",", header_checksum(snapshot, position, checksum));
	out = put(out, "\"tarn.config\":");
	out += safetensors_quote(out, snapshot->config);
	*out++ = '}';
	for (uint32_t i = 0; i < snapshot->entries; i++) {
		const struct safetensors_tensor tensor = describe(&snapshot->entry[i]);
		out = put_tensor(out, &tensor);
	}
	*out++ = '}';
	while ((out - snapshot->header) % 8)
		*out++ = ' ';
	uint64_t length = (uint64_t)(out - snapshot->header) - SAFETENSORS_LENGTH_BYTES;
	memcpy(snapshot->header, &length, sizeof length);
	return (size_t)(out - snapshot->header);
}

/* The checksum of the data, which stands before them; refuses values that are not finite. */
static enum tarn_status check_data(struct snapshot *snapshot, uint64_t *checksum)
{
	XXH64_reset(snapshot->hash, 0);
	for (uint32_t i = 0; i < snapshot->entries; i++) {
		enum tarn_status st = stream_entry(snapshot, &snapshot->entry[i], check_piece);
		if (st)
			return st;
	}
	*checksum = XXH64_digest(snapshot->hash);
	return TARN_OK;
}

static enum tarn_status write_file(struct snapshot *snapshot, size_t header_bytes)
{
	enum tarn_status st = atomic_file_write(&snapshot->file, snapshot->header, header_bytes);
	for (uint32_t i = 0; i < snapshot->entries && !st; i++)
		st = stream_entry(snapshot, &snapshot->entry[i], write_piece);
	return st;
}

enum tarn_status snapshot_save(struct snapshot *snapshot, const char *path, const struct snapshot_position *position)
{
	struct atomic_file *file = &snapshot->file;
	uint64_t checksum;
	enum tarn_status st = check_data(snapshot, &checksum);
	if (!st)
		st = atomic_file_open(file, path ? path : snapshot->default_path);
	if (st)
		return st;
	st = write_file(snapshot, build_header(snapshot, position, checksum));
	if (!st) {
		name_kept(snapshot->previous, file->target, whole_files_hold(&snapshot->whole, file->target));
		st = atomic_file_commit(file, snapshot->previous);
	}
	if (!st)
		whole_files_note(&snapshot->whole, &file->status);
	atomic_file_abandon(file);
	return st;
}

enum tarn_status snapshot_hash(struct snapshot *snapshot, const struct snapshot_position *position, uint64_t *hash)
{
	XXH64_reset(snapshot->hash, 0);
	for (uint32_t i = 0; i < snapshot->entries; i++) {
		const struct entry *entry = snapshot->named[i];
		const char *dtype = dtype_name(entry->tensor->dtype);
		uint32_t rank = entry->tensor->rank;
		XXH64_update(snapshot->hash, entry->name, strlen(entry->name));
		XXH64_update(snapshot->hash, dtype, strlen(dtype));
		XXH64_update(snapshot->hash, &rank, sizeof rank);
		XXH64_update(snapshot->hash, entry->tensor->dim, rank * sizeof entry->tensor->dim[0]);
		enum tarn_status st = stream_entry(snapshot, entry, hash_piece);
		if (st)
			return st;
	}
	XXH64_update(snapshot->hash, &position->step, sizeof position->step);
	XXH64_update(snapshot->hash, &position->seed, sizeof position->seed);
	*hash = XXH64_digest(snapshot->hash);
	return TARN_OK;
}

/* --- loading --- */

/* A list of names for a message: the first few, then how many more. */
struct listing {
	char text[3 * SAFETENSORS_PRINTABLE + 200];
	size_t used;
	uint32_t count;
};

static void list(struct listing *listing, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void list(struct listing *listing, const char *format, ...)
{
	if (++listing->count > LISTED_NAMES)
		return;
	if (listing->count > 1 && listing->used + 2 < sizeof listing->text)
		listing->used += (size_t)snprintf(listing->text + listing->used, 3, ", ");
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(listing->text + listing->used, sizeof listing->text - listing->used, format, arguments);
	va_end(arguments);
	listing->used += (size_t)length;
	if (listing->used >= sizeof listing->text)
		listing->used = sizeof listing->text - 1;
}

static const char *finish(struct listing *listing)
{
	if (!listing->count)
		return "none";
	if (listing->count > LISTED_NAMES)
		snprintf(listing->text + listing->used, sizeof listing->text - listing->used, " and %" PRIu32 " more",
			 listing->count - LISTED_NAMES);
	return listing->text;
}

static bool same_kind(const struct entry *entry, const struct safetensors_tensor *found)
{
	bool same = !strcmp(found->dtype, format_dtype[entry->tensor->dtype]) && found->rank == entry->tensor->rank;
	for (uint32_t i = 0; same && i < found->rank; i++)
		same = found->dim[i] == entry->tensor->dim[i];
	return same;
}

static const char *kind_of(const struct safetensors_tensor *tensor, char *text, size_t size)
{
	int used = snprintf(text, size, "%s", tensor->dtype);
	for (uint32_t i = 0; i < tensor->rank && (size_t)used < size; i++)
		used += snprintf(text + used, size - (size_t)used, "%c%" PRIu64, i ? 'x' : ' ', tensor->dim[i]);
	return text;
}

static int entry_against_name(const void *name, const void *entry)
{
	return strcmp(name, (*(const struct entry *const *)entry)->name);
}

void snapshot_leave_out_optimizer(struct snapshot *snapshot)
{
	snapshot->without_optimizer = true;
}

/* Masks of weights that were never pruned: a file from before has none, and they stay as they are, ones. */
static bool may_be_missing(const struct entry *entry)
{
	static const char first[] = "optimizer/", last[] = "/mask";
	const size_t length = strlen(entry->name), tail = sizeof last - 1;
	return !strncmp(entry->name, first, sizeof first - 1) && length > tail &&
	       !strcmp(entry->name + length - tail, last);
}

/* The plan reads the moving average instead of this weight. */
static bool has_average(const struct snapshot *snapshot, const char *name)
{
	for (uint32_t i = 0; i < snapshot->entries; i++) {
		const char *own = snapshot->entry[i].name;
		if (!strncmp(own, AVERAGE_PREFIX, sizeof AVERAGE_PREFIX - 1) &&
		    !strcmp(own + sizeof AVERAGE_PREFIX - 1, name))
			return true;
	}
	return false;
}

/* Names, dtypes and shapes are those of the network. */
static enum tarn_status compare(const struct snapshot *snapshot, const struct snapshot_file *file)
{
	struct listing missing = { .count = 0 }, extra = { .count = 0 }, wrong = { .count = 0 };
	char name[SAFETENSORS_PRINTABLE], got[SHAPE_TEXT + 8], want[SHAPE_TEXT];
	for (uint32_t i = 0; i < snapshot->entries; i++) {
		const struct entry *entry = snapshot->named[i];
		const struct safetensors_tensor *found = safetensors_find(&file->content, entry->name);
		if (!found && may_be_missing(entry))
			continue;
		if (!found)
			list(&missing, "%s", safetensors_printable(entry->name, name));
		else if (!same_kind(entry, found))
			list(&wrong, "%s (file %s, network %s %s)", safetensors_printable(entry->name, name),
			     kind_of(found, got, sizeof got), format_dtype[entry->tensor->dtype],
			     shape_format(entry->tensor->dim, entry->tensor->rank, want, sizeof want));
	}
	for (size_t i = 0; i < file->content.tensors; i++) {
		const char *found = file->content.tensor[i].name;
		if (snapshot->without_optimizer && (!strncmp(found, "optimizer/", 10) || has_average(snapshot, found)))
			continue;
		if (!snapshot->entries ||
		    !bsearch(found, snapshot->named, snapshot->entries, sizeof *snapshot->named, entry_against_name))
			list(&extra, "%s", safetensors_printable(found, name));
	}
	if (!missing.count && !extra.count && !wrong.count)
		return TARN_OK;
	return tarn_fail(TARN_EFORMAT, "%s: does not fit this network: missing: %s; extra: %s; wrong shape: %s",
			 file->path, finish(&missing), finish(&extra), finish(&wrong));
}

static enum tarn_status copy_entry(struct snapshot *snapshot, const struct snapshot_file *file,
				   const struct entry *entry)
{
	struct device *device = snapshot->executor->device;
	const struct safetensors_tensor *found = safetensors_find(&file->content, entry->name);
	if (!found)
		return TARN_OK;
	const uint64_t begin = file->data_begin + found->begin;
	for (uint64_t done = 0; done < entry->bytes;) {
		uint64_t step =
			entry->bytes - done < SNAPSHOT_BUFFER_BYTES ? entry->bytes - done : SNAPSHOT_BUFFER_BYTES;
		enum tarn_status st = snapshot_file_read(file, begin + done, snapshot->buffer, step);
		if (!st)
			st = device->ops->write(device, entry->arena_offset + done, snapshot->buffer, step);
		/* The buffer is filled again only when the device has read it. */
		if (!st)
			st = device->ops->synchronize(device);
		if (st)
			return st;
		done += step;
	}
	return TARN_OK;
}

/* *damaged: the file itself is missing or not whole; false with a failure: it does not fit, or the device failed. */
static enum tarn_status load(struct snapshot *snapshot, const char *path, struct snapshot_position *position,
			     bool *damaged)
{
	struct snapshot_file file;
	struct host_mark mark = host_arena_mark(snapshot->arena);
	enum tarn_status st = snapshot_file_open(path, snapshot->arena, snapshot->hash, snapshot->buffer, &file);
	*damaged = st == TARN_EIO || st == TARN_EFORMAT;
	if (!st)
		st = compare(snapshot, &file);
	for (uint32_t i = 0; i < snapshot->entries && !st; i++)
		st = copy_entry(snapshot, &file, &snapshot->entry[i]);
	if (!st)
		*position = file.position;
	snapshot_file_close(&file);
	host_arena_release(snapshot->arena, mark);
	return st;
}

/* Where saves to `path` keep the file before, when there is one. */
static const char *find_previous(struct snapshot *snapshot, const char *path)
{
	char target[ATOMIC_FILE_PATH_BYTES];
	if (atomic_file_resolve(path, target))
		return NULL;
	const char *previous = host_arena_printf(snapshot->arena, "%s.previous", target);
	return previous && !access(previous, F_OK) ? previous : NULL;
}

enum tarn_status snapshot_load(struct snapshot *snapshot, const char *path, struct snapshot_position *position)
{
	bool damaged;
	enum tarn_status st = load(snapshot, path, position, &damaged);
	if (!st || !damaged)
		return st;
	char sentence[TARN_ERROR_BYTES];
	snprintf(sentence, sizeof sentence, "%s", tarn_error());
	const char *previous = find_previous(snapshot, path);
	return tarn_fail(st, "%s%s%s", sentence, previous ? "; the snapshot before it is kept as " : "",
			 previous ? previous : "");
}

enum tarn_status snapshot_load_newest(struct snapshot *snapshot, const char *path, struct snapshot_position *position)
{
	bool damaged;
	enum tarn_status st = load(snapshot, path, position, &damaged);
	if (!st || !damaged)
		return st;
	char sentence[TARN_ERROR_BYTES];
	snprintf(sentence, sizeof sentence, "%s", tarn_error());
	const char *previous = find_previous(snapshot, path);
	if (previous && load(snapshot, previous, position, &damaged) == TARN_OK) {
		fprintf(stderr, "warning: %s; %s is used instead\n", sentence, previous);
		return TARN_OK;
	}
	return tarn_fail(st, "%s", sentence);
}
