/*
 * fuzz_data.c - libFuzzer entry: no bytes of a data file or of a snapshot's header may crash a parser, and what a
 * parser accepts is as its header promises.
 *
 * The first byte of an input chooses: an IDX header, an npy header, a safetensors header, a whole file of either
 * array format (plain or gzip) that is opened and read to its end, the member a.npy of a zip archive, or an image.
 */
#include "data/array.h"
#include "data/image_file.h"
#include "data/zip.h"
#include "exec/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void check_array(enum tarn_status st, const struct array_header *header)
{
	if (st)
		return;
	require(header->rank >= 1 && header->rank <= ARRAY_MAX_RANK);
	unsigned __int128 bytes = array_type_bytes(header->type);
	for (uint32_t i = 0; i < header->rank; i++)
		bytes *= header->dim[i];
	require(bytes == header->bytes && header->bytes > 0);
}

/* What is accepted tiles the data, and every name can be found and quoted. */
static void try_safetensors(const uint8_t *data, size_t size)
{
	if (size < 2)
		return;
	struct host_arena arena;
	struct safetensors content;
	uint64_t data_bytes = (uint64_t)data[0] | (uint64_t)data[1] << 8, total = 0;
	size -= 2;
	char *header = malloc(size + 1);
	require(header != NULL);
	memcpy(header, data + 2, size);
	host_arena_init(&arena);
	if (!safetensors_parse(header, size, data_bytes, &arena, &content)) {
		for (size_t i = 0; i < content.tensors; i++) {
			const struct safetensors_tensor *tensor = &content.tensor[i];
			char printable[SAFETENSORS_PRINTABLE];
			char *quoted = host_arena_alloc(&arena, 6 * strlen(tensor->name) + 2, 1);
			require(quoted && safetensors_find(&content, tensor->name) == tensor);
			require(safetensors_quote(quoted, tensor->name) <= 6 * strlen(tensor->name) + 2);
			require(strlen(safetensors_printable(tensor->name, printable)) < SAFETENSORS_PRINTABLE);
			total += tensor->end - tensor->begin;
		}
		require(total == data_bytes);
	}
	host_arena_fini(&arena);
	free(header);
}

/* A file with these bytes; returns its descriptor, which the path names. */
static int make_file(const uint8_t *data, size_t size, char path[64])
{
	int fd = memfd_create("fuzz", 0);
	require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, 64, "/proc/self/fd/%d", fd);
	return fd;
}

/* Opens an array and reads it to its end. */
static void read_file(const struct array_file *file)
{
	static struct data_stream stream;
	struct array_header header;
	enum tarn_status st = array_open(&stream, file, &header);
	check_array(st, &header);
	uint8_t chunk[4096];
	for (uint64_t left = st ? 0 : header.bytes; left && !st;) {
		size_t step = left < sizeof chunk ? (size_t)left : sizeof chunk;
		st = stream_read(&stream, chunk, step);
		left -= step;
	}
	if (!st)
		stream_expect_end(&stream);
	stream_close(&stream);
}

static void try_file(const uint8_t *data, size_t size, bool npy)
{
	char path[64];
	int fd = make_file(data, size, path);
	read_file(&(struct array_file){ .path = path, .name = path, .npy = npy });
	close(fd);
}

/* A member that is found lies in the archive. */
static void try_zip(const uint8_t *data, size_t size)
{
	char path[64];
	struct host_arena arena;
	struct array_file file = { .path = path, .name = "archive", .npy = true, .is_member = true };
	int fd = make_file(data, size, path);
	host_arena_init(&arena);
	if (!zip_find(path, "a.npy", &arena, &file.part)) {
		require(file.part.offset + file.part.bytes <= size);
		read_file(&file);
	}
	host_arena_fini(&arena);
	close(fd);
}

/* What the header promises is all that is written. */
static void try_image(const uint8_t *data, size_t size)
{
	struct image_header header;
	if (image_parse(data, size, &header))
		return;
	uint64_t values = (uint64_t)header.height * header.width * header.channels;
	require(values > 0 && (header.channels == 1 || header.channels == 3));
	uint8_t *pixels = values > (1u << 24) ? NULL : malloc((size_t)values);
	if (pixels)
		image_decode(data, size, &header, pixels);
	free(pixels);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct array_header header;
	if (!size)
		return 0;
	uint8_t choice = data[0] % 7;
	data++;
	size--;
	tarn_error_clear();
	if (choice == 0)
		check_array(idx_parse(data, size, &header), &header);
	else if (choice == 1)
		check_array(npy_parse(data, size, &header), &header);
	else if (choice == 2)
		try_safetensors(data, size);
	else if (choice == 5)
		try_zip(data, size);
	else if (choice == 6)
		try_image(data, size);
	else
		try_file(data, size, choice == 4);
	return 0;
}
