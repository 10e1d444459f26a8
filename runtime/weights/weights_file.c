/* weights_file.c - see weights_file.h. */
#include "weights/weights_file.h"

#include "base/regular_file.h"
#include "data/array.h"

#include <string.h>
#include <unistd.h>

/* The names that safetensors has for the types that npy files are read with. */
static const char *const array_dtype[] = {
	[ARRAY_U8] = "U8",   [ARRAY_I8] = "I8",   [ARRAY_U16] = "U16", [ARRAY_I16] = "I16", [ARRAY_U32] = "U32",
	[ARRAY_I32] = "I32", [ARRAY_U64] = "U64", [ARRAY_I64] = "I64", [ARRAY_F32] = "F32",
};

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), bytes = strlen(end);
	return length >= bytes && !strcmp(text + length - bytes, end);
}

/* ---- npz ---- */

/* The member's own header; the stream then stands at its first element. */
static enum tarn_status open_member(const struct weights_file *file, const struct zip_member *member,
				    struct array_header *header, uint64_t *header_bytes)
{
	uint8_t head[ARRAY_MAX_HEADER];
	size_t bytes = 0;
	enum tarn_status st = stream_open_part(file->stream, file->path, member->name, &member->part);
	if (!st)
		st = stream_read(file->stream, head, 12);
	if (!st)
		st = npy_header_bytes(head, 12, &bytes);
	if (!st)
		st = stream_read(file->stream, head + 12, bytes - 12);
	if (!st)
		st = npy_parse_any(head, bytes, header);
	*header_bytes = bytes;
	return st;
}

static enum tarn_status take_member(const struct weights_file *file, const struct zip_member *member,
				    struct host_arena *arena, struct weights_tensor *out)
{
	struct array_header header;
	uint64_t header_bytes = 0;
	if (ends_with(member->name, "data.pkl"))
		return tarn_fail(TARN_EUNSUPPORTED,
				 "is a pickle of PyTorch, which is a program and is not run here; write it with "
				 "safetensors.torch.save_file(model.state_dict(), FILE)");
	enum tarn_status st = open_member(file, member, &header, &header_bytes);
	stream_close(file->stream);
	if (!st && (header.type == ARRAY_OTHER || header.big_endian))
		st = tarn_fail(TARN_EUNSUPPORTED, "elements of type %s; float32 (<f4) is read", header.name);
	if (!st && header_bytes + header.bytes != member->part.unpacked_bytes)
		st = tarn_fail(TARN_EFORMAT, "%llu bytes unpacked, but the header stands for %llu",
			       (unsigned long long)member->part.unpacked_bytes,
			       (unsigned long long)(header_bytes + header.bytes));
	if (st)
		return tarn_fail_prefix(st, "%s", member->name);
	*out = (struct weights_tensor){ .dtype = array_dtype[header.type],
					.rank = header.rank,
					.bytes = header.bytes,
					.part = member->part,
					.header_bytes = header_bytes };
	for (uint32_t i = 0; i < header.rank; i++)
		out->dim[i] = header.dim[i];
	size_t length = strlen(member->name) - (ends_with(member->name, ".npy") ? 4 : 0);
	out->name = host_arena_text_n(arena, member->name, length);
	return out->name ? TARN_OK : TARN_ENOMEM;
}

static enum tarn_status open_archive(struct weights_file *file, struct host_arena *arena)
{
	struct zip_member *member;
	file->archive = true;
	file->stream = HOST_NEW(arena, struct data_stream);
	if (!file->stream)
		return TARN_ENOMEM;
	enum tarn_status st = zip_list(file->path, arena, &member, &file->tensors);
	if (st)
		return st;
	file->tensor = HOST_ARRAY(arena, file->tensors + 1u, struct weights_tensor);
	if (!file->tensor)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < file->tensors && !st; i++) {
		st = take_member(file, &member[i], arena, &file->tensor[i]);
		for (uint32_t k = 0; k < i && !st; k++)
			if (!strcmp(file->tensor[k].name, file->tensor[i].name))
				st = tarn_fail(TARN_EFORMAT, "the array %s is there twice", file->tensor[i].name);
	}
	return st ? tarn_fail_prefix(st, "%s", file->path) : TARN_OK;
}

/* ---- safetensors ---- */

/* A snapshot is opened again, and proved. */
static enum tarn_status prove_snapshot(struct weights_file *file, struct host_arena *arena)
{
	uint8_t *buffer = HOST_ARRAY(arena, SNAPSHOT_BUFFER_BYTES, uint8_t);
	XXH64_state_t *hash = XXH64_createState();
	enum tarn_status st = buffer ? TARN_OK : TARN_ENOMEM;
	if (!st && !hash)
		st = tarn_fail(TARN_ENOMEM, "host memory: no state for XXH64");
	snapshot_file_close(&file->file);
	if (!st)
		st = snapshot_file_open(file->path, arena, hash, buffer, &file->file);
	XXH64_freeState(hash);
	return st;
}

static enum tarn_status open_safetensors(struct weights_file *file, struct host_arena *arena)
{
	enum tarn_status st = snapshot_file_open_header(file->path, arena, &file->file);
	if (st)
		return st;
	file->snapshot = safetensors_metadata(&file->file.content, "tarn.version") != NULL;
	if (file->snapshot)
		st = prove_snapshot(file, arena);
	if (st)
		return st;
	const struct safetensors *content = &file->file.content;
	file->tensor = HOST_ARRAY(arena, content->tensors + 1, struct weights_tensor);
	if (!file->tensor)
		return TARN_ENOMEM;
	for (size_t i = 0; i < content->tensors; i++) {
		const struct safetensors_tensor *from = &content->tensor[i];
		struct weights_tensor *to = &file->tensor[file->tensors++];
		*to = (struct weights_tensor){ .name = from->name,
					       .dtype = from->dtype,
					       .rank = from->rank,
					       .bytes = from->end - from->begin,
					       .offset = file->file.data_begin + from->begin };
		memcpy(to->dim, from->dim, sizeof to->dim);
	}
	return TARN_OK;
}

