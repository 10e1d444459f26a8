/* plan_page.c - see plan_page.h. */
#include "plan_page.h"
#include "page.h"

#include "base/atomic_file.h"
#include "base/bytes.h"

#include <stdio.h>

const char *plan_page_subtitle(const struct tarn_plan_info *info, char *buffer, size_t size)
{
	size_t used = (size_t)snprintf(buffer, size, "%llu parameters, batches of %u samples of ",
				       (unsigned long long)info->parameter_count, info->batch);
	for (uint32_t d = 0; d < info->sample_rank && used < size; d++)
		used += (size_t)snprintf(buffer + used, size - used, "%s%u", d ? "\u00d7" : "", info->sample_dim[d]);
	if (used < size)
		snprintf(buffer + used, size - used, " \u00b7 %s driver, %u thread%s \u00b7 recompute: %s%s%s",
			 info->driver, info->threads, info->threads == 1 ? "" : "s", info->strategy,
			 info->device[0] ? " \u00b7 " : "", info->device);
	return buffer;
}

void plan_page_tiles(const struct tarn_plan_info *info, FILE *out)
{
	char value[64], note[96];
	bool limited = info->budget_bytes != UINT64_MAX;
	page_tiles_open(out);
	page_tile(out, "budget", limited ? bytes_format(info->budget_bytes, value, sizeof value) : "unlimited",
		  "hard, reserved at boot");
	snprintf(note, sizeof note, limited ? "%.1f %% of the budget" : "live at once",
		 100 * (double)info->peak_bytes / (double)info->budget_bytes);
	page_tile(out, "planned peak", bytes_format(info->peak_bytes, value, sizeof value), note);
	snprintf(note, sizeof note, "this plan needs %.1f %%",
		 100 * (double)info->peak_bytes / (double)info->none_peak_bytes);
	page_tile(out, "keeping everything", bytes_format(info->none_peak_bytes, value, sizeof value), note);
	page_tile(out, "smallest budget", bytes_format(info->min_budget_bytes, value, sizeof value),
		  "that plans this way");
	snprintf(value, sizeof value, "%.2f ms", (double)info->step_ns * 1e-6);
	snprintf(note, sizeof note, "at most %.2f %% above the best", 100 * info->gap);
	page_tile(out, "planned step", value, info->gap > 0 ? note : "no plan here is faster");
	snprintf(value, sizeof value, "%.1f %%", 100 * info->overhead);
	snprintf(note, sizeof note, "%u ops run again", info->recomputed_ops);
	page_tile(out, "extra compute", value, note);
	page_tiles_close(out);
}

enum tarn_status plan_page_write(const struct tarn_session *session, const char *path)
{
	struct tarn_plan_info info;
	struct atomic_file file;
	char subtitle[512];
	FILE *out;
	enum tarn_status st = atomic_file_open_stream(&file, path, &out);
	if (st)
		return st;
	tarn_plan_info(session, &info);
	page_open(out, info.name, plan_page_subtitle(&info, subtitle, sizeof subtitle));
	plan_page_tiles(&info, out);
	fputs("<div class=\"cards\">\n", out);
	st = tarn_plan_html(session, out);
	fputs("</div>\n", out);
	page_close(out);
	return atomic_file_close_stream(&file, out, st);
}
