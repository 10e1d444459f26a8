/*
 * warp_sync.c - instructions for which lanes meet: shuffles, votes, reductions and the barrier of a warp.
 */
#include "ptx_internal.h"
#include "warp.h"

#include <string.h>

#define REG(number) (warp->reg[number])

/* Which source is the member mask; UINT32_MAX: there is none. */
static uint32_t mask_source(const struct ptx_instruction *i)
{
	if (strncmp(i->mnemonic, "shfl", 4) == 0)
		return 3;
	return strncmp(i->mnemonic, "vote", 4) == 0 || strncmp(i->mnemonic, "redux", 5) == 0 ? 1 : 0;
}

static uint32_t lowest(uint32_t lanes)
{
	return (uint32_t)__builtin_ctz(lanes);
}

bool warp_converge(struct warp *warp, const struct ptx_instruction *i, uint32_t lanes)
{
	const uint32_t *member = REG(i->source[mask_source(i)]).u32;
	uint32_t named = member[lowest(lanes)];
	for (uint32_t lane = 0; lane < WARP_LANES; lane++) {
		if (!(lanes >> lane & 1))
			continue;
		if (!(member[lane] >> lane & 1)) {
			warp_fail(warp, i, lane, LAUNCH_FAILED, "the member mask %#x does not name the lane itself",
				  member[lane]);
			return false;
		}
		if (member[lane] != named) {
			warp_fail(warp, i, lane, LAUNCH_FAILED, "lanes come with different member masks, %#x and %#x",
				  member[lane], named);
			return false;
		}
	}
	if (named & warp->exited) {
		warp_fail(warp, i, lowest(named & warp->exited), LAUNCH_FAILED,
			  "the member mask %#x names lane %u, which has ended or does not exist", named,
			  lowest(named & warp->exited));
		return false;
	}
	if ((named & lanes) != named)
		return false; /* the others are still on their way */
	if (i->run)
		i->run(warp, i, lanes);
	warp->epoch++;
	return true;
}

/* ---- Shuffles, ISA 9.7.9.6: the segment of a lane and the bound come packed in the third operand ---- */

static int32_t shuffle_source(const struct ptx_instruction *i, int32_t lane, int32_t offset, int32_t packed,
			      bool *inside)
{
	int32_t segment = packed >> 8 & 31, clamp = packed & 31;
	int32_t highest = (lane & segment) | (clamp & ~segment);
	int32_t lowest_lane = lane & segment;
	int32_t from;
	switch (i->mnemonic[10]) { /* shfl.sync.X */
	case 'u':
		from = lane - offset;
		*inside = from >= highest; /* for `up` the bound is the lowest lane */
		break;
	case 'd':
		from = lane + offset;
		*inside = from <= highest;
		break;
	case 'b':
		from = lane ^ offset;
		*inside = from <= highest;
		break;
	default:
		from = lowest_lane | (offset & ~segment);
		*inside = from <= highest;
	}
	return *inside ? from : lane;
}

static void shuffle(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	const union lanes value = REG(i->source[0]), *offset = &REG(i->source[1]), *packed = &REG(i->source[2]);
	uint32_t inside_bits = 0;
	union lanes result = REG(i->target[0]);
	for (uint32_t lane = 0; lane < WARP_LANES; lane++) {
		if (!(mask >> lane & 1))
			continue;
		bool inside;
		int32_t from = shuffle_source(i, (int32_t)lane, offset->s32[lane] & 31, packed->s32[lane], &inside);
		inside_bits |= (uint32_t)inside << lane;
		if (!(mask >> from & 1)) {
			warp_fail(warp, i, lane, LAUNCH_FAILED, "reads lane %d, which does not take part (mask %#x)",
				  from, mask);
			return;
		}
		result.u32[lane] = value.u32[from];
	}
	REG(i->target[0]) = result;
	if (i->second_target)
		REG(i->target[1]).mask = (REG(i->target[1]).mask & ~mask) | (inside_bits & mask);
}

/* ---- Votes ---- */

static uint32_t votes(const struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	uint32_t bits = REG(i->source[0]).mask;
	return (i->source_inverted & 1 ? ~bits : bits) & mask;
}

#define VOTE(name, condition)                                                               \
	static void name(struct warp *warp, const struct ptx_instruction *i, uint32_t mask) \
	{                                                                                   \
		uint32_t yes = votes(warp, i, mask);                                        \
		uint32_t *d = &REG(i->target[0]).mask;                                      \
		*d = (*d & ~mask) | ((condition) ? mask : 0);                               \
	}
