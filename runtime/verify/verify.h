/*
 * verify.h - proof before run: replay every program of a plan symbolically.
 *
 * Shares no code with planner/; reads graph and plan only. For each program it keeps, for every byte of the arena that
 * holds something, which tensor's value lies there, and replays the instructions:
 *   - operands of an instruction are those of its op, in order; views stand for their root's memory;
 *   - every input range holds, whole and undamaged, the value of exactly that tensor (parameters: the version before
 *     the update; a version never satisfies a read of the old one);
 *   - operands and workspace lie inside the arena, aligned; outputs and workspace of an instruction overlap neither one
 * another nor its inputs, except where the op table allows output 0 to take over an input, or demands a version's
 * place;
 *   - writes may not touch persistent memory except as the version that the op makes;
 *   - effects run exactly once; every op whose result is recorded, staged or updated runs at least once;
 *   - a store finds the tensor whole, and nothing writes its place before its wait; a fetch finds, whole in the host
 *     region, exactly the tensor that it brings back; nothing reads or writes its target before its wait. Both regions'
 *     bounds hold, a slot names one copy at a time, every copy is waited for, and host bytes that a copy in flight
 * reads or writes are not written by another;
 *   - at the end every persistent tensor's place holds its newest version;
 *   - the largest sum of live bytes <= stated peak <= budget; arena_bytes <= budget; all programs agree on the
 * persistent table (the first dimension of a staging slot may differ), and only INPUT reads a staging slot. Then the
 * certificate (certificate.h): time, bounds. The peak is recomputed from the replay (a range is live from its write, or
 * the start of its fetch, to the last read of that value, waits for its store included) and must equal the one stated.
 */
#ifndef TARN_VERIFY_VERIFY_H
#define TARN_VERIFY_VERIFY_H

#include "plan/plan.h"

/* TARN_EVERIFY with program, instruction, op and tensor names of the first violation. `scratch` is given back. */
enum tarn_status verify_plan(const struct plan *plan, struct host_arena *scratch);

#endif
