#include "ptx_internal.h"

#include "warp.h"

#include <stdio.h>
#include <string.h>

uint32_t ptx_type_bytes(enum ptx_type type)
{
	static const uint8_t bytes[PTX_TYPES] = {
		[PTX_U8] = 1,  [PTX_S8] = 1,  [PTX_U16] = 2, [PTX_S16] = 2, [PTX_F16] = 2, [PTX_BF16] = 2,
		[PTX_U32] = 4, [PTX_S32] = 4, [PTX_F32] = 4, [PTX_U64] = 8, [PTX_S64] = 8, [PTX_F64] = 8
	};
	return bytes[type];
}

uint32_t ptx_lane_bytes(enum ptx_type type)
{
	return type == PTX_PRED || type == PTX_NO_TYPE ? 0 : ptx_type_bytes(type) == 8 ? 8 : 4;
}

/* ---- The mnemonic: opcode.modifier.modifier.type ---- */

struct mnemonic {
	char name[48]; /* what chooses the operation */
	uint8_t types;
};

struct word_value {
	const char *word;
	uint8_t value;
};

#define LOOK_UP(table, word, length) look_up(table, sizeof(table) / sizeof *(table), word, length)
static int look_up(const struct word_value *table, size_t rows, const char *word, size_t length)
{
	for (size_t i = 0; i < rows; i++)
		if (strlen(table[i].word) == length && memcmp(table[i].word, word, length) == 0)
			return table[i].value;
	return -1;
}

static const struct word_value type_word[] = {
	{ "pred", PTX_PRED }, { "b8", PTX_U8 },   { "u8", PTX_U8 },   { "s8", PTX_S8 },   { "b16", PTX_U16 },
	{ "u16", PTX_U16 },   { "s16", PTX_S16 }, { "b32", PTX_U32 }, { "u32", PTX_U32 }, { "s32", PTX_S32 },
	{ "b64", PTX_U64 },   { "u64", PTX_U64 }, { "s64", PTX_S64 }, { "f16", PTX_F16 }, { "bf16", PTX_BF16 },
	{ "f32", PTX_F32 },   { "f64", PTX_F64 },
};
static const struct word_value space_word[] = {
	{ "global", PTX_GLOBAL }, { "shared", PTX_SHARED }, { "shared::cta", PTX_SHARED },
	{ "param", PTX_PARAM },   { "local", PTX_LOCAL },   { "const", PTX_CONST },
};
static const struct word_value rounding_word[] = {
	{ "rn", PTX_NEAREST },  { "rz", PTX_ZERO },  { "rm", PTX_DOWN },  { "rp", PTX_UP },
	{ "rni", PTX_NEAREST }, { "rzi", PTX_ZERO }, { "rmi", PTX_DOWN }, { "rpi", PTX_UP },
};
#define UNORDERED 0x80u
static const struct word_value comparison_word[] = {
	{ "eq", PTX_EQ },
	{ "ne", PTX_NE },
	{ "lt", PTX_LT },
	{ "le", PTX_LE },
	{ "gt", PTX_GT },
	{ "ge", PTX_GE },
	{ "lo", PTX_LT },
	{ "ls", PTX_LE },
	{ "hi", PTX_GT },
	{ "hs", PTX_GE },
	{ "equ", PTX_EQ | UNORDERED },
	{ "neu", PTX_NE | UNORDERED },
	{ "ltu", PTX_LT | UNORDERED },
	{ "leu", PTX_LE | UNORDERED },
	{ "gtu", PTX_GT | UNORDERED },
	{ "geu", PTX_GE | UNORDERED },
	{ "num", PTX_NUM },
	{ "nan", PTX_NAN },
};
static const struct word_value combine_word[] = { { "and", PTX_AND }, { "or", PTX_OR }, { "xor", PTX_XOR } };
/*
 * Modifiers without a meaning here: caches, memory order and scope (accesses of a launch are executed one after
 * another), and the approximate operations, which are computed as well as the host can.
 */
