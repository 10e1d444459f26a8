/* driver.c - the drivers of this build. */
#include "driver.h"

#include <stdio.h>
#include <string.h>

#ifdef CONFIG_DRIVER_CPU
extern const struct driver_ops cpu_driver;
#endif
#ifdef CONFIG_DRIVER_CUDA
extern const struct driver_ops cuda_driver;
#endif
#ifdef CONFIG_DRIVER_NULL
extern const struct driver_ops null_driver;
#endif

const struct driver_ops *const driver_table[] = {
#ifdef CONFIG_DRIVER_CPU
	&cpu_driver,
#endif
#ifdef CONFIG_DRIVER_CUDA
	&cuda_driver,
#endif
#ifdef CONFIG_DRIVER_NULL
	&null_driver,
#endif
	NULL /* C has no empty arrays: a build without drivers still compiles */
};
const uint32_t driver_table_count = (uint32_t)(sizeof driver_table / sizeof *driver_table) - 1;

const struct driver_ops *driver_find(const char *name)
{
	char list[128] = "none";
	size_t length = 0;
	for (uint32_t i = 0; i < driver_table_count; i++) {
		if (!strcmp(driver_table[i]->name, name))
			return driver_table[i];
		if (length < sizeof list)
			length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", i ? ", " : "",
						   driver_table[i]->name);
	}
	tarn_fail(TARN_EUNSUPPORTED, "there is no driver \"%s\" in this build; it has: %s", name, list);
	return NULL;
}
