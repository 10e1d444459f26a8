/*
 * ptx_internal.h - what the parser (directives, declarations) and the decoder (instructions) share.
 */
#ifndef CUDASIM_PTX_INTERNAL_H
#define CUDASIM_PTX_INTERNAL_H

#include "ptx.h"
#include "ptx_lex.h"

/* `.reg .b32 %r<6>` declares a family of six, `.reg .pred p` one. */
struct register_family {
	struct ptx_token name;
	bool numbered;
	uint32_t count;
	enum ptx_type type;
	uint32_t first; /* register */
};

struct symbol {
	struct ptx_token name;
	enum ptx_space space;
	uint64_t address; /* of a module variable; an offset in shared, local and parameter space */
};

struct label {
	struct ptx_token name;
	uint32_t index; /* instruction */
};

enum operand_kind { OPERAND_NAME, OPERAND_NUMBER, OPERAND_VECTOR, OPERAND_ADDRESS };

struct operand {
	enum operand_kind kind;
	bool inverted;           /* !%p */
	struct ptx_token token;  /* the name or the number; of an address its base */
	struct ptx_token second; /* %q of %p|%q; length 0: none */
	int64_t displacement;
	struct ptx_token element[4];
	uint32_t elements;
};

#define MAX_OPERANDS 6u

struct ptx_parser {
	struct ptx_module *module;
	struct ptx_lexer lexer;
	struct ptx_token token; /* the next one, not yet consumed */
	struct ptx_kernel *kernel;
	uint32_t source_line;
	struct register_family *family;
	uint32_t families;
	struct symbol *symbol;
	uint32_t symbols;
	struct label *label;
	uint32_t labels;
	struct label *jump; /* branches whose target is not known yet; index: the branch */
	uint32_t jumps;
	bool failed;
	char *message;
	size_t message_bytes;
};

/* Keeps the first failure. Always false. */
bool parser_fail(struct ptx_parser *parser, uint32_t line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void parser_advance(struct ptx_parser *parser);
bool parser_accept(struct ptx_parser *parser, const char *text);
bool parser_expect(struct ptx_parser *parser, const char *text);
const struct symbol *parser_symbol(const struct ptx_parser *parser, const struct ptx_token *name);
/* Register number and type; false: no such register. */
bool parser_register(const struct ptx_parser *parser, const struct ptx_token *name, uint32_t *reg, enum ptx_type *type);

/* Decodes one instruction, whose mnemonic is the current token, up to and with its semicolon. */
bool ptx_decode(struct ptx_parser *parser, struct ptx_instruction *instruction);

/* Moves between a register and its parts, and conversions; warp_move.c. */
ptx_operation move_pack, move_unpack, convert;

/*
 * How a mnemonic is executed. name: the opcode and the modifiers that choose another operation; types, rounding, state
 * spaces and the like are apart. signature: one letter an operand, the target first:
 *   t the type's lanes   f those of the second type   w 32-bit lanes   2 lanes of twice the type   p predicate
 *   ? the next operand may be missing
 */
struct operation_row {
	const char *name;
	const char *signature;
	enum ptx_flow flow;
	ptx_operation *run[PTX_TYPES];
};
extern const struct operation_row integer_operations[];
extern const struct operation_row float_operations[];
extern const struct operation_row move_operations[]; /* moves, comparisons, selections, conversions */
extern const struct operation_row sync_operations[]; /* branches, barriers, shuffles, votes */

#endif
