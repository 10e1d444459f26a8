/* snapshot_file.c - see snapshot_file.h. */
#include "exec/snapshot_file.h"

#include "base/regular_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum tarn_status snapshot_file_read(const struct snapshot_file *file, uint64_t offset, void *target, uint64_t bytes)
{
	uint8_t *at = target;
	while (bytes) {
		ssize_t got = pread(file->fd, at, bytes, (off_t)offset);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return tarn_fail(TARN_EIO, "%s: cannot read at byte %" PRIu64 ": %s", file->path, offset,
					 strerror(errno));
		if (!got)
			return tarn_fail(TARN_EFORMAT, "%s: truncated at byte %" PRIu64, file->path, offset);
		at += got;
		offset += (uint64_t)got;
		bytes -= (uint64_t)got;
	}
	return TARN_OK;
}

/* Reads and parses the header into `arena`. */
static enum tarn_status read_header(struct snapshot_file *file, struct host_arena *arena)
{
	uint64_t length;
	if (file->file_bytes < SAFETENSORS_LENGTH_BYTES)
		return tarn_fail(TARN_EFORMAT, "%s: truncated: %" PRIu64 " bytes, a snapshot has more than %u",
				 file->path, file->file_bytes, SAFETENSORS_LENGTH_BYTES);
	enum tarn_status st = snapshot_file_read(file, 0, &length, sizeof length);
	if (st)
		return st;
	if (!memcmp(&length, PLAN_MAGIC, sizeof length))
		return tarn_fail(TARN_EFORMAT, "%s: is a plan file, not a snapshot; run it with --plan", file->path);
	uint64_t room = file->file_bytes - SAFETENSORS_LENGTH_BYTES;
	if (length < 2 || length > room || length > SAFETENSORS_MAX_HEADER)
		return tarn_fail(TARN_EFORMAT,
				 "%s: truncated or no snapshot: the header length is %" PRIu64
				 " (bytes 0 to 7); it must be 2 to %" PRIu64,
				 file->path, length, room < SAFETENSORS_MAX_HEADER ? room : SAFETENSORS_MAX_HEADER);
	char *header = HOST_ARRAY(arena, length, char);
	if (!header)
		return TARN_ENOMEM;
	st = snapshot_file_read(file, SAFETENSORS_LENGTH_BYTES, header, length);
	if (st)
		return st;
	file->data_begin = SAFETENSORS_LENGTH_BYTES + length;
	st = safetensors_parse(header, length, room - length, arena, &file->content);
	return st ? tarn_fail_prefix(st, "%s", file->path) : TARN_OK;
}

/* A metadata number in base 10 or 16, at most `most`. */
static enum tarn_status read_number(const struct snapshot_file *file, const char *key, int base, uint64_t most,
				    uint64_t *number)
{
	const char *text = safetensors_metadata(&file->content, key);
	if (!text)
		return tarn_fail(TARN_EFORMAT, "%s: metadata \"%s\" is missing: not a snapshot of a run", file->path,
				 key);
	const char *digits = base == 16 ? "0123456789abcdef" : "0123456789";
	char *end, shown[SAFETENSORS_PRINTABLE];
	errno = 0;
	*number = strtoull(text, &end, base);
	if (!*text || strspn(text, digits) != strlen(text) || errno || *end || *number > most)
		return tarn_fail(TARN_EFORMAT, "%s: metadata \"%s\" is \"%s\"; a number up to %" PRIu64 " is expected",
				 file->path, key, safetensors_printable(text, shown), most);
	return TARN_OK;
}

static void add_text(XXH64_state_t *hash, const char *text)
{
	uint64_t length = strlen(text);
	XXH64_update(hash, &length, sizeof length);
	XXH64_update(hash, text, length);
}

void snapshot_header_checksum_begin(XXH64_state_t *hash, const struct snapshot_position *position, const char *config,
				    uint64_t checksum)
{
	const uint64_t number[] = { position->step,  position->seed,       position->epoch,
				    position->batch, position->batch_size, position->samples };
	XXH64_reset(hash, checksum);
	XXH64_update(hash, number, sizeof number);
	add_text(hash, config);
}

void snapshot_header_checksum_add(XXH64_state_t *hash, const struct safetensors_tensor *tensor)
{
	const uint64_t number[] = { tensor->begin, tensor->end, tensor->rank };
	add_text(hash, tensor->name);
	add_text(hash, tensor->dtype);
	XXH64_update(hash, number, sizeof number);
	XXH64_update(hash, tensor->dim, tensor->rank * sizeof tensor->dim[0]);
}

