/*
 * plan_page.h - a plan as a page (`tarn plan --html`), and its figures for other pages.
 */
#ifndef TARN_TOOLS_PLAN_PAGE_H
#define TARN_TOOLS_PLAN_PAGE_H

#include "tarn.h"

/* TARN_EIO; replaces `path` atomically. With the curve where tarn_plan_curve made it. */
enum tarn_status plan_page_write(const struct tarn_session *session, const char *path);

/* "batches of 16 samples of 128, cpu driver, 2 threads, recompute: auto". Returns buffer. */
const char *plan_page_subtitle(const struct tarn_plan_info *info, char *buffer, size_t size);

/* A row of tiles: peak, budget, time, recomputation. */
void plan_page_tiles(const struct tarn_plan_info *info, FILE *out);

#endif
