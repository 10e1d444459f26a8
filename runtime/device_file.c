/* device_file.c - see device_file.h. JSON is YAML, so the YAML reader reads it. */
#include "device_file.h"

#include "base/regular_file.h"
#include "config/yaml_tree.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A description has less than 2 KiB. */
#define MAX_FILE_BYTES ((uint64_t)1 << 20)

static enum tarn_status read_number(const struct yaml_node *map, const char *key, double low, double high, double *out)
{
	const struct yaml_node *node = map->kind == YAML_MAP ? yaml_find(map, key) : NULL;
	if (!node)
		return yaml_fail(map, "\"%s\" is missing", key);
	return yaml_read_real(node, low, high, out);
}

static enum tarn_status read_text(const char *path, struct host_arena *arena, char **text)
{
	int fd;
	uint64_t bytes;
	enum tarn_status st = regular_file_open(path, &fd, &bytes);
	if (st)
		return st;
	if (bytes > MAX_FILE_BYTES)
		st = tarn_fail(TARN_EINVAL, "%s: %llu bytes are too many for a description of a device", path,
			       (unsigned long long)bytes);
	else
		*text = host_arena_alloc(arena, bytes + 1, 1);
	if (!st && !*text)
		st = TARN_ENOMEM;
	if (!st && read(fd, *text, bytes) != (ssize_t)bytes)
		st = tarn_fail(TARN_EIO, "%s: cannot read", path);
	close(fd);
	return st;
}

static enum tarn_status read_description(const struct yaml_node *root, struct device_description *description)
{
	double capability, multiprocessors, memory, float32, tf32, memory_rate, link, overhead;
	const struct yaml_node *name = root->kind == YAML_MAP ? yaml_find(root, "deviceName") : NULL;
	const struct yaml_node *own = root->kind == YAML_MAP ? yaml_find(root, "tarn") : NULL;
	if (!name || name->kind != YAML_SCALAR)
		return yaml_fail(root, "\"deviceName\" is missing");
	if (!own)
		return yaml_fail(root, "the map \"tarn\" is missing; see configs/devices for examples");
	const struct {
		const struct yaml_node *map;
		const char *key;
		double low, high, *value;
	} wanted[] = { { root, "deviceVer", 500, 2000, &capability },
		       { root, "multiProcessorCount", 1, 4096, &multiprocessors },
		       { root, "totalGlobalMem", 1 << 20, 1e15, &memory },
		       { own, "float32_tflops", 1e-3, 1e6, &float32 },
		       { own, "tf32_tflops", 1e-3, 1e6, &tf32 },
		       { own, "memory_gb_per_s", 1e-1, 1e6, &memory_rate },
		       { own, "link_gb_per_s", 1e-1, 1e6, &link },
		       { own, "overhead_mib", 0, 1e6, &overhead } };
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		enum tarn_status st =
			read_number(wanted[i].map, wanted[i].key, wanted[i].low, wanted[i].high, wanted[i].value);
		if (st)
			return st;
	}
	snprintf(description->name, sizeof description->name, "%s", name->text);
	description->capability = (uint32_t)(capability / 10.0);
	description->multiprocessors = (uint32_t)multiprocessors;
	description->memory_bytes = (uint64_t)memory;
	description->flops_per_ns = float32 * 1e3;
	description->tf32_flops_per_ns = tf32 * 1e3;
	description->bytes_per_ns = memory_rate;
	description->copy_bytes_per_ns = link;
	description->overhead_bytes = (uint64_t)(overhead * 1048576.0);
	return TARN_OK;
}

enum tarn_status device_file_load(const char *path, struct host_arena *arena, struct device_description *description)
{
	char *text = NULL;
	struct yaml_node *root;
	memset(description, 0, sizeof *description);
	enum tarn_status st = read_text(path, arena, &text);
	if (!st)
		st = yaml_parse(text, strlen(text), path, arena, &root);
	if (!st)
		st = read_description(root, description);
	description->json = text;
	return st;
}
