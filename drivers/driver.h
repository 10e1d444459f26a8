/*
 * driver.h - a device as a table of functions.
 *
 * The runtime knows no device beyond this table. Order of calls: open; compile for each distinct op (before planning:
 * it says workspace and cost); reserve once; bind for each instruction; then, in the step loop, only write, launch,
 * read, synchronize. Nothing after the last bind allocates, on the host or on the device, as far as the driver's own
 * code is concerned.
 *
 * A device with memory of its own keeps more on it than the arena (context, code, handles): `overhead` measures that
 * between compile and reserve, so that the budget bounds the sum. Its boot goes on after the last bind with a warm-up,
 * then capture, then freeze; after freeze the memory in use never changes.
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
struct replay;      /* a recorded sequence of launches; private to the driver, owned by the device */
struct kernel;      /* a compiled op; private to the driver, owned by the device */
struct bound_instr; /* a kernel with resolved addresses; private to the driver, owned by the device */

struct device {
	const struct driver_ops *ops;
	void *state; /* private to the driver */
	uint64_t arena_bytes;
	struct host_arena *host; /* boot memory, borrowed for the device's life */
	/*
	 * Set by open: device and library versions, where kernel choice depends on them; NULL where it does not. A plan
	 * runs only where this is the same. Lives in `host`.
	 */
	const char *identity;
};

struct device_options {
	uint32_t threads;       /* 0: all cores */
	uint64_t workspace_cap; /* largest workspace that a library kernel may ask for; UINT64_MAX: no limit */
	uint64_t reserve_bytes; /* device memory kept out of the arena for what is not known before it, see overhead */
	bool tf32;              /* matrix products and convolutions may round their factors to 10 bits of mantissa */
	/* A device that is not there, only to plan for it; NULL: the one of this machine. Borrowed for the device's
	 * life. */
	const struct device_description *description;
};

/* A device in figures, read from a file (config/device_file.h) or from the device itself. */
struct device_description {
	char name[64];
	uint32_t capability; /* 90 for compute capability 9.0 */
	uint32_t multiprocessors;
	uint64_t memory_bytes;
	double flops_per_ns; /* peak of float32; of tf32 where that is allowed */
	double tf32_flops_per_ns;
	double bytes_per_ns;      /* peak of its memory */
	double copy_bytes_per_ns; /* of the link to the host, one direction */
	uint64_t overhead_bytes;  /* expected outside the arena: context, code, handles; 0 where it is measured */
	const char *json;         /* the whole description as JSON text, for libraries that plan without a device */
};

struct kernel_info {
	uint64_t workspace_bytes; /* needed while it runs; multiple of TARN_ALIGNMENT */
	uint64_t cost_ns;         /* estimate */
};

/* What the device holds beside the arena, before reserve. */
struct device_overhead {
	uint64_t bytes;      /* measured, or as described */
	uint64_t reserve;    /* set aside for what cannot be measured yet: code loaded at first use, recorded steps */
	uint64_t free_bytes; /* that the device still has; UINT64_MAX: unknown */
};

/* Where the bytes of the device went, stage by stage. */
#define DEVICE_LEDGER_LINES 12u
struct device_ledger {
	struct {
		const char *name;
		uint64_t bytes;
	} line[DEVICE_LEDGER_LINES];
	uint32_t lines;
	uint64_t rounding_bytes; /* in the arena's line: devices hand memory out in pieces of megabytes */
	uint64_t total_bytes;    /* all lines without the rounding: what the budget bounds */
};

typedef void driver_tell(void *context, const char *name, const char *text);

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
	/*
	 * Devices with memory of their own; NULL elsewhere. Boot, after the last compile and before reserve: what the
	 * device holds already. The budget bounds it together with the arena.
	 */
	enum tarn_status (*overhead)(struct device *device, struct device_overhead *overhead);
	/*
	 * Boot, after a warm-up: launches and copies between begin and end are recorded instead of run, and replay runs
	 * them all with one call. NULL: the device records nothing. capture_end returns TARN_EUNSUPPORTED, with the
	 * reason, when something cannot be recorded: the caller then launches one by one, with the same results.
	 */
	enum tarn_status (*capture_begin)(struct device *device);
	enum tarn_status (*capture_end)(struct device *device, struct replay **replay);
	enum tarn_status (*replay)(struct device *device, struct replay *replay);
	/*
	 * Boot, last: reads the ledger and refuses what exceeds `budget` (UINT64_MAX: none). TARN_EBUDGET: the sentence
	 * lists the stages and names the smallest budget that works. From here on debug builds check at every
	 * synchronize that the memory in use is what it was. NULL: nothing to measure.
	 */
	enum tarn_status (*freeze)(struct device *device, uint64_t budget);
	void (*ledger)(const struct device *device, struct device_ledger *ledger);
	/* For `tarn info`: tells what was found, thing by thing. NULL: nothing beyond probe. */
	void (*info)(driver_tell *tell, void *context);
};

/* Registered drivers of this build. driver_find: NULL after tarn_fail(TARN_EUNSUPPORTED) that lists what there is. */
const struct driver_ops *driver_find(const char *name);
extern const struct driver_ops *const driver_table[];
extern const uint32_t driver_table_count;

#endif
