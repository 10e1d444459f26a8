/* fuzz_config.c - any bytes as a configuration: an error of one line, or a run that lives through its own lines. */
#include "config/config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct host_arena arena;
	host_arena_init(&arena);
	struct config config, again;
	enum tarn_status st = config_parse((const char *)data, size, "fuzz.yaml", NULL, 0, &arena, &config);
	if (st ? st != TARN_EINVAL || !*tarn_error() || strchr(tarn_error(), '\n') != NULL
	       : config_from_lines(config_to_lines(&config, &arena), "lines", NULL, 0, &arena, &again) != TARN_OK)
		abort();
	/* The same bytes as lines and as an override. */
	char *text = host_arena_text_n(&arena, (const char *)data, size);
	st = config_from_lines(text, "lines", NULL, 0, &arena, &config);
	if (st == TARN_EINVAL || !st)
		st = config_defaults((const char *const *)&text, 1, &arena, &config);
	if (st && st != TARN_EINVAL)
		abort();
	host_arena_fini(&arena);
	return 0;
}
