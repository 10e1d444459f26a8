/*
 * page.h - one self-contained HTML page: style, a little script, nothing from elsewhere.
 *
 * Light and dark follow the reader's system; on a narrow screen cards stand below one another. The script shows the
 * values of charts where the reader points, and the names of buffers of an arena; without it all is there but that.
 */
#ifndef TARN_TOOLS_PAGE_H
#define TARN_TOOLS_PAGE_H

#include <stdio.h>

/* Texts are escaped. page_close ends what page_open began. */
void page_open(FILE *out, const char *title, const char *subtitle);
void page_close(FILE *out);

/* A row of figures: page_tile between the two others. `note` may be "". */
void page_tiles_open(FILE *out);
void page_tile(FILE *out, const char *label, const char *value, const char *note);
void page_tiles_close(FILE *out);

#endif
