/* svg.c - see svg.h. */
#include "plan/svg.h"

#include <stdbool.h>
#include <string.h>

/*
 * Length of the UTF-8 sequence that begins here; 0 when it is broken or XML does not allow the character. The smallest
 * value for each length keeps overlong forms out (RFC 3629); surrogates, U+FFFE and U+FFFF are not characters of
 * XML 1.0 (section 2.2).
 */
static size_t sequence_length(const unsigned char *text)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t length = text[0] < 0x80       ? 1
			: text[0] >> 5 == 6  ? 2
			: text[0] >> 4 == 14 ? 3
			: text[0] >> 3 == 30 ? 4
					     : 0;
	if (length <= 1)
		return length && text[0] >= 0x20 && text[0] != 0x7F ? 1 : 0;
	uint32_t value = text[0] & (0xFFu >> (length + 1));
	for (size_t i = 1; i < length; i++) {
		if (text[i] >> 6 != 2)
			return 0;
		value = value << 6 | (text[i] & 0x3Fu);
	}
	bool allowed = value >= least[length] && value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF) &&
		       (value & 0xFFFE) != 0xFFFE && value >= 0xA0;
	return allowed ? length : 0;
}

static void escape_character(FILE *out, const unsigned char *text, size_t length)
{
	if (!length)
		fputc('?', out);
	else if (*text == '&')
		fputs("&amp;", out);
	else if (*text == '<')
		fputs("&lt;", out);
	else if (*text == '>')
		fputs("&gt;", out);
	else if (*text == '"')
		fputs("&quot;", out);
	else
		fwrite(text, length, 1, out);
}

void svg_escape(FILE *out, const char *text, size_t most)
{
	const unsigned char *at = (const unsigned char *)text;
	for (size_t i = 0; *at && i < most; i++) {
		size_t length = sequence_length(at);
		escape_character(out, at, length);
		at += length ? length : 1;
	}
}

size_t svg_length(const char *text)
{
	size_t count = 0;
	for (const unsigned char *at = (const unsigned char *)text; *at; count++) {
		size_t length = sequence_length(at);
		at += length ? length : 1;
	}
	return count;
}

const char *svg_shorten(const char *text, size_t most, char out[SVG_SHORT])
{
	static const char ellipsis[] = "\u2026";
	const unsigned char *at = (const unsigned char *)text;
	bool cut = svg_length(text) > most;
	size_t used = 0;
	for (size_t i = 0; *at && i < (cut ? most - 1 : most); i++) {
		size_t length = sequence_length(at), bytes = length ? length : 1;
		if (used + bytes + sizeof ellipsis > SVG_SHORT)
			break;
		memcpy(out + used, at, bytes);
		used += bytes;
		at += bytes;
	}
	snprintf(out + used, SVG_SHORT - used, "%s", *at ? ellipsis : "");
	return out;
}

void svg_rectangle(FILE *out, const char *classes, struct svg_box box, const char *hover)
{
	fprintf(out, "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"", classes, box.x, box.y,
		box.width, box.height);
	if (!hover) {
		fputs("/>\n", out);
		return;
	}
	fputs("><title>", out);
	svg_escape(out, hover, SIZE_MAX);
	fputs("</title></rect>\n", out);
}

void svg_line(FILE *out, const char *classes, double x1, double y1, double x2, double y2)
{
	fprintf(out, "<line class=\"%s\" x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\"/>\n", classes, x1, y1, x2, y2);
}

void svg_text(FILE *out, const char *classes, double x, double y, const char *text)
{
	fprintf(out, "<text class=\"%s\" x=\"%.2f\" y=\"%.2f\">", classes, x, y);
	svg_escape(out, text, SIZE_MAX);
	fputs("</text>\n", out);
}
