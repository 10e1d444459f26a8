/*
 * warp_run.c - the order of execution: lanes of a warp, warps of a block, blocks of a grid.
 */
#include "warp.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Failures ---- */

static void fail_text(struct block *block, enum launch_error error, const struct ptx_instruction *instruction,
		      uint32_t thread, const char *format, va_list arguments)
{
	if (block->error)
		return;
	block->error = error;
	const struct launch *launch = block->launch;
	const uint32_t *size = launch->shape.block;
	int n = snprintf(block->message, block->message_bytes, "kernel %s, PTX line %u", block->kernel->name,
			 instruction ? instruction->line : 0);
	size_t used = (size_t)n;
	if (instruction && instruction->source_line && used < block->message_bytes)
		used += (size_t)snprintf(block->message + used, block->message_bytes - used, " (source line %u)",
					 instruction->source_line);
	if (used < block->message_bytes)
		used += (size_t)snprintf(block->message + used, block->message_bytes - used,
					 ", block (%u,%u,%u), thread (%u,%u,%u), %s: ", block->position[0],
					 block->position[1], block->position[2], thread % size[0],
					 thread / size[0] % size[1], thread / size[0] / size[1],
					 instruction ? instruction->mnemonic : "end");
	if (used < block->message_bytes)
		vsnprintf(block->message + used, block->message_bytes - used, format, arguments);
}

void warp_fail(struct warp *warp, const struct ptx_instruction *instruction, uint32_t lane, enum launch_error error,
	       const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fail_text(warp->block, error, instruction, warp->number * WARP_LANES + lane, format, arguments);
	va_end(arguments);
}

/* ---- Random numbers: SplitMix64 (Steele, Lea and Flood 2014) ---- */

static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9E3779B97F4A7C15u;
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	z = (z ^ z >> 27) * 0x94D049BB133111EBu;
	return z ^ z >> 31;
}

/* ---- Lanes ---- */

static uint32_t lanes_at(const struct warp *warp, uint32_t among, uint32_t next)
{
	uint32_t lanes = 0;
	for (uint32_t lane = 0; lane < WARP_LANES; lane++)
		if (among >> lane & 1 && warp->lane_next[lane] == next)
			lanes |= 1u << lane;
	return lanes;
}

static uint32_t lowest_next(const struct warp *warp, uint32_t among)
{
	uint32_t next = UINT32_MAX;
	for (; among; among &= among - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(among);
		if (warp->lane_next[lane] < next)
			next = warp->lane_next[lane];
	}
	return next;
}

static void set_next(struct warp *warp, uint32_t lanes, uint32_t next)
{
	for (; lanes; lanes &= lanes - 1)
		warp->lane_next[__builtin_ctz(lanes)] = next;
}

/* The group of lanes to run: the one that is furthest behind, or now and then any. */
static void choose_group(struct warp *warp)
{
	uint32_t next = lowest_next(warp, warp->ready);
	uint64_t *random = &warp->block->random;
	if (*random && lanes_at(warp, warp->ready, next) != warp->ready && draw(random) % 4 == 0) {
		uint32_t lane = (uint32_t)(draw(random) % WARP_LANES);
		while (!(warp->ready >> lane & 1))
			lane = (lane + 1) % WARP_LANES;
		next = warp->lane_next[lane];
	}
	warp->active = lanes_at(warp, warp->ready, next);
	warp->next = next;
}

/* The active lanes wait for others at instruction `next`. True: all have come, and go on. */
static bool meet(struct warp *warp, uint32_t next, uint32_t lanes)
{
	set_next(warp, lanes, next);
	warp->waiting |= lanes;
	warp->ready &= ~lanes;
	uint32_t together = lanes_at(warp, warp->waiting, next);
	if (!warp_converge(warp, &warp->block->kernel->code[next], together))
		return false;
	warp->waiting &= ~together;
	warp->ready |= together;
	set_next(warp, together, next + 1);
	return true;
}

/*
 * Runs the active lanes until they have to be chosen anew: they part, end, wait, meet lanes that are ready, or get
 * ahead of those.
 */
