/* image_file.c - headers of images, and the values of PGM and PPM. */
#include "data/image_file.h"

#include <string.h>

#define PNG_SIGNATURE "\x89PNG\r\n\x1A\n"
#define PNG_SIGNATURE_BYTES ((size_t)8)
/* The signature and the first chunk, IHDR. */
#define PNG_HEADER_BYTES ((size_t)33)
/* As in stream.c: no deflate code stands for more. */
#define LARGEST_EXPANSION 1032u

enum png_color { PNG_GRAY = 0, PNG_RGB = 2, PNG_PALETTE = 3, PNG_GRAY_ALPHA = 4, PNG_RGB_ALPHA = 6 };

struct cursor {
	const uint8_t *at, *end;
};

static bool is_blank(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* A decimal number after blanks and comments. */
static bool take_number(struct cursor *c, uint32_t *number)
{
	while (c->at < c->end && (is_blank(*c->at) || *c->at == '#')) {
		bool comment = *c->at == '#';
		while (comment && c->at < c->end && *c->at != '\n' && *c->at != '\r')
			c->at++;
		c->at += c->at < c->end;
	}
	const uint8_t *first = c->at;
	uint32_t value = 0;
	while (c->at < c->end && *c->at >= '0' && *c->at <= '9' && value <= 10000000)
		value = value * 10 + (uint32_t)(*c->at++ - '0');
	*number = value;
	return c->at > first && value <= 10000000;
}

static enum tarn_status check_sides(uint32_t height, uint32_t width)
{
	if (height && width && height <= IMAGE_MAX_SIDE && width <= IMAGE_MAX_SIDE)
		return TARN_OK;
	return tarn_fail(TARN_EFORMAT, "an image of %u x %u pixels; 1 x 1 to %u x %u are read", height, width,
			 IMAGE_MAX_SIDE, IMAGE_MAX_SIDE);
}

static uint64_t values_of(const struct image_header *header)
{
	return (uint64_t)header->height * header->width * header->channels;
}

static enum tarn_status fail_room(const struct image_header *header, uint64_t file_bytes)
{
	return tarn_fail(TARN_EFORMAT, "truncated: %u x %u x %u values do not fit into a file of %llu bytes",
			 header->height, header->width, header->channels, (unsigned long long)file_bytes);
}

static enum tarn_status parse_pnm(const uint8_t *head, uint64_t file_bytes, struct image_header *header)
{
	size_t bytes = file_bytes < IMAGE_HEAD_BYTES ? (size_t)file_bytes : IMAGE_HEAD_BYTES;
	struct cursor c = { head + 2, head + bytes };
	uint8_t digit = head[1];
	if (digit == '1' || digit == '4' || digit == '7')
		return tarn_fail(TARN_EUNSUPPORTED,
				 "unsupported: P%c (bitmaps, PAM); gray (P2, P5) and colour (P3, P6) are read", digit);
	header->kind = IMAGE_PNM;
	header->channels = digit == '3' || digit == '6' ? 3 : 1;
	header->text = digit == '2' || digit == '3';
	if (!take_number(&c, &header->width) || !take_number(&c, &header->height) ||
	    !take_number(&c, &header->largest) || c.at == c.end || !is_blank(*c.at))
		return tarn_fail(TARN_EFORMAT,
				 "damaged header: P%c is followed by width, height and largest value within %zu bytes",
				 digit, bytes);
	enum tarn_status st = check_sides(header->height, header->width);
	if (st)
		return st;
	if (!header->largest || header->largest > 65535)
		return tarn_fail(TARN_EFORMAT, "largest value %u; 1 to 255 are read", header->largest);
	if (header->largest > 255)
		return tarn_fail(TARN_EUNSUPPORTED, "unsupported: 16 bits a value (largest %u); save 8 bits",
				 header->largest);
	header->data = (size_t)(c.at + 1 - head);
	uint64_t needed = header->text ? 2 * values_of(header) - 1 : values_of(header);
	return needed > file_bytes - header->data ? fail_room(header, file_bytes) : TARN_OK;
}

static uint32_t u32_at(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static enum tarn_status parse_png(const uint8_t *head, uint64_t file_bytes, struct image_header *header)
{
	if (file_bytes < PNG_HEADER_BYTES || u32_at(head + 8) != 13 || memcmp(head + 12, "IHDR", 4) != 0)
		return tarn_fail(TARN_EFORMAT, "damaged: a PNG file begins with an IHDR chunk of 13 bytes");
	uint8_t depth = head[24], color = head[25];
	header->kind = IMAGE_PNG;
	header->width = u32_at(head + 16);
	header->height = u32_at(head + 20);
	header->channels = color == PNG_GRAY ? 1 : 3;
	if (color == PNG_GRAY_ALPHA || color == PNG_RGB_ALPHA)
		return tarn_fail(TARN_EUNSUPPORTED,
				 "unsupported: an alpha channel; put the image on a background and save gray or RGB");
	if (color != PNG_GRAY && color != PNG_RGB && color != PNG_PALETTE)
		return tarn_fail(TARN_EFORMAT, "damaged: PNG colour type %u", color);
	if (depth == 16)
		return tarn_fail(TARN_EUNSUPPORTED, "unsupported: 16 bits a value; save 8 bits");
	if (depth != 8 && (color == PNG_RGB || (depth != 1 && depth != 2 && depth != 4)))
		return tarn_fail(TARN_EFORMAT, "damaged: PNG colour type %u with %u bits", color, depth);
	enum tarn_status st = check_sides(header->height, header->width);
	if (st)
		return st;
	uint64_t samples = (uint64_t)header->width * (color == PNG_RGB ? 3 : 1);
	uint64_t unpacked = header->height * ((samples * depth + 7) / 8 + 1);
	return unpacked / LARGEST_EXPANSION > file_bytes ? fail_room(header, file_bytes) : TARN_OK;
}

enum tarn_status image_parse(const uint8_t *head, uint64_t file_bytes, struct image_header *header)
{
	memset(header, 0, sizeof *header);
	if (file_bytes >= PNG_SIGNATURE_BYTES && !memcmp(head, PNG_SIGNATURE, PNG_SIGNATURE_BYTES))
		return parse_png(head, file_bytes, header);
	if (file_bytes > 2 && head[0] == 'P' && head[1] >= '1' && head[1] <= '7' &&
	    (is_blank(head[2]) || head[2] == '#'))
		return parse_pnm(head, file_bytes, header);
	if (file_bytes > 2 && head[0] == 0xFF && head[1] == 0xD8)
		return tarn_fail(TARN_EUNSUPPORTED, "unsupported: a JPEG image; convert it to PNG or PPM");
	return tarn_fail(TARN_EFORMAT, "neither PNG nor PGM or PPM (P2, P3, P5, P6)");
}

static uint8_t scale(uint32_t value, uint32_t largest)
{
	return (uint8_t)((value * 255 + largest / 2) / largest);
}

static enum tarn_status decode_pnm(const uint8_t *file, size_t bytes, const struct image_header *header,
				   uint8_t *pixels)
{
	struct cursor c = { file + header->data, file + bytes };
	uint64_t count = values_of(header);
	for (uint64_t i = 0; i < count; i++) {
		uint32_t value = 0;
		if (header->text && !take_number(&c, &value))
			return tarn_fail(TARN_EFORMAT, "byte %zu: value %llu of %llu is missing or no number",
					 (size_t)(c.at - file), (unsigned long long)i + 1, (unsigned long long)count);
		if (!header->text)
			value = *c.at++;
		if (value > header->largest)
			return tarn_fail(TARN_EFORMAT, "value %llu is %u; the header says at most %u",
					 (unsigned long long)i + 1, value, header->largest);
		pixels[i] = scale(value, header->largest);
	}
	while (header->text && c.at < c.end && is_blank(*c.at))
		c.at++;
	if (c.at != c.end)
		return tarn_fail(TARN_EFORMAT, "more bytes follow byte %zu, where the image should end",
				 (size_t)(c.at - file));
	return TARN_OK;
}

enum tarn_status image_decode(const uint8_t *file, size_t bytes, const struct image_header *header, uint8_t *pixels)
{
	return header->kind == IMAGE_PNG ? image_decode_png(file, bytes, header, pixels)
					 : decode_pnm(file, bytes, header, pixels);
}