static const struct word_value ignored_word[] = {
	{ "sync", 0 },
	{ "aligned", 0 },
	{ "nc", 0 },
	{ "ca", 0 },
	{ "cg", 0 },
	{ "cs", 0 },
	{ "lu", 0 },
	{ "cv", 0 },
	{ "volatile", 0 },
	{ "weak", 0 },
	{ "relaxed", 0 },
	{ "acquire", 0 },
	{ "release", 0 },
	{ "acq_rel", 0 },
	{ "sc", 0 },
	{ "cta", 0 },
	{ "gpu", 0 },
	{ "sys", 0 },
	{ "gl", 0 },
	{ "uni", 0 },
	{ "approx", 0 },
	{ "full", 0 },
	{ "L1::no_allocate", 0 },
};

static void take_type(struct ptx_instruction *instruction, struct mnemonic *mnemonic, enum ptx_type type)
{
	if (mnemonic->types++ == 0)
		instruction->type = (uint8_t)type;
	else
		instruction->from = (uint8_t)type;
}

static bool compares(const char *name)
{
	return strcmp(name, "setp") == 0 || strcmp(name, "set") == 0;
}

/* One modifier. False: it is unknown here and becomes a part of the name. */
static bool take_modifier(struct ptx_instruction *instruction, struct mnemonic *mnemonic, const char *word,
			  size_t length)
{
	int value;
	if ((value = LOOK_UP(type_word, word, length)) >= 0) {
		take_type(instruction, mnemonic, (enum ptx_type)value);
		return true;
	}
	if (compares(mnemonic->name)) {
		if ((value = LOOK_UP(comparison_word, word, length)) >= 0) {
			instruction->comparison = (uint8_t)((unsigned)value & 0x7F);
			instruction->unordered = ((unsigned)value & UNORDERED) != 0;
			return true;
		}
		if ((value = LOOK_UP(combine_word, word, length)) >= 0) {
			instruction->combine = (uint8_t)value;
			return true;
		}
	}
	if ((value = LOOK_UP(space_word, word, length)) >= 0) {
		instruction->space = (uint8_t)value;
		return true;
	}
	if ((value = LOOK_UP(rounding_word, word, length)) >= 0) {
		instruction->rounding = (uint8_t)value;
		instruction->to_integral = length == 3;
		return true;
	}
	if (LOOK_UP(ignored_word, word, length) >= 0)
		return true;
	if (length == 3 && memcmp(word, "ftz", 3) == 0)
		instruction->flush = true;
	else if (length == 3 && memcmp(word, "sat", 3) == 0)
		instruction->saturate = true;
	else if (length == 2 && word[0] == 'v' && (word[1] == '2' || word[1] == '4'))
		instruction->elements = (uint8_t)(word[1] - '0');
	else
		return false;
	return true;
}

static bool read_mnemonic(struct ptx_parser *parser, struct ptx_instruction *instruction, struct mnemonic *mnemonic)
{
	const struct ptx_token *token = &parser->token;
	instruction->mnemonic = pool_text(&parser->module->pool, token->text, token->length);
	instruction->elements = 1;
	const char *word = instruction->mnemonic;
	size_t length = strcspn(word, "."), used = length;
	if (length >= sizeof mnemonic->name / 2)
		return false;
	memcpy(mnemonic->name, word, length);
	while (word[length] == '.') {
		word += length + 1;
		length = strcspn(word, ".");
		if (take_modifier(instruction, mnemonic, word, length))
			continue;
		if (used + length + 2 > sizeof mnemonic->name)
			return false;
		mnemonic->name[used++] = '.';
		memcpy(mnemonic->name + used, word, length);
		used += length;
	}
	parser_advance(parser);
	return true;
}

/* Integers and floats share names; the row that has the type is meant. */
static const struct operation_row *find_row(const char *name, uint8_t type)
{
	static const struct operation_row *const tables[] = { integer_operations, float_operations, move_operations,
							      sync_operations };
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		for (const struct operation_row *row = tables[i]; row->name; row++)
			if (strcmp(row->name, name) == 0 && (row->run[type] || row->flow != PTX_PLAIN))
				return row;
	return NULL;
}

