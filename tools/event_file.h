/*
 * event_file.h - scalars as TensorBoard reads them: an event file, one record an event.
 *
 * A record is its length (8 bytes, little-endian), the masked CRC-32C of the length, the event, the masked CRC-32C of
 * the event (TensorFlow's TFRecord). An event is a protocol buffer message; of tensorflow.Event, Summary and SessionLog
 * only the fields wall_time, step, file_version, summary.value.{tag, simple_value} and session_log.status are written.
 * A record is one write(); nothing here uses the heap.
 */
#ifndef TARN_TOOLS_EVENT_FILE_H
#define TARN_TOOLS_EVENT_FILE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define EVENT_SCALARS 16u
#define EVENT_TAG 40u /* characters of a tag, at most */

struct event_scalar {
	const char *tag;
	double value; /* not finite: left out */
};

struct event_file {
	int fd; /* -1: none is open */
	char path[4096];
};

/*
 * Makes the file (TARN_EIO) and writes the version that readers ask for. `first_step` above 0: the run goes on there,
 * and readers forget what other files of the folder say of later steps.
 */
enum tarn_status event_file_open(struct event_file *file, const char *path, uint64_t first_step);
enum tarn_status event_file_scalars(struct event_file *file, uint64_t step, const struct event_scalar *scalar,
				    uint32_t count);
void event_file_close(struct event_file *file);

/* CRC-32C (Castagnoli), reflected polynomial 0x82F63B78, as RFC 3720 has it. */
uint32_t event_crc32c(const void *data, size_t bytes);

#endif
