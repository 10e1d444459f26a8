/* snapshot.c - see snapshot.h. The file's header is parsed by safetensors.c. */
#include "exec/snapshot.h"

#include "exec/snapshot_file.h"

#include <errno.h>
#include <fcntl.h>
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
	const char *default_path;
	/* Of the save that is going on. */
	char path[SNAPSHOT_PATH_BYTES], temporary[SNAPSHOT_PATH_BYTES + 32], previous[SNAPSHOT_PATH_BYTES + 32],
		directory[SNAPSHOT_PATH_BYTES];
	struct entry *entry;        /* in the order of the data */
	const struct entry **named; /* sorted by name */
	uint32_t entries;
	uint64_t data_bytes;
	char *header;
	uint8_t *buffer;
	XXH64_state_t *hash;
};

/* Names of enum dtype in the format. */
static const char *const format_dtype[DTYPES] = {
	[DTYPE_F32] = "F32", [DTYPE_I32] = "I32", [DTYPE_U8] = "U8", [DTYPE_U64] = "U64"
};

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
		entry->name = graph->text + persistent->name;
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

enum tarn_status snapshot_open(struct executor *executor, const char *path, struct host_arena *arena,
			       struct snapshot **snapshot)
{
	struct snapshot *made = HOST_NEW(arena, struct snapshot);
	size_t text_bytes;
	if (!made)
		return TARN_ENOMEM;
	made->executor = executor;
	made->arena = arena;
	made->default_path = host_arena_text(arena, path ? path : "");
	if (!made->default_path)
		return TARN_ENOMEM;
	enum tarn_status st = collect_entries(made, &text_bytes);
	if (st)
		return st;
	const char *config = executor->plan->config_lines ? executor->plan->config_lines : "";
	made->header = HOST_ARRAY(arena, METADATA_TEXT_BYTES + 6 * strlen(config) + text_bytes, char);
	made->buffer = HOST_ARRAY(arena, SNAPSHOT_BUFFER_BYTES, uint8_t);
	if (!made->header || !made->buffer)
		return TARN_ENOMEM;
	made->hash = XXH64_createState();
	if (!made->hash)
		return tarn_fail(TARN_ENOMEM, "host memory: no state for XXH64");
	*snapshot = made;
	return TARN_OK;
}

void snapshot_close(struct snapshot *snapshot)
{
	if (!snapshot)
		return;
	XXH64_freeState(snapshot->hash);
	snapshot->hash = NULL;
}

/* --- saving --- */

static enum tarn_status make_paths(struct snapshot *snapshot, const char *path)
{
	path = path ? path : snapshot->default_path;
	size_t length = strlen(path);
	if (!length || length >= SNAPSHOT_PATH_BYTES)
		return tarn_fail(TARN_EINVAL, "snapshot: the path has %zu bytes; 1 to %u are possible", length,
				 SNAPSHOT_PATH_BYTES - 1);
	memcpy(snapshot->path, path, length + 1);
	snprintf(snapshot->temporary, sizeof snapshot->temporary, "%s.tmp.%ld", snapshot->path, (long)getpid());
	snprintf(snapshot->previous, sizeof snapshot->previous, "%s.previous", snapshot->path);
	const char *slash = strrchr(path, '/');
	/* "/state" lies in "/", "state" in ".". */
	size_t directory = slash ? (size_t)(slash - path) + (slash == path) : 0;
	memcpy(snapshot->directory, path, directory);
	strcpy(snapshot->directory + directory, directory ? "" : ".");
	return TARN_OK;
}

static enum tarn_status write_all(int fd, const char *path, const void *data, size_t bytes)
{
	const uint8_t *at = data;
	while (bytes) {
		ssize_t done = write(fd, at, bytes);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return tarn_fail(TARN_EIO, "snapshot %s: write failed: %s", path, strerror(errno));
		at += done;
		bytes -= (size_t)done;
	}
	return TARN_OK;
}

/* The bytes of an entry from the arena through the buffer, into the hash (fd -1) or into the file. */
static enum tarn_status stream_entry(struct snapshot *snapshot, const struct entry *entry, int fd)
{
	struct device *device = snapshot->executor->device;
	for (uint64_t done = 0; done < entry->bytes;) {
		uint64_t step =
			entry->bytes - done < SNAPSHOT_BUFFER_BYTES ? entry->bytes - done : SNAPSHOT_BUFFER_BYTES;
		enum tarn_status st = device->ops->read(device, entry->arena_offset + done, snapshot->buffer, step);
		if (!st)
			st = device->ops->synchronize(device);
		if (!st && fd >= 0)
			st = write_all(fd, snapshot->temporary, snapshot->buffer, step);
		else if (!st)
			XXH64_update(snapshot->hash, snapshot->buffer, step);
		if (st)
			return st;
		done += step;
	}
	return TARN_OK;
}

static enum tarn_status stream_entries(struct snapshot *snapshot, int fd)
{
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < snapshot->entries && !st; i++)
		st = stream_entry(snapshot, &snapshot->entry[i], fd);
	return st;
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