/* ---- Operands ---- */

static bool read_simple(struct ptx_parser *parser, struct ptx_token *token)
{
	bool negative = parser_accept(parser, "-");
	*token = parser->token;
	if (token->kind != PTX_WORD && token->kind != PTX_NUMBER)
		return parser_fail(parser, token->line, "operand '%.*s'", (int)token->length, token->text);
	if (negative)
		token->value = 0 - token->value;
	parser_advance(parser);
	return true;
}

static bool read_address(struct ptx_parser *parser, struct operand *operand)
{
	operand->kind = OPERAND_ADDRESS;
	if (!read_simple(parser, &operand->token))
		return false;
	if (parser_accept(parser, "+")) {
		struct ptx_token displacement;
		if (!read_simple(parser, &displacement))
			return false;
		operand->displacement = (int64_t)displacement.value;
	}
	return parser_expect(parser, "]");
}

static bool read_vector(struct ptx_parser *parser, struct operand *operand)
{
	operand->kind = OPERAND_VECTOR;
	do {
		if (operand->elements == 4)
			return parser_fail(parser, parser->token.line, "a vector of more than four elements");
		if (!read_simple(parser, &operand->element[operand->elements++]))
			return false;
	} while (parser_accept(parser, ","));
	return parser_expect(parser, "}");
}

static bool read_operand(struct ptx_parser *parser, struct operand *operand)
{
	*operand = (struct operand){ .kind = OPERAND_NAME };
	if (parser_accept(parser, "["))
		return read_address(parser, operand);
	if (parser_accept(parser, "{"))
		return read_vector(parser, operand);
	operand->inverted = parser_accept(parser, "!");
	if (!read_simple(parser, &operand->token))
		return false;
	if (operand->token.kind == PTX_NUMBER)
		operand->kind = OPERAND_NUMBER;
	if (parser_accept(parser, "|"))
		return read_simple(parser, &operand->second);
	if (operand->token.kind == PTX_WORD && parser_accept(parser, "+")) { /* symbol+4 */
		struct ptx_token displacement;
		if (!read_simple(parser, &displacement))
			return false;
		operand->displacement = (int64_t)displacement.value;
	}
	return true;
}

static bool read_operands(struct ptx_parser *parser, struct operand operand[MAX_OPERANDS], uint32_t *count)
{
	*count = 0;
	if (parser_accept(parser, ";"))
		return true;
	do {
		if (*count == MAX_OPERANDS)
			return parser_fail(parser, parser->token.line, "more than %u operands", MAX_OPERANDS);
		if (!read_operand(parser, &operand[(*count)++]))
			return false;
	} while (parser_accept(parser, ","));
	return parser_expect(parser, ";");
}

static uint32_t constant_register(struct ptx_parser *parser, uint64_t value, uint32_t lane_bytes)
{
	struct ptx_kernel *kernel = parser->kernel;
	if (lane_bytes == 4)
		value = (uint32_t)value;
	for (uint32_t i = 1; i < kernel->constants; i++)
		if (kernel->constant[i].value == value && kernel->constant[i].lane_bytes == lane_bytes)
			return kernel->constant[i].reg;
	kernel->constant =
		pool_grow(&parser->module->pool, kernel->constant, kernel->constants, sizeof *kernel->constant);
	kernel->constant[kernel->constants++] =
		(struct ptx_constant){ .reg = kernel->registers, .lane_bytes = (uint8_t)lane_bytes, .value = value };
	return kernel->registers++;
}

static uint32_t special_register(struct ptx_parser *parser, const struct ptx_token *token)
{
	static const char *const name[PTX_SPECIALS] = {
		"%tid.x",   "%tid.y",       "%tid.z",       "%ntid.x",      "%ntid.y",      "%ntid.z",     "%ctaid.x",
		"%ctaid.y", "%ctaid.z",     "%nctaid.x",    "%nctaid.y",    "%nctaid.z",    "%laneid",     "%warpid",
		"%nwarpid", "%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge"
	};
	for (uint32_t i = 0; i < PTX_SPECIALS; i++)
		if (ptx_token_is(token, name[i])) {
			if (!parser->kernel->special[i])
				parser->kernel->special[i] = parser->kernel->registers++;
			return parser->kernel->special[i];
		}
	return 0;
}

