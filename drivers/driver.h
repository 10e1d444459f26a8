/*
 * driver.h - a device as a table of functions.
 *
 * The runtime knows no device beyond this table. Order of calls: open; compile for each distinct op (before planning:
 * it says workspace and cost); reserve once; bind for each instruction; then, in the step loop, only write, launch,
 * read, synchronize. Nothing after the last bind allocates, on the host or on the device, as far as the driver's own
 * code is concerned.
 *
 * Offsets and sizes are bytes in the device's one arena. A kernel choice is a pure function of the op's signature
 * (kind, attributes, shapes), the number of threads and the workspace cap, so that results do not depend on the plan.
 */
#ifndef TARN_DRIVER_H
#define TARN_DRIVER_H

#include "base/host_arena.h"
#include "graph/graph.h"

/* Copies between arena and host region that may be in flight at the same time. */
#define DRIVER_COPY_SLOTS 64u

struct driver_ops;
struct kernel;      /* a compiled op; private to the driver, owned by the device */
struct bound_instr; /* a kernel with resolved addresses; private to the driver, owned by the device */

struct device {
	const struct driver_ops *ops;
	void *state; /* private to the driver */
	uint64_t arena_bytes;
	struct host_arena *host; /* boot memory, borrowed for the device's life */
};

struct device_options {
	uint32_t threads;       /* 0: all cores */
	uint64_t workspace_cap; /* largest workspace that a library kernel may ask for; UINT64_MAX: no limit */
};

struct kernel_info {
	uint64_t workspace_bytes; /* needed while it runs; multiple of TARN_ALIGNMENT */
	uint64_t cost_ns;         /* estimate */
};

struct driver_ops {
	const char *name;
	/* Can this driver run here? TARN_EUNSUPPORTED with what is missing. */
	enum tarn_status (*probe)(void);
	enum tarn_status (*open)(struct device *device, const struct device_options *options);
	/* Safe after a failed open. */
	void (*close)(struct device *device);
	/* Threads it really uses (device_options.threads resolved). */
	uint32_t (*threads)(const struct device *device);
	/* Boot: chooses a kernel for one op. Same signature, same kernel (cached). Touches no arena. */
	enum tarn_status (*compile)(struct device *device, const struct graph *graph, uint32_t op,
				    struct kernel **kernel, struct kernel_info *info);
	/*
	 * Boot, once: the arena, `bytes` long, one reservation with guard pages around it, every page touched and
	 * filled with 0xFF. `memory` not NULL: the caller's own region, at least `bytes` + TARN_ALIGNMENT - 1 long; the
	 * arena starts at its first aligned byte.
	 */
	enum tarn_status (*reserve)(struct device *device, uint64_t bytes, void *memory);
	/* Boot: resolves addresses. operand_offset: inputs, then outputs, as in the graph. */
	enum tarn_status (*bind)(struct device *device, const struct graph *graph, uint32_t op, struct kernel *kernel,
				 const uint64_t *operand_offset, uint64_t workspace_offset, struct bound_instr **instr);
	/* Step: queues in order and returns. */
	enum tarn_status (*launch)(struct device *device, struct bound_instr *instr);
	/* Copies between host memory and the arena; ordered with launches. */
	enum tarn_status (*write)(struct device *device, uint64_t offset, const void *source, uint64_t bytes);
	enum tarn_status (*read)(struct device *device, uint64_t offset, void *target, uint64_t bytes);
	/* Fills a range with 0xFF bytes (NaN): debug builds poison dead ranges. */
	enum tarn_status (*poison)(struct device *device, uint64_t offset, uint64_t bytes);
	enum tarn_status (*synchronize)(struct device *device);
	/* Address of an offset for zero-copy filling of staging slots; NULL when the host cannot reach the arena. */
	void *(*host_address)(struct device *device, uint64_t offset);
	/* Measured: one past the highest byte of the arena that no longer holds the 0xFF of reserve. */
	uint64_t (*touched_bytes)(struct device *device);
	/*
	 * Offload. Boot, once, after reserve and only when something is offloaded: a region of host memory, `bytes`
	 * long and touched, that tensors are copied to and from (pinned memory on a GPU).
	 */
	enum tarn_status (*reserve_host)(struct device *device, uint64_t bytes);
	/*
	 * Step: queue a copy from the arena to the host region, or back, and return. It starts when everything launched
	 * before is done (a fetch also when the store of the same host bytes is) and runs beside what is launched
	 * after. `slot` < DRIVER_COPY_SLOTS names the copy until its wait; then it may be used again.
	 */
	enum tarn_status (*store)(struct device *device, uint64_t offset, uint64_t host_offset, uint64_t bytes,
				  uint32_t slot);
	enum tarn_status (*fetch)(struct device *device, uint64_t offset, uint64_t host_offset, uint64_t bytes,
				  uint32_t slot);
	/* Step: what is launched later starts after the copy of this slot is complete. */
	enum tarn_status (*wait)(struct device *device, uint32_t slot);
	/* Estimate for the planner: bytes a second of such a copy, in one direction. */
	uint64_t (*copy_bandwidth)(const struct device *device);
};

/* Registered drivers of this build. driver_find: NULL after tarn_fail(TARN_EUNSUPPORTED) that lists what there is. */
const struct driver_ops *driver_find(const char *name);
extern const struct driver_ops *const driver_table[];
extern const uint32_t driver_table_count;

#endif
