/*
 * image_png.c - PNG through libpng.
 *
 * libpng ends a failed call with longjmp; everything that it changes lives in struct reader, so that nothing is lost
 * when that happens.
 */
#include "data/image_file.h"

#ifdef CONFIG_PNG

#include <png.h>
#include <setjmp.h>
#include <string.h>

struct reader {
	const uint8_t *file;
	size_t bytes, used;
	char reason[128]; /* why libpng gave up */
	jmp_buf failed;
};

static void on_error(png_structp png, png_const_charp message)
{
	struct reader *reader = png_get_error_ptr(png);
	strncpy(reader->reason, message, sizeof reader->reason - 1);
	longjmp(reader->failed, 1);
}

/* A chunk that does not matter was left out; what matters is an error. */
static void on_warning(png_structp png, png_const_charp message)
{
	(void)png;
	(void)message;
}

static void read_bytes(png_structp png, png_bytep out, size_t bytes)
{
	struct reader *reader = png_get_io_ptr(png);
	if (bytes > reader->bytes - reader->used)
		png_error(png, "the file ends inside the image");
	memcpy(out, reader->file + reader->used, bytes);
	reader->used += bytes;
}

/* Everything becomes 8-bit gray or RGB as `header` says. */
static void read_image(png_structp png, png_infop info, const struct image_header *header, uint8_t *pixels)
{
	png_set_user_limits(png, IMAGE_MAX_SIDE, IMAGE_MAX_SIDE);
	png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_WARN_DISCARD);
	png_read_info(png, info);
	if (png_get_valid(png, info, PNG_INFO_tRNS))
		png_error(png, "transparent colours are not supported; put the image on a background");
	if (png_get_color_type(png, info) == PNG_COLOR_TYPE_PALETTE)
		png_set_palette_to_rgb(png);
	else
		png_set_expand_gray_1_2_4_to_8(png);
	int passes = png_set_interlace_handling(png);
	png_read_update_info(png, info);
	size_t row = (size_t)header->width * header->channels;
	if (png_get_rowbytes(png, info) != row)
		png_error(png, "rows of another length than the header says");
	for (int pass = 0; pass < passes; pass++)
		for (uint32_t y = 0; y < header->height; y++)
			png_read_row(png, pixels + y * row, NULL);
	png_read_end(png, NULL);
}

enum tarn_status image_decode_png(const uint8_t *file, size_t bytes, const struct image_header *header, uint8_t *pixels)
{
	struct reader reader = { .file = file, .bytes = bytes };
	png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
	png_infop info = png ? png_create_info_struct(png) : NULL;
	enum tarn_status st = TARN_OK;
	if (!info)
		st = tarn_fail(TARN_ENOMEM, "libpng cannot start");
	else if (setjmp(reader.failed))
		st = tarn_fail(TARN_EFORMAT, "byte %zu: %s", reader.used, reader.reason);
	else {
		png_set_read_fn(png, &reader, read_bytes);
		read_image(png, info, header, pixels);
	}
	png_destroy_read_struct(&png, &info, NULL);
	return st;
}

#else

enum tarn_status image_decode_png(const uint8_t *file, size_t bytes, const struct image_header *header, uint8_t *pixels)
{
	(void)file;
	(void)bytes;
	(void)header;
	(void)pixels;
	return tarn_fail(TARN_EUNSUPPORTED, "this build reads no PNG images (CONFIG_PNG is off); convert them to PPM");
}

#endif
