/* plan_reseal.c - see plan_reseal.h. */
#include "support/plan_reseal.h"

#include "plan/format.h"

#include <string.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

static void add_section(XXH64_state_t *state, const uint8_t *file, size_t bytes, const struct section_entry *section)
{
	if (section->offset <= bytes && section->bytes <= bytes - section->offset && section->bytes)
		XXH64_update(state, file + section->offset, (size_t)section->bytes);
}

static uint64_t content_checksum(const uint8_t *file, size_t bytes, const struct plan_header *header)
{
	XXH64_state_t state;
	XXH64_reset(&state, 0);
	add_section(&state, file, bytes, &header->section[SECTION_PERSISTENT]);
	uint64_t records = header->section[SECTION_PROGRAM].offset;
	for (uint32_t p = 0; p < header->programs && p < PLAN_MAX_PROGRAMS; p++) {
		struct program_record r;
		uint64_t at = records + p * sizeof r;
		if (records > bytes || at > bytes || sizeof r > bytes - at)
			break;
		memcpy(&r, file + at, sizeof r);
		const uint32_t counts[] = {
			r.kind | r.shape << 8, r.batch,          r.tensors, r.ops, r.operands, r.text_bytes, r.scalars,
			r.instructions,        r.operand_offsets
		};
		XXH64_update(&state, counts, sizeof counts);
		for (uint32_t s = 0; s < (uint32_t)SECTIONS_OF_CONTENT; s++)
			add_section(&state, file, bytes, &header->section[program_section(p, (enum program_section)s)]);
	}
	return XXH64_digest(&state);
}

void plan_reseal(uint8_t *file, size_t bytes)
{
	struct plan_header header;
	if (bytes < sizeof header)
		return;
	memcpy(&header, file, sizeof header);
	header.plan_checksum = content_checksum(file, bytes, &header);
	header.file_checksum = XXH64(file + sizeof header, bytes - sizeof header, 0);
	header.header_checksum = plan_header_checksum(&header);
	memcpy(file, &header, sizeof header);
}
