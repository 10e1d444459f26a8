/*
 * format.h - the bytes of a plan file. Private to plan.c and plan_load.c.
 *
 *     plan_header                         1664 bytes, at 0
 *     plan_section 0                      at 1664
 *     plan_section 1                      at the next multiple of 64, the gap filled with zeros
 *     ...
 *     end of file                         at the end of the last section, its padding included
 *
 * Little-endian; numbers are unsigned unless said otherwise; offsets and sizes are bytes. Sections stand in the order
 * of enum plan_section: the four of the plan, then eight for each program. Nothing lies between them, so the place
 * of each follows from the sizes of those before it; the loader insists on it.
 *
 * Three checksums, all XXH64 with seed 0: of the header (its own field taken as zero), of everything after the header,
 * and of what the plan does (plan.h), which names a plan whatever budget it was made for.
 */
#ifndef TARN_PLAN_FORMAT_H
#define TARN_PLAN_FORMAT_H

#include "plan/plan.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "plan files are little-endian and are mapped as they are: this build needs a little-endian machine"
#endif

#define PLAN_SECTION_ALIGNMENT 64u
/* A plan of 100,000 instructions takes about 54 MB; anything above this is not a plan. */
#define PLAN_MAX_FILE_BYTES ((uint64_t)1 << 30)

/* Sections of the plan, then of program 0, of program 1 ... */
enum plan_section {
	SECTION_CONFIG,     /* config_lines, zero-terminated */
	SECTION_DRIVER,     /* driver's name, zero-terminated; then, or not, the device's identity, zero-terminated */
	SECTION_PERSISTENT, /* struct persistent[] */
	SECTION_PROGRAM,    /* struct program_record[programs] */
	SECTIONS_OF_PLAN
};
enum program_section {
	SECTION_TENSOR,         /* struct tensor[] */
	SECTION_OP,             /* struct op[] */
	SECTION_OPERAND,        /* uint32_t[]: tensor ids */
	SECTION_TEXT,           /* zero-terminated names */
	SECTION_INSTRUCTION,    /* struct instruction[] */
	SECTION_OPERAND_OFFSET, /* uint64_t[]: bytes in the arena */
	SECTIONS_OF_CONTENT,    /* those before are what the program does, and have a part in plan_checksum */
	SECTION_COST = SECTIONS_OF_CONTENT, /* uint64_t[ops]: nanoseconds */
	SECTION_PROOF,                      /* struct proof_term[] */
	SECTIONS_OF_PROGRAM
};
#define PLAN_MAX_SECTIONS (SECTIONS_OF_PLAN + PLAN_MAX_PROGRAMS * SECTIONS_OF_PROGRAM)

struct section_entry {
	uint64_t offset; /* from the start of the file, a multiple of 64 */
	uint64_t bytes;  /* without padding */
};

/* What this build was compiled with; a file of another build is refused, since its arrays are mapped as they are. */
struct build_limits {
	uint32_t max_rank;          /* OP_MAX_RANK */
	uint32_t op_kinds;          /* OP_KINDS */
	uint32_t tensor_bytes;      /* sizeof(struct tensor) */
	uint32_t op_bytes;          /* sizeof(struct op) */
	uint32_t instruction_bytes; /* sizeof(struct instruction) */
	uint32_t persistent_bytes;  /* sizeof(struct persistent) */
};

struct plan_header {
	char magic[8];                                   /*   0  PLAN_MAGIC without its zero */
	uint32_t version;                                /*   8  PLAN_VERSION */
	uint32_t header_bytes;                           /*  12  sizeof(struct plan_header) */
	struct build_limits limits;                      /*  16 */
	uint64_t file_bytes;                             /*  40  size of the whole file */
	uint64_t header_checksum;                        /*  48 */
	uint64_t file_checksum;                          /*  56  of bytes [header_bytes, file_bytes) */
	uint64_t plan_checksum;                          /*  64 */
	uint64_t budget_bytes;                           /*  72  UINT64_MAX: unlimited */
	uint64_t min_budget_bytes;                       /*  80 */
	uint64_t persistent_bytes;                       /*  88 */
	uint64_t arena_bytes;                            /*  96 */
	uint32_t programs;                               /* 104  1 .. PLAN_MAX_PROGRAMS */
	uint32_t persistents;                            /* 108 */
	uint32_t threads;                                /* 112 */
	uint32_t alignment;                              /* 116  TARN_ALIGNMENT */
	uint32_t strategy;                               /* 120  enum strategy of config.h */
	uint32_t sections;                               /* 124  4 + 8 * programs */
	struct section_entry section[PLAN_MAX_SECTIONS]; /* 128  unused entries are zero */
	uint64_t host_bytes;                             /* 1600 */
	uint64_t copy_bandwidth;                         /* 1608 */
	uint8_t reserved[48];                            /* 1616  zero */
};

/* struct program without its pointers. */
struct program_record {
	uint64_t peak_bytes;       /*  0 */
	uint64_t height_bytes;     /*  8 */
	uint64_t time_ns;          /* 16 */
	uint64_t base_time_ns;     /* 24 */
	uint64_t none_peak_bytes;  /* 32 */
	uint64_t time_bound_ns;    /* 40 */
	uint64_t peak_bound_bytes; /* 48 */
	uint32_t kind;             /* 56  enum program_kind, each at most once */
	uint32_t batch;            /* 60  samples */
	uint32_t tensors;          /* 64 */
	uint32_t ops;              /* 68 */
	uint32_t operands;         /* 72 */
	uint32_t text_bytes;       /* 76 */
	uint32_t instructions;     /* 80 */
	uint32_t operand_offsets;  /* 84 */
	uint32_t recomputed_ops;   /* 88 */
	uint32_t scalars;          /* 92  tensor id or TENSOR_NONE */
	uint32_t graph_batch;      /* 96  graph.batch */
	uint32_t proof_terms;      /* 100 */
	uint32_t shape;            /* 104 below PLAN_MAX_SHAPES */
	uint32_t reserved;         /* 108 zero */
};

_Static_assert(sizeof(struct section_entry) == 16, "plan file layout");
_Static_assert(sizeof(struct plan_header) == 1664, "plan file layout");
_Static_assert(sizeof(struct program_record) == 112, "plan file layout");
_Static_assert(sizeof(struct instruction) == 64, "plan file layout");
_Static_assert(sizeof(struct persistent) == 32, "plan file layout");
_Static_assert(sizeof(struct proof_term) == 16, "plan file layout");
/* No holes between the fields: what is written is what was set. */
_Static_assert(sizeof(struct tensor) == 32 + 4 * OP_MAX_RANK, "plan file layout");
_Static_assert(sizeof(struct op) == 168 + 4 * OP_MAX_RANK, "plan file layout");

static inline uint32_t program_section(uint32_t program, enum program_section section)
{
	return (uint32_t)SECTIONS_OF_PLAN + program * (uint32_t)SECTIONS_OF_PROGRAM + (uint32_t)section;
}

/* Bytes of an arrays' section up to the start of the next one. `bytes` is at most PLAN_MAX_FILE_BYTES. */
static inline uint64_t section_padded(uint64_t bytes)
{
	return (bytes + PLAN_SECTION_ALIGNMENT - 1) & ~(uint64_t)(PLAN_SECTION_ALIGNMENT - 1);
}

struct build_limits plan_build_limits(void);

/* XXH64 of the header with header_checksum taken as zero. */
uint64_t plan_header_checksum(const struct plan_header *header);

/* plan_checksum of plan.h. */
uint64_t plan_content_checksum(const struct plan *plan);

#endif