static uint64_t symbol_address(const struct ptx_parser *parser, const struct symbol *symbol)
{
	/* Dynamic shared memory begins where the static one ends; all declarations come before the code. */
	if (symbol->space == PTX_SHARED && symbol->address == UINT64_MAX)
		return (parser->kernel->shared_bytes + 15u) / 16u * 16u;
	return symbol->address;
}

/* A register that holds the operand's value in lanes of lane_bytes (0: predicate). */
static bool resolve(struct ptx_parser *parser, const struct ptx_token *token, int64_t displacement, uint32_t lane_bytes,
		    uint32_t *reg)
{
	enum ptx_type type;
	if (token->kind == PTX_NUMBER) {
		*reg = constant_register(parser, lane_bytes ? token->value : token->value ? ALL_LANES : 0, lane_bytes);
		return true;
	}
	if (parser_register(parser, token, reg, &type)) {
		if (ptx_lane_bytes(type) == lane_bytes)
			return true;
		return parser_fail(parser, token->line, "%.*s has %u-byte lanes, and %u are needed", (int)token->length,
				   token->text, ptx_lane_bytes(type), lane_bytes);
	}
	if (ptx_token_is(token, "WARP_SZ")) {
		*reg = constant_register(parser, WARP_LANES, lane_bytes);
		return true;
	}
	*reg = lane_bytes == 4 ? special_register(parser, token) : 0;
	if (*reg)
		return true;
	const struct symbol *symbol = parser_symbol(parser, token);
	if (symbol && lane_bytes) {
		*reg = constant_register(parser, symbol_address(parser, symbol) + (uint64_t)displacement, lane_bytes);
		return true;
	}
	return parser_fail(parser, token->line, "unknown operand '%.*s'", (int)token->length, token->text);
}

/* The width of a register as declared; of anything else the one that is wanted. */
static uint32_t own_lane_bytes(const struct ptx_parser *parser, const struct ptx_token *token, uint32_t wanted)
{
	uint32_t reg;
	enum ptx_type type;
	return parser_register(parser, token, &reg, &type) ? ptx_lane_bytes(type) : wanted;
}

static uint32_t signature_lanes(const struct ptx_instruction *instruction, char letter)
{
	switch (letter) {
	case 'w':
		return 4;
	case 'p':
		return 0;
	case 'f':
		return ptx_lane_bytes((enum ptx_type)instruction->from);
	case '2':
		return ptx_type_bytes((enum ptx_type)instruction->type) == 4 ? 8 : 4;
	default:
		return ptx_lane_bytes((enum ptx_type)instruction->type);
	}
}

static bool decode_target(struct ptx_parser *parser, struct ptx_instruction *instruction, const struct operand *operand,
			  uint32_t lane_bytes)
{
	if (operand->kind != OPERAND_NAME)
		return parser_fail(parser, instruction->line, "%s does not write a register", instruction->mnemonic);
	if (ptx_token_is(&operand->token, "_"))
		instruction->target[0] = parser->kernel->registers++;
	else if (!resolve(parser, &operand->token, 0, lane_bytes, &instruction->target[0]))
		return false;
	if (operand->second.length == 0)
		return true;
	instruction->second_target = true;
	return resolve(parser, &operand->second, 0, 0, &instruction->target[1]);
}