static char *put_entry(char *out, const struct entry *entry)
{
	*out++ = ',';
	out += safetensors_quote(out, entry->name);
	out = put(out, ":{\"dtype\":\"%s\",\"shape\":[", format_dtype[entry->tensor->dtype]);
	for (uint32_t i = 0; i < entry->tensor->rank; i++)
		out = put(out, "%s%" PRIu32, i ? "," : "", entry->tensor->dim[i]);
	return put(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", entry->begin, entry->begin + entry->bytes);
}

/* The length field is written too. Returns the bytes of both, a multiple of 8, so that the data are aligned. */
static size_t build_header(struct snapshot *snapshot, const struct snapshot_position *position, uint64_t checksum)
{
	const char *config = snapshot->executor->plan->config_lines;
	char *out = snapshot->header + SAFETENSORS_LENGTH_BYTES;
	out = put(out,
		  "{\"" SAFETENSORS_METADATA "\":{\"tarn.version\":\"" SNAPSHOT_VERSION "\",\"tarn.epoch\":\"%" PRIu32
		  "\",\"tarn.batch\":\"%" PRIu32 "\",",
		  position->epoch, position->batch);
	out = put(out,
		  "\"tarn.step\":\"%" PRIu64 "\",\"tarn.seed\":\"%" PRIu64 "\",\"tarn.checksum\":\"%016" PRIx64 "\",",
		  position->step, position->seed, checksum);
	out = put(out, "\"tarn.batch_size\":\"%" PRIu32 "\",\"tarn.samples\":\"%" PRIu32 "\",", position->batch_size,
		  position->samples);
	out = put(out, "\"tarn.position_checksum\":\"%016" PRIx64 "\",",
		  snapshot_position_checksum(position, checksum));
	out = put(out, "\"tarn.config\":");
	out += safetensors_quote(out, config ? config : "");
	*out++ = '}';
	for (uint32_t i = 0; i < snapshot->entries; i++)
		out = put_entry(out, &snapshot->entry[i]);
	*out++ = '}';
	while ((out - snapshot->header) % 8)
		*out++ = ' ';
	uint64_t length = (uint64_t)(out - snapshot->header) - SAFETENSORS_LENGTH_BYTES;
	memcpy(snapshot->header, &length, sizeof length);
	return (size_t)(out - snapshot->header);
}

static enum tarn_status write_file(struct snapshot *snapshot, size_t header_bytes)
{
	int fd = open(snapshot->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		return tarn_fail(TARN_EIO, "snapshot %s: cannot create: %s", snapshot->temporary, strerror(errno));
	enum tarn_status st = write_all(fd, snapshot->temporary, snapshot->header, header_bytes);
	if (!st)
		st = stream_entries(snapshot, fd);
	if (!st && fsync(fd))
		st = tarn_fail(TARN_EIO, "snapshot %s: cannot sync: %s", snapshot->temporary, strerror(errno));
	if (close(fd) && !st)
		st = tarn_fail(TARN_EIO, "snapshot %s: cannot close: %s", snapshot->temporary, strerror(errno));
	return st;
}

/* Names survive a power cut only when their directory was synced too. */
static enum tarn_status sync_directory(const struct snapshot *snapshot)
{
	int fd = open(snapshot->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool done = fd >= 0 && (!fsync(fd) || errno == EINVAL);
	int reason = errno;
	if (fd >= 0)
		close(fd);
	return done ? TARN_OK
		    : tarn_fail(TARN_EIO, "snapshot %s: cannot sync its directory: %s", snapshot->path,
				strerror(reason));
}

/* The complete temporary file takes the name; what had it becomes `previous`. */
static enum tarn_status publish(const struct snapshot *snapshot)
{
	if (unlink(snapshot->previous) && errno != ENOENT)
		return tarn_fail(TARN_EIO, "snapshot %s: cannot be replaced: %s", snapshot->previous, strerror(errno));
	if (link(snapshot->path, snapshot->previous) && errno != ENOENT && rename(snapshot->path, snapshot->previous))
		return tarn_fail(TARN_EIO, "snapshot %s: cannot be kept as %s: %s", snapshot->path, snapshot->previous,
				 strerror(errno));
	if (rename(snapshot->temporary, snapshot->path))
		return tarn_fail(TARN_EIO, "snapshot %s: cannot be renamed to %s: %s", snapshot->temporary,
				 snapshot->path, strerror(errno));
	return sync_directory(snapshot);
}

enum tarn_status snapshot_save(struct snapshot *snapshot, const char *path, const struct snapshot_position *position)
{
	XXH64_reset(snapshot->hash, 0);
	enum tarn_status st = make_paths(snapshot, path);
	if (!st)
		st = stream_entries(snapshot, -1);
	if (st)
		return st;
	size_t header_bytes = build_header(snapshot, position, XXH64_digest(snapshot->hash));
	st = write_file(snapshot, header_bytes);
	if (!st)
		st = publish(snapshot);
	if (st)
		unlink(snapshot->temporary);
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
		enum tarn_status st = stream_entry(snapshot, entry, -1);
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

/* Names, dtypes and shapes are those of the network. */
static enum tarn_status compare(const struct snapshot *snapshot, const struct snapshot_file *file)
{
	struct listing missing = { .count = 0 }, extra = { .count = 0 }, wrong = { .count = 0 };
	char name[SAFETENSORS_PRINTABLE], got[SHAPE_TEXT + 8], want[SHAPE_TEXT];
	for (uint32_t i = 0; i < snapshot->entries; i++) {
		const struct entry *entry = snapshot->named[i];
		const struct safetensors_tensor *found = safetensors_find(&file->content, entry->name);
		if (!found)
			list(&missing, "%s", safetensors_printable(entry->name, name));
		else if (!same_kind(entry, found))
			list(&wrong, "%s (file %s, network %s %s)", safetensors_printable(entry->name, name),
			     kind_of(found, got, sizeof got), format_dtype[entry->tensor->dtype],
			     shape_format(entry->tensor->dim, entry->tensor->rank, want, sizeof want));
	}
	for (size_t i = 0; i < file->content.tensors; i++) {
		const char *found = file->content.tensor[i].name;
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
	uint64_t begin = file->data_begin + safetensors_find(&file->content, entry->name)->begin;
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

/* "path.previous", when such a file exists. */
static const char *find_previous(struct snapshot *snapshot, const char *path)
{
	const char *previous = host_arena_printf(snapshot->arena, "%s.previous", path);
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
