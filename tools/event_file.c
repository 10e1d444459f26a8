/* event_file.c - see event_file.h. Wire format: protobuf.dev/programming-guides/encoding. */
#include "event_file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Numbers of fields, from TensorFlow's event.proto and summary.proto. */
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION_LOG = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, SESSION_STATUS = 1, SESSION_START = 1 };
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

#define VALUE_BYTES (EVENT_TAG + 16)
#define MESSAGE_BYTES (64 + EVENT_SCALARS * (VALUE_BYTES + 4))

struct message {
	uint8_t data[MESSAGE_BYTES];
	size_t bytes;
};

uint32_t event_crc32c(const void *data, size_t bytes)
{
	const uint8_t *at = data;
	uint32_t crc = 0xFFFFFFFFu;
	for (size_t i = 0; i < bytes; i++) {
		crc ^= at[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
	}
	return ~crc;
}

/* A checksum of data that hold checksums is masked: rotated, and a constant added. */
static uint32_t masked_crc(const void *data, size_t bytes)
{
	uint32_t crc = event_crc32c(data, bytes);
	return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

static void put_little(uint8_t *at, uint64_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

static void add_fixed(struct message *m, uint64_t value, size_t bytes)
{
	put_little(m->data + m->bytes, value, bytes);
	m->bytes += bytes;
}

static void add_varint(struct message *m, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		m->data[m->bytes++] = (uint8_t)(value | 0x80);
	m->data[m->bytes++] = (uint8_t)value;
}

static void add_key(struct message *m, uint32_t field, uint32_t wire)
{
	add_varint(m, field << 3 | wire);
}

static void add_bytes(struct message *m, uint32_t field, const void *data, size_t bytes)
{
	add_key(m, field, WIRE_BYTES);
	add_varint(m, bytes);
	memcpy(m->data + m->bytes, data, bytes);
	m->bytes += bytes;
}

static void add_start(struct message *m, uint64_t step)
{
	struct timespec now;
	uint64_t bits;
	clock_gettime(CLOCK_REALTIME, &now);
	double seconds = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
	memcpy(&bits, &seconds, sizeof bits);
	m->bytes = 0;
	add_key(m, EVENT_WALL_TIME, WIRE_64);
	add_fixed(m, bits, sizeof bits);
	add_key(m, EVENT_STEP, WIRE_VARINT);
	add_varint(m, step);
}

static enum tarn_status write_record(struct event_file *file, const struct message *m)
{
	uint8_t record[MESSAGE_BYTES + 16];
	put_little(record, m->bytes, 8);
	put_little(record + 8, masked_crc(record, 8), 4);
	memcpy(record + 12, m->data, m->bytes);
	put_little(record + 12 + m->bytes, masked_crc(m->data, m->bytes), 4);
	ssize_t written = write(file->fd, record, m->bytes + 16);
	if (written != (ssize_t)m->bytes + 16)
		return tarn_fail(TARN_EIO, "%s: cannot write: %s", file->path, strerror(written < 0 ? errno : ENOSPC));
	return TARN_OK;
}

enum tarn_status event_file_open(struct event_file *file, const char *path, uint64_t first_step)
{
	static const char version[] = "brain.Event:2";
	static const uint8_t start[] = { SESSION_STATUS << 3 | WIRE_VARINT, SESSION_START };
	struct message m;
	snprintf(file->path, sizeof file->path, "%s", path);
	file->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (file->fd < 0)
		return tarn_fail(TARN_EIO, "%s: cannot create: %s", path, strerror(errno));
	add_start(&m, 0);
	add_bytes(&m, EVENT_VERSION, version, sizeof version - 1);
	enum tarn_status st = write_record(file, &m);
	if (st || !first_step)
		return st;
	add_start(&m, first_step + 1);
	add_bytes(&m, EVENT_SESSION_LOG, start, sizeof start);
	return write_record(file, &m);
}

enum tarn_status event_file_scalars(struct event_file *file, uint64_t step, const struct event_scalar *scalar,
				    uint32_t count)
{
	struct message summary = { .bytes = 0 }, m;
	for (uint32_t i = 0; i < count && i < EVENT_SCALARS; i++) {
		struct message value = { .bytes = 0 };
		float number = (float)scalar[i].value;
		uint32_t bits;
		if (!isfinite(number))
			continue;
		memcpy(&bits, &number, sizeof bits);
		add_bytes(&value, VALUE_TAG, scalar[i].tag, strnlen(scalar[i].tag, EVENT_TAG));
		add_key(&value, VALUE_SIMPLE, WIRE_32);
		add_fixed(&value, bits, sizeof bits);
		add_bytes(&summary, SUMMARY_VALUE, value.data, value.bytes);
	}
	add_start(&m, step);
	add_bytes(&m, EVENT_SUMMARY, summary.data, summary.bytes);
	return summary.bytes ? write_record(file, &m) : TARN_OK;
}

void event_file_close(struct event_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}