static bool decode_by_signature(struct ptx_parser *parser, struct ptx_instruction *instruction, const char *signature)
{
	struct operand operand[MAX_OPERANDS];
	uint32_t count, used = 0, sources = 0;
	if (!read_operands(parser, operand, &count))
		return false;
	for (const char *letter = signature; *letter; letter++) {
		if (*letter == '-')
			continue;
		if (*letter == '?') {
			if (used == count)
				break;
			continue;
		}
		if (used == count)
			return parser_fail(parser, instruction->line, "%s has too few operands", instruction->mnemonic);
		const struct operand *now = &operand[used++];
		uint32_t lane_bytes = signature_lanes(instruction, *letter);
		if (letter == signature) {
			if (!decode_target(parser, instruction, now, lane_bytes))
				return false;
			continue;
		}
		if (now->kind != OPERAND_NAME && now->kind != OPERAND_NUMBER)
			return parser_fail(parser, instruction->line, "an address or a vector in %s",
					   instruction->mnemonic);
		if (now->inverted)
			instruction->source_inverted |= (uint8_t)(1u << sources);
		if (!resolve(parser, &now->token, now->displacement, lane_bytes, &instruction->source[sources++]))
			return false;
	}
	if (used < count)
		return parser_fail(parser, instruction->line, "%s has too many operands", instruction->mnemonic);
	return true;
}

/* ---- Memory accesses ---- */

static bool decode_address(struct ptx_parser *parser, struct ptx_instruction *instruction,
			   const struct operand *operand)
{
	if (operand->kind != OPERAND_ADDRESS)
		return parser_fail(parser, instruction->line, "%s without an address", instruction->mnemonic);
	instruction->displacement = operand->displacement;
	uint32_t lane_bytes = own_lane_bytes(parser, &operand->token, 8);
	instruction->wide_address = lane_bytes == 8;
	return resolve(parser, &operand->token, 0, lane_bytes, &instruction->source[4]);
}

/* Registers of a load or store may be wider than the type: the lanes of the first element say how wide. */
static bool decode_elements(struct ptx_parser *parser, struct ptx_instruction *instruction,
			    const struct operand *operand, uint32_t *reg, uint8_t *lane_bytes)
{
	uint32_t elements = operand->kind == OPERAND_VECTOR ? operand->elements : 1;
	const struct ptx_token *first = operand->kind == OPERAND_VECTOR ? operand->element : &operand->token;
	if (operand->kind == OPERAND_ADDRESS || elements != instruction->elements)
		return parser_fail(parser, instruction->line, "%s with %u elements", instruction->mnemonic, elements);
	uint32_t wanted = ptx_lane_bytes((enum ptx_type)instruction->type);
	for (uint32_t i = 0; i < elements; i++) {
		uint32_t own = own_lane_bytes(parser, &first[i], wanted);
		*lane_bytes = (uint8_t)own;
		if (ptx_token_is(&first[i], "_"))
			reg[i] = parser->kernel->registers++;
		else if (own < wanted || !resolve(parser, &first[i], 0, own, &reg[i]))
			return parser_fail(parser, instruction->line, "%s with a register too narrow",
					   instruction->mnemonic);
	}
	return true;
}

static bool decode_access(struct ptx_parser *parser, struct ptx_instruction *instruction, bool store)
{
	struct operand operand[MAX_OPERANDS];
	uint32_t count;
	uint8_t lane_bytes = 0;
	if (!read_operands(parser, operand, &count))
		return false;
	instruction->bytes = (uint8_t)ptx_type_bytes((enum ptx_type)instruction->type);
	if (count != 2 || instruction->bytes == 0)
		return parser_fail(parser, instruction->line, "%s needs a type and two operands",
				   instruction->mnemonic);
	if (!decode_elements(parser, instruction, &operand[store], store ? instruction->source : instruction->target,
			     &lane_bytes) ||
	    !decode_address(parser, instruction, &operand[!store]))
		return false;
	instruction->from = lane_bytes == 8 ? PTX_U64 : PTX_U32; /* the register's lanes */
	if (store)
		instruction->run = warp_store;
	else
		instruction->run = instruction->space == PTX_PARAM ? warp_load_parameter : warp_load;
	if (store && (instruction->space == PTX_PARAM || instruction->space == PTX_CONST))
		return parser_fail(parser, instruction->line, "%s writes read-only memory", instruction->mnemonic);
	return true;
}