static enum tarn_status read_metadata(struct snapshot_file *file)
{
	uint64_t version, epoch, batch, batch_size, samples;
	enum tarn_status st = read_number(file, "tarn.version", 10, UINT64_MAX, &version);
	if (!st && version != SNAPSHOT_VERSION)
		st = tarn_fail(TARN_EFORMAT, "%s: snapshot version %" PRIu64 "; this program reads version %u",
			       file->path, version, SNAPSHOT_VERSION);
	if (!st)
		st = read_number(file, "tarn.epoch", 10, UINT32_MAX, &epoch);
	if (!st)
		st = read_number(file, "tarn.batch", 10, UINT32_MAX, &batch);
	if (!st)
		st = read_number(file, "tarn.batch_size", 10, UINT32_MAX, &batch_size);
	if (!st)
		st = read_number(file, "tarn.samples", 10, UINT32_MAX, &samples);
	if (!st)
		st = read_number(file, "tarn.step", 10, UINT64_MAX, &file->position.step);
	if (!st)
		st = read_number(file, "tarn.seed", 10, UINT64_MAX, &file->position.seed);
	if (!st)
		st = read_number(file, "tarn.checksum", 16, UINT64_MAX, &file->checksum);
	if (st)
		return st;
	file->config = safetensors_metadata(&file->content, "tarn.config");
	if (!file->config)
		return tarn_fail(TARN_EFORMAT, "%s: metadata \"tarn.config\" is missing: not a snapshot of a run",
				 file->path);
	file->position.epoch = (uint32_t)epoch;
	file->position.batch = (uint32_t)batch;
	file->position.batch_size = (uint32_t)batch_size;
	file->position.samples = (uint32_t)samples;
	return TARN_OK;
}

static enum tarn_status check_header(const struct snapshot_file *file, XXH64_state_t *hash)
{
	uint64_t wanted;
	enum tarn_status st = read_number(file, "tarn.header_checksum", 16, UINT64_MAX, &wanted);
	if (st)
		return st;
	snapshot_header_checksum_begin(hash, &file->position, file->config, file->checksum);
	for (size_t i = 0; i < file->content.tensors; i++)
		snapshot_header_checksum_add(hash, &file->content.tensor[i]);
	uint64_t found = XXH64_digest(hash);
	if (found != wanted)
		return tarn_fail(TARN_EFORMAT,
				 "%s: damaged: the header's content has checksum %016" PRIx64
				 ", the metadata say %016" PRIx64,
				 file->path, found, wanted);
	return TARN_OK;
}

static enum tarn_status check_data(const struct snapshot_file *file, XXH64_state_t *hash, uint8_t *buffer)
{
	XXH64_reset(hash, 0);
	for (uint64_t at = file->data_begin; at < file->file_bytes;) {
		uint64_t step =
			file->file_bytes - at < SNAPSHOT_BUFFER_BYTES ? file->file_bytes - at : SNAPSHOT_BUFFER_BYTES;
		enum tarn_status st = snapshot_file_read(file, at, buffer, step);
		if (st)
			return st;
		XXH64_update(hash, buffer, step);
		at += step;
	}
	uint64_t found = XXH64_digest(hash);
	if (found != file->checksum)
		return tarn_fail(TARN_EFORMAT,
				 "%s: damaged: the data from byte %" PRIu64 " have checksum %016" PRIx64
				 ", the header says %016" PRIx64,
				 file->path, file->data_begin, found, file->checksum);
	return TARN_OK;
}

enum tarn_status snapshot_file_open_header(const char *path, struct host_arena *arena, struct snapshot_file *file)
{
	*file = (struct snapshot_file){ .path = path, .fd = -1 };
	enum tarn_status st = regular_file_open(path, &file->fd, &file->file_bytes);
	return st ? st : read_header(file, arena);
}

enum tarn_status snapshot_file_open(const char *path, struct host_arena *arena, XXH64_state_t *hash, uint8_t *buffer,
				    struct snapshot_file *file)
{
	enum tarn_status st = snapshot_file_open_header(path, arena, file);
	if (!st)
		st = read_metadata(file);
	if (!st)
		st = check_header(file, hash);
	return st ? st : check_data(file, hash, buffer);
}

void snapshot_file_close(struct snapshot_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}

void whole_files_note(struct whole_files *files, const struct stat *status)
{
	uint32_t place = files->noted++ % WHOLE_FILES;
	files->file[place].device = status->st_dev;
	files->file[place].inode = status->st_ino;
	files->file[place].bytes = status->st_size;
	files->file[place].modified = status->st_mtim;
}

bool whole_files_hold(const struct whole_files *files, const char *path)
{
	struct stat status;
	bool found = false;
	if (stat(path, &status))
		return false;
	for (uint32_t i = 0; i < WHOLE_FILES && i < files->noted; i++)
		found |= files->file[i].device == status.st_dev && files->file[i].inode == status.st_ino &&
			 files->file[i].bytes == status.st_size &&
			 files->file[i].modified.tv_sec == status.st_mtim.tv_sec &&
			 files->file[i].modified.tv_nsec == status.st_mtim.tv_nsec;
	return found;
}