static enum tarn_status find_kind(const char *path, bool *archive)
{
	uint8_t head[4] = { 0 };
	uint64_t bytes;
	int fd;
	enum tarn_status st = regular_file_open(path, &fd, &bytes);
	if (st)
		return st;
	*archive = read(fd, head, sizeof head) == sizeof head && !memcmp(head, "PK\3\4", 4);
	close(fd);
	return TARN_OK;
}

enum tarn_status weights_file_open(const char *path, struct host_arena *arena, struct weights_file *file)
{
	bool archive;
	*file = (struct weights_file){ .path = path, .file = { .fd = -1 } };
	enum tarn_status st = find_kind(path, &archive);
	if (st)
		return st;
	return archive ? open_archive(file, arena) : open_safetensors(file, arena);
}

bool weights_file_is_foreign(const char *path, struct host_arena *scratch)
{
	struct host_mark mark = host_arena_mark(scratch);
	struct snapshot_file file;
	bool archive, foreign = false;
	enum tarn_status st = find_kind(path, &archive);
	if (!st && !archive) {
		st = snapshot_file_open_header(path, scratch, &file);
		foreign = !st && !safetensors_metadata(&file.content, "tarn.version");
		snapshot_file_close(&file);
	}
	host_arena_release(scratch, mark);
	if (st)
		tarn_error_clear();
	return !st && (archive || foreign);
}

void weights_file_close(struct weights_file *file)
{
	snapshot_file_close(&file->file);
}

const struct weights_tensor *weights_file_find(const struct weights_file *file, const char *name)
{
	for (uint32_t i = 0; i < file->tensors; i++)
		if (!strcmp(file->tensor[i].name, name))
			return &file->tensor[i];
	return NULL;
}

/* ---- elements ---- */

static enum tarn_status read_member(const struct weights_file *file, const struct weights_tensor *tensor, void *target)
{
	uint8_t head[ARRAY_MAX_HEADER];
	enum tarn_status st = stream_open_part(file->stream, file->path, tensor->name, &tensor->part);
	if (!st)
		st = stream_read(file->stream, head, (size_t)tensor->header_bytes);
	if (!st)
		st = stream_read(file->stream, target, (size_t)tensor->bytes);
	if (!st)
		st = stream_expect_end(file->stream);
	stream_close(file->stream);
	return st;
}

static enum tarn_status read_raw(const struct weights_file *file, const struct weights_tensor *tensor, void *target)
{
	return file->archive ? read_member(file, tensor, target)
			     : snapshot_file_read(&file->file, tensor->offset, target, tensor->bytes);
}

static float from_bits(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

/* IEEE 754 binary16: subnormal numbers are multiples of 2^-24. */
static float from_half(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31u, fraction = half & 1023u;
	if (exponent == 31)
		return from_bits(sign | 0x7F800000u | fraction << 13);
	if (exponent)
		return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
	return (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
}

enum tarn_status weights_file_read(const struct weights_file *file, const struct weights_tensor *tensor,
				   struct host_arena *scratch, float *target)
{
	const bool wide = !strcmp(tensor->dtype, "F64"), half = !strcmp(tensor->dtype, "F16"),
		   brain = !strcmp(tensor->dtype, "BF16");
	if (!strcmp(tensor->dtype, "F32"))
		return read_raw(file, tensor, target);
	if (!wide && !half && !brain)
		return tarn_fail(TARN_EUNSUPPORTED, "%s: %s holds %s; weights are read from F32, F64, F16 and BF16",
				 file->path, tensor->name, tensor->dtype);
	struct host_mark mark = host_arena_mark(scratch);
	void *raw = host_arena_alloc(scratch, tensor->bytes + 1, 1);
	enum tarn_status st = raw ? read_raw(file, tensor, raw) : TARN_ENOMEM;
	uint64_t count = tensor->bytes / (wide ? 8 : 2);
	for (uint64_t i = 0; i < count && !st; i++) {
		if (wide)
			target[i] = (float)((const double *)raw)[i];
		else if (half)
			target[i] = from_half(((const uint16_t *)raw)[i]);
		else
			target[i] = from_bits((uint32_t)((const uint16_t *)raw)[i] << 16);
	}
	host_arena_release(scratch, mark);
	return st;
}

enum tarn_status weights_file_read_count(const struct weights_file *file, const struct weights_tensor *tensor,
					 uint64_t *count)
{
	const bool small = !strcmp(tensor->dtype, "I32");
	int64_t value = 0;
	if ((!small && strcmp(tensor->dtype, "I64") != 0 && strcmp(tensor->dtype, "U64") != 0) ||
	    tensor->bytes != (small ? 4u : 8u))
		return tarn_fail(TARN_EUNSUPPORTED, "%s: %s holds %llu bytes of %s; one I64 is a number of batches",
				 file->path, tensor->name, (unsigned long long)tensor->bytes, tensor->dtype);
	enum tarn_status st = read_raw(file, tensor, &value);
	if (!st && (value < 0 || (small && value > INT32_MAX)))
		st = tarn_fail(TARN_EFORMAT, "%s: %s is negative; a number of batches is not", file->path,
			       tensor->name);
	if (!st)
		*count = (uint64_t)value;
	return st;
}
