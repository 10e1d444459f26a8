/* fake_device.c - see fake_device.h. */
#include "support/fake_device.h"

#include "support/testing.h"

#include <string.h>

/* No ck_assert here: it calls the heap, which some tests count. */
static bool inside(const struct fake_device *fake, uint64_t offset, uint64_t bytes)
{
	return offset <= fake->plan.arena_bytes && bytes <= fake->plan.arena_bytes - offset;
}

static enum tarn_status fake_write(struct device *device, uint64_t offset, const void *source, uint64_t bytes)
{
	struct fake_device *fake = device->state;
	if (!inside(fake, offset, bytes))
		return tarn_fail(TARN_EINTERNAL, "the fake device's arena ends before this copy");
	memcpy(fake->memory + offset, source, bytes);
	fake->writes++;
	return TARN_OK;
}

static enum tarn_status fake_read(struct device *device, uint64_t offset, void *target, uint64_t bytes)
{
	struct fake_device *fake = device->state;
	if (!inside(fake, offset, bytes))
		return tarn_fail(TARN_EINTERNAL, "the fake device's arena ends before this copy");
	if (++fake->reads == fake->failing_read)
		return tarn_fail(TARN_EIO, "the fake device fails as it was told");
	memcpy(target, fake->memory + offset, bytes);
	return TARN_OK;
}

static enum tarn_status fake_synchronize(struct device *device)
{
	(void)device;
	return TARN_OK;
}

void fake_device_open(struct fake_device *fake, struct host_arena *arena)
{
	memset(fake, 0, sizeof *fake);
	fake->ops = (struct driver_ops){
		.name = "fake", .write = fake_write, .read = fake_read, .synchronize = fake_synchronize
	};
	fake->device.ops = &fake->ops;
	fake->device.state = fake;
	fake->executor.plan = &fake->plan;
	fake->executor.device = &fake->device;
	fake->plan.programs = 1;
	ck_assert_ok(graph_init(&fake->plan.program[0].graph, arena));
}

void fake_device_add(struct fake_device *fake, const char *name, enum tensor_role role, enum dtype dtype,
		     const uint32_t *dim, uint32_t rank)
{
	uint32_t tensor;
	ck_assert_ok(graph_add_persistent(&fake->plan.program[0].graph, name, role, dtype, dim, rank, &tensor));
}

void fake_device_finish(struct fake_device *fake, struct host_arena *arena)
{
	const struct graph *graph = &fake->plan.program[0].graph;
	fake->plan.persistent = HOST_ARRAY(arena, graph->tensors, struct persistent);
	ck_assert_ptr_nonnull(fake->plan.persistent);
	for (uint32_t i = 0; i < graph->tensors; i++) {
		const struct tensor *tensor = &graph->tensor[i];
		fake->plan.persistent[i] = (struct persistent){ .offset = fake->plan.arena_bytes,
								.bytes = tensor->bytes,
								.name = tensor->name,
								.tensor = i,
								.role = tensor->role,
								.dtype = tensor->dtype };
		fake->plan.arena_bytes += bytes_align(tensor->bytes);
	}
	fake->plan.persistents = graph->tensors;
	fake->memory = host_arena_alloc(arena, fake->plan.arena_bytes, 1);
	ck_assert_ptr_nonnull(fake->memory);
}

void fake_device_fill(struct fake_device *fake, uint64_t seed)
{
	struct testing_random random = { seed };
	for (uint64_t i = 0; i < fake->plan.arena_bytes; i++)
		fake->memory[i] = (uint8_t)testing_bits(&random);
}