static void run_group(struct warp *warp)
{
	struct block *block = warp->block;
	const struct ptx_instruction *code = block->kernel->code;
	uint32_t next = warp->next, active = warp->active;
	uint32_t stop = lowest_next(warp, warp->ready & ~active);
	bool ahead = next > stop; /* chosen at random: runs to its next branch */
	uint64_t executed = 0;
	while (active && !block->error && (ahead || next < stop)) {
		const struct ptx_instruction *i = &code[next];
		uint32_t mask = active & (warp->reg[i->guard].mask ^ i->guard_inverted);
		executed += (uint32_t)__builtin_popcount(mask);
		if (--block->instructions_left == 0) {
			warp_fail(warp, i, (uint32_t)__builtin_ctz(active), LAUNCH_TIMEOUT, "the launch does not end");
			break;
		}
		if (i->flow == PTX_PLAIN) {
			if (mask)
				i->run(warp, i, mask);
			next++;
		} else if (i->flow == PTX_BRANCH) {
			if (mask == active) {
				next = i->branch_target;
			} else if (mask) {
				set_next(warp, mask, i->branch_target);
				set_next(warp, active & ~mask, next + 1);
				warp->active = 0;
				block->machine->instructions += executed;
				return;
			} else {
				next++;
			}
			if (ahead)
				break;
		} else if (i->flow == PTX_EXIT) {
			warp->exited |= mask;
			warp->ready &= ~mask;
			active &= ~mask;
			next++;
		} else if (i->flow == PTX_BARRIER) {
			set_next(warp, mask, next);
			warp->blocked |= mask;
			warp->ready &= ~mask;
			active &= ~mask;
			next++;
		} else {
			if (mask && !meet(warp, next, mask))
				active &= ~mask;
			next++;
		}
	}
	set_next(warp, active, next);
	warp->active = 0;
	block->machine->instructions += executed;
}

static void advance_warp(struct warp *warp)
{
	while (warp->ready && !warp->block->error) {
		choose_group(warp);
		run_group(warp);
	}
}

/* ---- Warps of a block ---- */

static void fill(union lanes *reg, uint32_t value)
{
	for (uint32_t lane = 0; lane < WARP_LANES; lane++)
		reg->u32[lane] = value;
}

static void fill_constants(struct warp *warp)
{
	const struct ptx_kernel *kernel = warp->block->kernel;
	for (uint32_t k = 0; k < kernel->constants; k++) {
		const struct ptx_constant *constant = &kernel->constant[k];
		union lanes *reg = &warp->reg[constant->reg];
		if (constant->lane_bytes == 0)
			reg->mask = (uint32_t)constant->value;
		for (uint32_t lane = 0; lane < WARP_LANES && constant->lane_bytes == 8; lane++)
			reg->u64[lane] = constant->value;
		if (constant->lane_bytes == 4)
			fill(reg, (uint32_t)constant->value);
	}
}

/* Registers that hold for a whole launch: the thread's place in its block and the sizes. */
static void fill_specials(struct warp *warp)
{
	const struct launch *launch = warp->block->launch;
	const uint32_t *special = warp->block->kernel->special;
	const uint32_t *size = launch->shape.block;
	for (uint32_t lane = 0; lane < WARP_LANES; lane++) {
		uint32_t thread = warp->number * WARP_LANES + lane, bit = 1u << lane;
		const uint32_t value[PTX_SPECIALS] = { [PTX_TID_X] = thread % size[0],
						       [PTX_TID_Y] = thread / size[0] % size[1],
						       [PTX_TID_Z] = thread / size[0] / size[1],
						       [PTX_NTID_X] = size[0],
						       [PTX_NTID_Y] = size[1],
						       [PTX_NTID_Z] = size[2],
						       [PTX_NCTAID_X] = launch->shape.grid[0],
						       [PTX_NCTAID_Y] = launch->shape.grid[1],
						       [PTX_NCTAID_Z] = launch->shape.grid[2],
						       [PTX_LANEID] = lane,
						       [PTX_WARPID] = warp->number,
						       [PTX_NWARPID] = warp->block->warps,
						       [PTX_LANEMASK_EQ] = bit,
						       [PTX_LANEMASK_LT] = bit - 1,
						       [PTX_LANEMASK_LE] = bit | (bit - 1),
						       [PTX_LANEMASK_GT] = ~(bit | (bit - 1)),
						       [PTX_LANEMASK_GE] = ~(bit - 1) };
		for (uint32_t k = 0; k < PTX_SPECIALS; k++)
			if (special[k])
				warp->reg[special[k]].u32[lane] = value[k];
	}
}