/* atom.add target, [address], value and atom.cas target, [address], compare, value; red without a target. */
static bool decode_atomic(struct ptx_parser *parser, struct ptx_instruction *instruction, const char *name)
{
	static const struct word_value operation[] = {
		{ "add", 'a' }, { "min", 'm' }, { "max", 'M' },  { "and", '&' },
		{ "or", '|' },  { "xor", '^' }, { "exch", 'x' }, { "cas", 'c' }
	};
	struct operand operand[MAX_OPERANDS];
	uint32_t count;
	bool returns = name[0] == 'a';
	const char *word = strchr(name, '.');
	int value = word ? LOOK_UP(operation, word + 1, strlen(word + 1)) : -1;
	enum ptx_type type = (enum ptx_type)instruction->type;
	if (type < PTX_U32 || type > PTX_S64)
		return parser_fail(parser, instruction->line,
				   "%s: atomic operations on floating-point numbers add in "
				   "an order that changes from run to run",
				   instruction->mnemonic);
	if (value < 0 || !read_operands(parser, operand, &count))
		return parser_fail(parser, instruction->line, "%s is not in the subset", instruction->mnemonic);
	uint32_t at = returns ? 1 : 0, values = value == 'c' ? 2 : 1, lane_bytes = ptx_lane_bytes(type);
	if (count != at + 1 + values || !decode_address(parser, instruction, &operand[at]))
		return parser_fail(parser, instruction->line, "%s has wrong operands", instruction->mnemonic);
	if (returns && !decode_target(parser, instruction, &operand[0], lane_bytes))
		return false;
	if (!returns)
		instruction->target[0] = parser->kernel->registers++;
	for (uint32_t i = 0; i < values; i++)
		if (!resolve(parser, &operand[at + 1 + i].token, 0, lane_bytes, &instruction->source[i]))
			return false;
	instruction->bytes = (uint8_t)ptx_type_bytes(type);
	instruction->comparison = (uint8_t)value;
	instruction->run = warp_atomic;
	return true;
}

/* ---- Moves that pack and unpack: mov.b64 %rd, {%r1, %r2} ---- */

static bool is_packing(const struct ptx_parser *parser)
{
	struct ptx_lexer ahead = parser->lexer;
	struct ptx_token token = parser->token;
	for (int i = 0; i < 3 && !ptx_token_is(&token, ";"); i++, token = ptx_next(&ahead))
		if (ptx_token_is(&token, "{"))
			return true;
	return false;
}

static bool decode_packing(struct ptx_parser *parser, struct ptx_instruction *instruction)
{
	struct operand operand[MAX_OPERANDS];
	uint32_t count;
	if (!read_operands(parser, operand, &count))
		return false;
	if (count != 2 || (operand[0].kind == OPERAND_VECTOR) == (operand[1].kind == OPERAND_VECTOR))
		return parser_fail(parser, instruction->line, "%s between these operands", instruction->mnemonic);
	bool pack = operand[1].kind == OPERAND_VECTOR;
	const struct operand *vector = &operand[pack], *whole = &operand[!pack];
	uint32_t lanes = ptx_lane_bytes((enum ptx_type)instruction->type);
	instruction->elements = (uint8_t)vector->elements;
	instruction->bytes = (uint8_t)(ptx_type_bytes((enum ptx_type)instruction->type) / vector->elements);
	if (instruction->bytes < 2 || instruction->bytes > 4)
		return parser_fail(parser, instruction->line, "%s of %u elements", instruction->mnemonic,
				   vector->elements);
	uint32_t *parts = pack ? instruction->source : instruction->target;
	for (uint32_t i = 0; i < vector->elements; i++) {
		if (ptx_token_is(&vector->element[i], "_"))
			parts[i] = parser->kernel->registers++;
		else if (!resolve(parser, &vector->element[i], 0, 4, &parts[i]))
			return false;
	}
	instruction->run = pack ? move_pack : move_unpack;
	return resolve(parser, &whole->token, whole->displacement, lanes,
		       pack ? &instruction->target[0] : &instruction->source[0]);
}

/* ---- Conversions: either register may be wider than its type ---- */

