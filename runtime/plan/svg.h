/*
 * svg.h - the few SVG elements that draw.c needs. Coordinates are pixels, y downwards. Private to plan/.
 *
 * Text is escaped on its way out: whatever bytes a name has, the result is well-formed XML.
 */
#ifndef TARN_PLAN_SVG_H
#define TARN_PLAN_SVG_H

#include <stdint.h>
#include <stdio.h>

struct svg_box {
	double x, y, width, height;
};

/* Markup characters as entities; bytes that XML does not allow, and broken UTF-8, as '?'. At most `most` characters. */
void svg_escape(FILE *out, const char *text, size_t most);

/* Number of characters (not bytes) of the text. */
size_t svg_length(const char *text);

/* The text with at most `most` characters, the last one an ellipsis where it is longer. Returns `out`. */
#define SVG_SHORT 400
const char *svg_shorten(const char *text, size_t most, char out[SVG_SHORT]);

/* `classes` are those of the style sheet; the box gets a hover text when `hover` is not NULL. */
void svg_rectangle(FILE *out, const char *classes, struct svg_box box, const char *hover);
void svg_line(FILE *out, const char *classes, double x1, double y1, double x2, double y2);
void svg_text(FILE *out, const char *classes, double x, double y, const char *text);

#endif
