/*
 * image_file.h - the bytes of one image: PGM and PPM (P2, P3, P5, P6) and PNG. Private to runtime/data.
 *
 * Netpbm: https://netpbm.sourceforge.net/doc/ppm.html and pgm.html; values of a largest value below 255 are scaled to
 * 0 .. 255 and rounded, 16 bits are refused. PNG: ISO/IEC 15948, decoded by libpng (CONFIG_PNG); gray and palettes of
 * fewer than 8 bits are expanded, alpha, transparent colours and 16 bits refused, colour spaces and gamma left alone.
 * The kind is found by content, never by name. Nothing is trusted: sizes are checked against the file's length before
 * they are used. Messages come without the file's name.
 */
#ifndef TARN_DATA_IMAGE_FILE_H
#define TARN_DATA_IMAGE_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum image_kind { IMAGE_PNM, IMAGE_PNG };

/* The header of a PGM or PPM file, with its comments, ends within so many bytes. */
#define IMAGE_HEAD_BYTES ((size_t)4096)
#define IMAGE_MAX_SIDE 65535u

struct image_header {
	uint32_t kind;                    /* enum image_kind */
	uint32_t height, width, channels; /* channels: 1 or 3 */
	uint32_t largest;                 /* PGM and PPM: what is white */
	bool text;                        /* P2, P3: values are written as decimal numbers */
	size_t data;                      /* PGM and PPM: where the values begin */
};

/*
 * `head` has the first min(file_bytes, IMAGE_HEAD_BYTES) bytes of a file. TARN_EFORMAT, or TARN_EUNSUPPORTED for images
 * of a kind not read here.
 */
enum tarn_status image_parse(const uint8_t *head, uint64_t file_bytes, struct image_header *header);

/* The whole file; `header` is what image_parse said of it. pixels: height x width x channels. */
enum tarn_status image_decode(const uint8_t *file, size_t bytes, const struct image_header *header, uint8_t *pixels);

/* image_decode for PNG (image_png.c). TARN_EUNSUPPORTED in a build without libpng. */
enum tarn_status image_decode_png(const uint8_t *file, size_t bytes, const struct image_header *header,
				  uint8_t *pixels);

#endif