static void prepare_warps(struct block *block)
{
	struct machine *machine = block->machine;
	/* Registers never written hold rubbish, as on the device. */
	memset(machine->registers, 0xA5, (size_t)block->warps * block->kernel->registers * sizeof(union lanes));
	for (uint32_t w = 0; w < block->warps; w++) {
		struct warp *warp = &machine->warp[w];
		*warp = (struct warp){ .block = block, .number = w };
		warp->reg = machine->registers + (size_t)w * block->kernel->registers;
		fill_constants(warp);
		fill_specials(warp);
	}
}

static void begin_block(struct block *block)
{
	const uint32_t *special = block->kernel->special;
	block->epoch = 1;
	for (uint32_t w = 0; w < block->warps; w++) {
		struct warp *warp = &block->machine->warp[w];
		uint32_t first = w * WARP_LANES;
		uint32_t lanes =
			block->threads - first >= WARP_LANES ? ALL_LANES : (1u << (block->threads - first)) - 1;
		warp->ready = lanes;
		warp->exited = ~lanes;
		warp->active = warp->waiting = warp->blocked = 0;
		warp->epoch = 0;
		set_next(warp, ALL_LANES, 0);
		for (uint32_t k = 0; k < 3; k++)
			if (special[PTX_CTAID_X + k])
				fill(&warp->reg[special[PTX_CTAID_X + k]], block->position[k]);
	}
	memset(block->machine->shared, 0xA5, block->shared_bytes);
	shared_clear(block);
	memset(block->machine->local, 0xA5, (size_t)block->threads * block->kernel->local_bytes);
}

/* All threads that live wait at the barrier: they must wait at the same one, and none may have ended before it. */
static void pass_barrier(struct block *block)
{
	uint32_t where = UINT32_MAX;
	for (uint32_t w = 0; w < block->warps; w++) {
		struct warp *warp = &block->machine->warp[w];
		for (uint32_t lanes = warp->blocked; lanes; lanes &= lanes - 1) {
			uint32_t lane = (uint32_t)__builtin_ctz(lanes), next = warp->lane_next[lane];
			if (where == UINT32_MAX)
				where = next;
			if (next != where) {
				warp_fail(warp, &block->kernel->code[next], lane, LAUNCH_FAILED,
					  "divergent barrier: other threads of the block wait at PTX line %u",
					  block->kernel->code[where].line);
				return;
			}
		}
	}
	for (uint32_t w = 0; w < block->warps; w++) {
		struct warp *warp = &block->machine->warp[w];
		uint32_t first = w * WARP_LANES;
		uint32_t lanes =
			block->threads - first >= WARP_LANES ? ALL_LANES : (1u << (block->threads - first)) - 1;
		if (warp->exited & lanes) {
			warp_fail(warp, &block->kernel->code[where], (uint32_t)__builtin_ctz(warp->exited & lanes),
				  LAUNCH_FAILED, "divergent barrier: this thread has ended and the others wait for it");
			return;
		}
		set_next(warp, warp->blocked, where + 1);
		warp->ready |= warp->blocked;
		warp->blocked = 0;
	}
	block->epoch++;
}

/* Nobody can run, and not all wait at a barrier: some wait for lanes that will not come. */
static void report_deadlock(struct block *block)
{
	for (uint32_t w = 0; w < block->warps; w++) {
		struct warp *warp = &block->machine->warp[w];
		if (!warp->waiting)
			continue;
		uint32_t lane = (uint32_t)__builtin_ctz(warp->waiting), next = warp->lane_next[lane];
		/* Lanes may have ended since; this says so. */
		if (warp_converge(warp, &block->kernel->code[next], lanes_at(warp, warp->waiting, next)) ||
		    block->error)
			return;
		warp_fail(warp, &block->kernel->code[next], lane, LAUNCH_FAILED,
			  "waits for lanes of its warp that do not come (waiting %#x, at a barrier %#x, ended %#x)",
			  warp->waiting, warp->blocked, warp->exited);
		return;
	}
}