VOTE(vote_all, yes == mask)
VOTE(vote_any, yes != 0)

static void vote_ballot(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	uint32_t yes = votes(warp, i, mask);
	union lanes *d = &REG(i->target[0]);
	FOR_LANES(mask, d->u32[lane] = yes);
}

static void active_mask(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	union lanes *d = &REG(i->target[0]);
	FOR_LANES(mask, d->u32[lane] = mask);
}

/* ---- Reductions of integers ---- */

#define REDUCE(name, type, member, expression)                                              \
	static void name(struct warp *warp, const struct ptx_instruction *i, uint32_t mask) \
	{                                                                                   \
		const union lanes *value = &REG(i->source[0]);                              \
		type a = value->member[lowest(mask)];                                       \
		for (uint32_t lane = lowest(mask) + 1; lane < WARP_LANES; lane++)           \
			if (mask >> lane & 1) {                                             \
				type b = value->member[lane];                               \
				a = (type)(expression);                                     \
			}                                                                   \
		union lanes *d = &REG(i->target[0]);                                        \
		FOR_LANES(mask, d->member[lane] = a);                                       \
	}
REDUCE(reduce_add, uint32_t, u32, a + b)
REDUCE(reduce_and, uint32_t, u32, a &b)
REDUCE(reduce_or, uint32_t, u32, a | b)
REDUCE(reduce_xor, uint32_t, u32, a ^ b)
REDUCE(reduce_min_u32, uint32_t, u32, a < b ? a : b)
REDUCE(reduce_max_u32, uint32_t, u32, a > b ? a : b)
REDUCE(reduce_min_s32, int32_t, s32, a < b ? a : b)
REDUCE(reduce_max_s32, int32_t, s32, a > b ? a : b)

/* The order of memory is the order of execution, so a fence has nothing to do. */
static void fence(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	(void)warp;
	(void)i;
	(void)mask;
}

#define ROW_32(function)                                   \
	{                                                  \
		[PTX_U32] = function, [PTX_S32] = function \
	}
const struct operation_row sync_operations[] = {
	{ "ret", "", PTX_EXIT, { NULL } },
	{ "exit", "", PTX_EXIT, { NULL } },
	{ "bar", "-w", PTX_BARRIER, { NULL } },
	{ "barrier", "-w", PTX_BARRIER, { NULL } },
	{ "bar.warp", "-w", PTX_CONVERGE, { NULL } },
	{ "shfl.up", "twwww", PTX_CONVERGE, ROW_32(shuffle) },
	{ "shfl.down", "twwww", PTX_CONVERGE, ROW_32(shuffle) },
	{ "shfl.bfly", "twwww", PTX_CONVERGE, ROW_32(shuffle) },
	{ "shfl.idx", "twwww", PTX_CONVERGE, ROW_32(shuffle) },
	{ "vote.all", "ppw", PTX_CONVERGE, { [PTX_PRED] = vote_all } },
	{ "vote.any", "ppw", PTX_CONVERGE, { [PTX_PRED] = vote_any } },
	{ "vote.ballot", "wpw", PTX_CONVERGE, ROW_32(vote_ballot) },
	{ "activemask", "t", PTX_PLAIN, ROW_32(active_mask) },
	{ "redux.add", "ttw", PTX_CONVERGE, ROW_32(reduce_add) },
	{ "redux.and", "ttw", PTX_CONVERGE, ROW_32(reduce_and) },
	{ "redux.or", "ttw", PTX_CONVERGE, ROW_32(reduce_or) },
	{ "redux.xor", "ttw", PTX_CONVERGE, ROW_32(reduce_xor) },
	{ "redux.min", "ttw", PTX_CONVERGE, { [PTX_U32] = reduce_min_u32, [PTX_S32] = reduce_min_s32 } },
	{ "redux.max", "ttw", PTX_CONVERGE, { [PTX_U32] = reduce_max_u32, [PTX_S32] = reduce_max_s32 } },
	{ "membar", "", PTX_PLAIN, { [PTX_NO_TYPE] = fence } },
	{ "fence", "", PTX_PLAIN, { [PTX_NO_TYPE] = fence } },
	{ NULL, NULL, PTX_PLAIN, { NULL } },
};