static bool decode_conversion(struct ptx_parser *parser, struct ptx_instruction *instruction)
{
	struct operand operand[MAX_OPERANDS];
	uint32_t count, needed[2] = { ptx_lane_bytes((enum ptx_type)instruction->type),
				      ptx_lane_bytes((enum ptx_type)instruction->from) };
	if (!read_operands(parser, operand, &count))
		return false;
	if (count != 2 || !needed[0] || !needed[1])
		return parser_fail(parser, instruction->line, "%s is not in the subset", instruction->mnemonic);
	uint32_t target = own_lane_bytes(parser, &operand[0].token, needed[0]);
	uint32_t source = own_lane_bytes(parser, &operand[1].token, needed[1]);
	if (target < needed[0] || source < needed[1])
		return parser_fail(parser, instruction->line, "%s with a register too narrow", instruction->mnemonic);
	instruction->elements = (uint8_t)target;
	instruction->bytes = (uint8_t)source;
	instruction->run = convert;
	return decode_target(parser, instruction, &operand[0], target) &&
	       resolve(parser, &operand[1].token, operand[1].displacement, source, &instruction->source[0]);
}

/* ---- All of it ---- */

static bool decode_branch(struct ptx_parser *parser, struct ptx_instruction *instruction)
{
	instruction->flow = PTX_BRANCH;
	parser->jump = pool_grow(&parser->module->pool, parser->jump, parser->jumps, sizeof *parser->jump);
	parser->jump[parser->jumps++] = (struct label){ .name = parser->token, .index = parser->kernel->instructions };
	parser_advance(parser);
	return parser_expect(parser, ";");
}

static bool decode_guard(struct ptx_parser *parser, struct ptx_instruction *instruction)
{
	if (!parser_accept(parser, "@"))
		return true;
	if (parser_accept(parser, "!"))
		instruction->guard_inverted = ALL_LANES;
	if (!resolve(parser, &parser->token, 0, 0, &instruction->guard))
		return false;
	parser_advance(parser);
	return true;
}

/* Directed roundings and saturation exist here for some operations only. */
static bool modifiers_are_executed(const struct ptx_instruction *instruction, const char *name)
{
	bool sum = strcmp(name, "add") == 0 || strcmp(name, "sub") == 0 || strcmp(name, "mul") == 0 ||
		   strcmp(name, "fma") == 0;
	bool narrow = instruction->type == PTX_F32 || instruction->type == PTX_F16 || instruction->type == PTX_BF16;
	return (instruction->rounding == PTX_NEAREST && !instruction->saturate) || (sum && narrow);
}

bool ptx_decode(struct ptx_parser *parser, struct ptx_instruction *instruction)
{
	struct mnemonic mnemonic = { .types = 0 };
	if (!decode_guard(parser, instruction))
		return false;
	if (parser->token.kind != PTX_WORD || !read_mnemonic(parser, instruction, &mnemonic))
		return parser_fail(parser, parser->token.line, "'%.*s' is no instruction", (int)parser->token.length,
				   parser->token.text);
	const char *name = mnemonic.name;
	if (strcmp(name, "bra") == 0)
		return decode_branch(parser, instruction);
	if (strcmp(name, "ld") == 0 || strcmp(name, "ldu") == 0 || strcmp(name, "st") == 0)
		return decode_access(parser, instruction, name[0] == 's');
	if (strncmp(name, "atom.", 5) == 0 || strncmp(name, "red.", 4) == 0)
		return decode_atomic(parser, instruction, name);
	if (strcmp(name, "mov") == 0 && is_packing(parser))
		return decode_packing(parser, instruction);
	if (strcmp(name, "cvt") == 0)
		return decode_conversion(parser, instruction);
	const struct operation_row *row = find_row(name, instruction->type);
	if (!row || mnemonic.types > 2 || !modifiers_are_executed(instruction, name))
		return parser_fail(parser, instruction->line, "%s is not in the subset", instruction->mnemonic);
	instruction->run = row->run[instruction->type];
	instruction->flow = (uint8_t)row->flow;
	return decode_by_signature(parser, instruction, row->signature);
}