static void run_block(struct block *block)
{
	begin_block(block);
	while (!block->error) {
		uint32_t turn = block->random ? (uint32_t)draw(&block->random) : 0;
		uint32_t blocked = 0, waiting = 0;
		for (uint32_t w = 0; w < block->warps && !block->error; w++) {
			struct warp *warp = &block->machine->warp[(w + turn) % block->warps];
			advance_warp(warp);
			blocked += (uint32_t)__builtin_popcount(warp->blocked);
			waiting += (uint32_t)__builtin_popcount(warp->waiting);
		}
		if (block->error)
			return;
		if (waiting)
			report_deadlock(block);
		else if (blocked)
			pass_barrier(block);
		else
			return;
	}
}

/* ---- Blocks of a grid ---- */

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

enum launch_error launch_run(struct machine *machine, const struct launch *launch, char *message, size_t message_bytes)
{
	const struct launch_shape *shape = &launch->shape;
	struct block block = { .machine = machine,
			       .launch = launch,
			       .kernel = launch->kernel,
			       .threads = shape->block[0] * shape->block[1] * shape->block[2],
			       .shared_bytes =
				       (launch->kernel->shared_bytes + 15u) / 16u * 16u + shape->dynamic_shared_bytes,
			       .random = launch->seed,
			       .instructions_left = launch->max_instructions ? launch->max_instructions : UINT64_MAX,
			       .message = message,
			       .message_bytes = message_bytes };
	block.warps = (block.threads + WARP_LANES - 1) / WARP_LANES;
	prepare_warps(&block);
	/* A random order without a list: i -> (first + i * stride) mod blocks, with a stride that meets all of them. */
	uint64_t blocks = (uint64_t)shape->grid[0] * shape->grid[1] * shape->grid[2], first = 0, stride = 1;
	if (launch->seed) {
		first = draw(&block.random) % blocks;
		do
			stride = draw(&block.random) % blocks + 1;
		while (greatest_common_divisor(stride, blocks) != 1);
	}
	for (uint64_t i = 0; i < blocks && !block.error; i++) {
		uint64_t index = (first + i * stride) % blocks; /* blocks < 2^26 */
		block.index = (uint32_t)index;
		block.position[0] = (uint32_t)(index % shape->grid[0]);
		block.position[1] = (uint32_t)(index / shape->grid[0] % shape->grid[1]);
		block.position[2] = (uint32_t)(index / shape->grid[0] / shape->grid[1]);
		run_block(&block);
	}
	return block.error;
}

/* ---- Memory of the machine ---- */

static void *grow(void *old, size_t bytes)
{
	free(old);
	void *data = malloc(bytes);
	if (!data) {
		fprintf(stderr, "cudasim: the host has no %zu bytes left\n", bytes);
		abort();
	}
	return data;
}

void machine_prepare(struct machine *machine, const struct ptx_kernel *kernel)
{
	size_t registers = (size_t)kernel->registers * MAX_BLOCK_WARPS;
	size_t local_bytes = (size_t)kernel->local_bytes * MAX_BLOCK_THREADS;
	if (!machine->shared) {
		machine->shared = grow(NULL, MAX_SHARED_BYTES);
		machine->shared_shadow = grow(NULL, shared_shadow_bytes());
		machine->warp = grow(NULL, MAX_BLOCK_WARPS * sizeof *machine->warp);
		machine->local = grow(NULL, 1);
	}
	if (registers > machine->register_count) {
		machine->registers = grow(machine->registers, registers * sizeof *machine->registers);
		machine->register_count = registers;
	}
	if (local_bytes > machine->local_bytes) {
		machine->local = grow(machine->local, local_bytes);
		machine->local_bytes = local_bytes;
	}
}

void machine_free(struct machine *machine)
{
	free(machine->registers);
	free(machine->shared);
	free(machine->shared_shadow);
	free(machine->local);
	free(machine->warp);
	*machine = (struct machine){ .registers = NULL };
}
