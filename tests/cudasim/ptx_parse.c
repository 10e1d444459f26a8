#include "ptx_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool parser_fail(struct ptx_parser *parser, uint32_t line, const char *format, ...)
{
	if (parser->failed)
		return false;
	parser->failed = true;
	int n = snprintf(parser->message, parser->message_bytes, "line %u: ", line);
	va_list arguments;
	va_start(arguments, format);
	if (n >= 0 && (size_t)n < parser->message_bytes)
		vsnprintf(parser->message + n, parser->message_bytes - (size_t)n, format, arguments);
	va_end(arguments);
	return false;
}

void parser_advance(struct ptx_parser *parser)
{
	parser->token = ptx_next(&parser->lexer);
}

bool parser_accept(struct ptx_parser *parser, const char *text)
{
	if (parser->token.kind == PTX_END || !ptx_token_is(&parser->token, text))
		return false;
	parser_advance(parser);
	return true;
}

bool parser_expect(struct ptx_parser *parser, const char *text)
{
	if (parser_accept(parser, text))
		return true;
	return parser_fail(parser, parser->token.line, "'%s' expected instead of '%.*s'", text,
			   (int)parser->token.length, parser->token.text);
}

static bool same_name(const struct ptx_token *a, const struct ptx_token *b)
{
	return a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
}

const struct symbol *parser_symbol(const struct ptx_parser *parser, const struct ptx_token *name)
{
	for (uint32_t i = parser->symbols; i-- > 0;)
		if (same_name(&parser->symbol[i].name, name))
			return &parser->symbol[i];
	return NULL;
}

bool parser_register(const struct ptx_parser *parser, const struct ptx_token *name, uint32_t *reg, enum ptx_type *type)
{
	for (uint32_t i = parser->families; i-- > 0;) { /* the innermost scope first */
		const struct register_family *family = &parser->family[i];
		uint64_t index = 0;
		if (family->numbered) {
			size_t n = family->name.length;
			if (name->length <= n || memcmp(name->text, family->name.text, n) != 0)
				continue;
			size_t digits = strspn(name->text + n, "0123456789");
			index = strtoull(name->text + n, NULL, 10);
			if (digits != name->length - n || index >= family->count)
				continue;
		} else if (!same_name(&family->name, name)) {
			continue;
		}
		*reg = family->first + (uint32_t)index;
		*type = family->type;
		return true;
	}
	return false;
}

/* ".b32" and the like; PTX_NO_TYPE when it is none. */
static enum ptx_type directive_type(const struct ptx_token *token)
{
	static const struct {
		const char *name;
		enum ptx_type type;
	} table[] = {
		{ ".pred", PTX_PRED }, { ".b8", PTX_U8 },   { ".u8", PTX_U8 },   { ".s8", PTX_S8 },
		{ ".b16", PTX_U16 },   { ".u16", PTX_U16 }, { ".s16", PTX_S16 }, { ".f16", PTX_F16 },
		{ ".b32", PTX_U32 },   { ".u32", PTX_U32 }, { ".s32", PTX_S32 }, { ".f32", PTX_F32 },
		{ ".b64", PTX_U64 },   { ".u64", PTX_U64 }, { ".s64", PTX_S64 }, { ".f64", PTX_F64 },
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (ptx_token_is(token, table[i].name))
			return table[i].type;
	return PTX_NO_TYPE;
}

static bool declare_registers(struct ptx_parser *parser)
{
	enum ptx_type type = directive_type(&parser->token);
	if (!type)
		return parser_fail(parser, parser->token.line, "register type '%.*s' is not in the subset",
				   (int)parser->token.length, parser->token.text);
	parser_advance(parser);
	do {
		struct register_family family = { .name = parser->token, .count = 1, .type = type };
		parser_advance(parser);
		if (parser_accept(parser, "<")) {
			family.numbered = true;
			family.count = (uint32_t)parser->token.value;
			parser_advance(parser);
			if (!parser_expect(parser, ">"))
				return false;
		}
		if (family.count > 65536)
			return parser_fail(parser, family.name.line, "%u registers", family.count);
		family.first = parser->kernel->registers;
		parser->kernel->registers += family.count;
		parser->family = pool_grow(&parser->module->pool, parser->family, parser->families, sizeof family);
		parser->family[parser->families++] = family;
	} while (parser_accept(parser, ","));
	return parser_expect(parser, ";");
}

static void add_symbol(struct ptx_parser *parser, struct ptx_token name, enum ptx_space space, uint64_t address)
{
	parser->symbol = pool_grow(&parser->module->pool, parser->symbol, parser->symbols, sizeof *parser->symbol);
	parser->symbol[parser->symbols++] = (struct symbol){ .name = name, .space = space, .address = address };
}

struct variable {
	struct ptx_token name;
	uint64_t align;
	uint64_t element_bytes;
	uint64_t bytes; /* 0: an array of unknown size (dynamic shared memory) */
};

/* After the state space: .align 4 .b8 name[24] */
static bool parse_variable(struct ptx_parser *parser, struct variable *variable)
{
	*variable = (struct variable){ .align = 1 };
	while (parser->token.kind == PTX_WORD && parser->token.text[0] == '.') {
		if (ptx_token_is(&parser->token, ".align")) {
			parser_advance(parser);
			variable->align = parser->token.value;
		} else if (directive_type(&parser->token)) {
			variable->element_bytes = ptx_type_bytes(directive_type(&parser->token));
		} else if (!ptx_token_is(&parser->token, ".ptr") && !ptx_token_is(&parser->token, ".global")) {
			return parser_fail(parser, parser->token.line, "'%.*s' is not in the subset",
					   (int)parser->token.length, parser->token.text);
		}
		parser_advance(parser);
	}
	variable->name = parser->token;
	parser_advance(parser);
	if (variable->element_bytes == 0 || variable->name.kind != PTX_WORD)
		return parser_fail(parser, variable->name.line, "a declaration without type or name");
	if (variable->align < variable->element_bytes)
		variable->align = variable->element_bytes;
	uint64_t count = 1;
	while (parser_accept(parser, "[")) {
		if (parser_accept(parser, "]")) {
			count = 0;
			continue;
		}
		count *= parser->token.value;
		parser_advance(parser);
		if (!parser_expect(parser, "]"))
			return false;
	}
	variable->bytes = count * variable->element_bytes;
	if (variable->bytes > 1u << 30 || variable->align & (variable->align - 1))
		return parser_fail(parser, variable->name.line, "a variable of %llu bytes, aligned at %llu",
				   (unsigned long long)variable->bytes, (unsigned long long)variable->align);
	return true;
}

static uint32_t place(uint32_t *bytes, const struct variable *variable)
{
	uint32_t align = (uint32_t)variable->align;
	uint32_t offset = (*bytes + align - 1) / align * align;
	*bytes = offset + (uint32_t)variable->bytes;
	return offset;
}

static bool parse_initial_values(struct ptx_parser *parser, const struct variable *variable, uint8_t *data)
{
	bool list = parser_accept(parser, "{");
	uint64_t offset = 0;
	do {
		bool negative = parser_accept(parser, "-");
		if (parser->token.kind != PTX_NUMBER)
			return parser_fail(parser, parser->token.line, "initial value '%.*s' is not a number",
					   (int)parser->token.length, parser->token.text);
		uint64_t value = negative ? 0 - parser->token.value : parser->token.value;
		if (offset + variable->element_bytes > variable->bytes)
			return parser_fail(parser, parser->token.line, "more initial values than elements");
		memcpy(data + offset, &value, variable->element_bytes); /* little endian, as the device */
		offset += variable->element_bytes;
		parser_advance(parser);
	} while (list && parser_accept(parser, ","));
	return !list || parser_expect(parser, "}");
}

/* .global and .const variables: a part of the module's image. */
static bool module_variable(struct ptx_parser *parser, enum ptx_space space)
{
	struct ptx_module *module = parser->module;
	struct variable variable;
	if (!parse_variable(parser, &variable))
		return false;
	uint32_t before = module->image_bytes;
	uint32_t offset = place(&module->image_bytes, &variable);
	uint8_t *image = pool_take(&module->pool, module->image_bytes + 1);
	if (before)
		memcpy(image, module->image, before);
	module->image = image;
	add_symbol(parser, variable.name, space, module->image_address + offset);
	if (parser_accept(parser, "=") && !parse_initial_values(parser, &variable, image + offset))
		return false;
	return parser_expect(parser, ";");
}

/* .shared and .local variables of a kernel, or of the module (`extern .shared`). */
static bool kernel_variable(struct ptx_parser *parser, enum ptx_space space)
{
	struct variable variable;
	if (!parse_variable(parser, &variable))
		return false;
	if (!parser->kernel) {
		if (variable.bytes)
			return parser_fail(parser, variable.name.line, "shared memory of the whole module");
		add_symbol(parser, variable.name, space, UINT64_MAX); /* behind each kernel's static shared memory */
		return parser_expect(parser, ";");
	}
	uint32_t *bytes = space == PTX_SHARED ? &parser->kernel->shared_bytes : &parser->kernel->local_bytes;
	uint32_t offset = place(bytes, &variable);
	add_symbol(parser, variable.name, space, variable.bytes ? offset : UINT64_MAX);
	return parser_expect(parser, ";");
}

static bool parse_parameters(struct ptx_parser *parser)
{
	struct ptx_kernel *kernel = parser->kernel;
	if (!parser_accept(parser, "(") || parser_accept(parser, ")"))
		return true;
	do {
		struct variable variable;
		if (!parser_expect(parser, ".param") || !parse_variable(parser, &variable))
			return false;
		uint32_t offset = place(&kernel->parameter_bytes, &variable);
		add_symbol(parser, variable.name, PTX_PARAM, offset);
		kernel->parameter = pool_grow(&parser->module->pool, kernel->parameter, kernel->parameters,
					      sizeof *kernel->parameter);
		kernel->parameter[kernel->parameters++] =
			(struct ptx_parameter){ .offset = offset, .bytes = (uint32_t)variable.bytes };
	} while (parser_accept(parser, ","));
	return parser_expect(parser, ")");
}

/* .maxntid 256, 1, 1 and other hints before the body. */
static bool parse_hints(struct ptx_parser *parser)
{
	while (parser->token.kind == PTX_WORD && parser->token.text[0] == '.') {
		bool limit = ptx_token_is(&parser->token, ".maxntid") || ptx_token_is(&parser->token, ".reqntid");
		uint64_t product = 1;
		parser_advance(parser);
		do {
			if (parser->token.kind != PTX_NUMBER)
				break;
			product *= parser->token.value;
			parser_advance(parser);
		} while (parser_accept(parser, ","));
		if (limit)
			parser->kernel->max_threads = (uint32_t)product;
	}
	return parser_expect(parser, "{");
}

/* .loc 1 33 5: the source line of what follows. */
static void parse_location(struct ptx_parser *parser)
{
	parser_advance(parser);
	parser_advance(parser);
	parser->source_line = (uint32_t)parser->token.value;
	uint32_t line = parser->token.line;
	while (parser->token.kind != PTX_END && parser->token.line == line) /* column, inlining */
		parser_advance(parser);
}

static bool is_label(const struct ptx_parser *parser)
{
	struct ptx_lexer ahead = parser->lexer;
	struct ptx_token next = ptx_next(&ahead);
	return ptx_token_is(&next, ":");
}

static bool parse_statement(struct ptx_parser *parser)
{
	struct ptx_kernel *kernel = parser->kernel;
	struct pool *pool = &parser->module->pool;
	if (parser_accept(parser, ";"))
		return true;
	if (parser_accept(parser, ".reg"))
		return declare_registers(parser);
	if (parser_accept(parser, ".shared"))
		return kernel_variable(parser, PTX_SHARED);
	if (parser_accept(parser, ".local"))
		return kernel_variable(parser, PTX_LOCAL);
	if (ptx_token_is(&parser->token, ".loc")) {
		parse_location(parser);
		return true;
	}
	if (parser_accept(parser, ".pragma")) {
		parser_advance(parser);
		return parser_expect(parser, ";");
	}
	if (parser->token.kind == PTX_WORD && is_label(parser)) {
		parser->label = pool_grow(pool, parser->label, parser->labels, sizeof *parser->label);
		parser->label[parser->labels++] =
			(struct label){ .name = parser->token, .index = kernel->instructions };
		parser_advance(parser);
		return parser_expect(parser, ":");
	}
	kernel->code = pool_grow(pool, kernel->code, kernel->instructions, sizeof *kernel->code);
	struct ptx_instruction *instruction = &kernel->code[kernel->instructions];
	*instruction = (struct ptx_instruction){ .line = parser->token.line, .source_line = parser->source_line };
	if (!ptx_decode(parser, instruction))
		return false;
	kernel->instructions++;
	return true;
}

/* A block in braces; registers declared inside are unknown behind it. */
static bool parse_body(struct ptx_parser *parser)
{
	uint32_t families = parser->families;
	while (!parser_accept(parser, "}")) {
		if (parser->token.kind == PTX_END || parser->token.kind == PTX_BAD)
			return parser_fail(parser, parser->token.line,
					   "the kernel does not end, or a strange character");
		bool fine = parser_accept(parser, "{") ? parse_body(parser) : parse_statement(parser);
		if (!fine)
			return false;
	}
	parser->families = families;
	return true;
}

static bool resolve_jumps(struct ptx_parser *parser)
{
	for (uint32_t i = 0; i < parser->jumps; i++) {
		const struct label *jump = &parser->jump[i], *target = NULL;
		for (uint32_t j = 0; j < parser->labels; j++)
			if (same_name(&parser->label[j].name, &jump->name))
				target = &parser->label[j];
		if (!target)
			return parser_fail(parser, jump->name.line, "no label %.*s", (int)jump->name.length,
					   jump->name.text);
		parser->kernel->code[jump->index].branch_target = target->index;
	}
	return true;
}

/* The end of the code is an exit, so that no program counter runs off it. */
static void append_exit(struct ptx_parser *parser)
{
	struct ptx_kernel *kernel = parser->kernel;
	kernel->code = pool_grow(&parser->module->pool, kernel->code, kernel->instructions, sizeof *kernel->code);
	kernel->code[kernel->instructions++] =
		(struct ptx_instruction){ .flow = PTX_EXIT, .line = parser->token.line, .mnemonic = "exit" };
}

static bool parse_kernel(struct ptx_parser *parser)
{
	struct ptx_module *module = parser->module;
	module->kernel = pool_grow(&module->pool, module->kernel, module->kernels, sizeof *module->kernel);
	struct ptx_kernel *kernel = &module->kernel[module->kernels];
	*kernel = (struct ptx_kernel){ .registers = 1, .max_threads = 1024 };
	kernel->name = pool_text(&module->pool, parser->token.text, parser->token.length);
	parser_advance(parser);
	uint32_t symbols = parser->symbols;
	parser->kernel = kernel;
	parser->families = 0;
	parser->labels = 0;
	parser->jumps = 0;
	parser->source_line = 0;
	/* Register 0: true in all lanes. */
	kernel->constant = pool_grow(&module->pool, kernel->constant, 0, sizeof *kernel->constant);
	kernel->constant[kernel->constants++] = (struct ptx_constant){ .reg = 0, .value = ALL_LANES };
	if (!parse_parameters(parser) || !parse_hints(parser) || !parse_body(parser) || !resolve_jumps(parser))
		return false;
	append_exit(parser);
	parser->symbols = symbols;
	parser->kernel = NULL;
	module->kernels++;
	return true;
}

static bool skip_to_line_end(struct ptx_parser *parser)
{
	uint32_t line = parser->token.line;
	while (parser->token.kind != PTX_END && parser->token.line == line)
		parser_advance(parser);
	return true;
}

/* Line tables of -lineinfo, at the end of the text. */
static bool skip_section(struct ptx_parser *parser)
{
	while (parser->token.kind != PTX_END && !ptx_token_is(&parser->token, "}"))
		parser_advance(parser);
	return parser_expect(parser, "}");
}

static bool parse_directive(struct ptx_parser *parser)
{
	struct ptx_module *module = parser->module;
	struct ptx_token token = parser->token;
	parser_advance(parser);
	if (ptx_token_is(&token, ".version")) {
		char *end;
		unsigned long major = strtoul(parser->token.text, &end, 10);
		module->version = (uint32_t)(10 * major + strtoul(end + 1, NULL, 10));
		parser_advance(parser);
		return true;
	}
	if (ptx_token_is(&token, ".target")) {
		if (parser->token.length > 3 && memcmp(parser->token.text, "sm_", 3) == 0)
			module->target = (uint32_t)strtoul(parser->token.text + 3, NULL, 10);
		return skip_to_line_end(parser);
	}
	if (ptx_token_is(&token, ".address_size") || ptx_token_is(&token, ".file"))
		return skip_to_line_end(parser);
	if (ptx_token_is(&token, ".section"))
		return skip_section(parser);
	if (ptx_token_is(&token, ".visible") || ptx_token_is(&token, ".extern") || ptx_token_is(&token, ".weak"))
		return true;
	if (ptx_token_is(&token, ".entry"))
		return parse_kernel(parser);
	if (ptx_token_is(&token, ".global"))
		return module_variable(parser, PTX_GLOBAL);
	if (ptx_token_is(&token, ".const"))
		return module_variable(parser, PTX_CONST);
	if (ptx_token_is(&token, ".shared"))
		return kernel_variable(parser, PTX_SHARED);
	return parser_fail(parser, token.line, "'%.*s' is not in the subset", (int)token.length, token.text);
}

bool ptx_parse(struct ptx_module *module, const char *text, uint64_t image_address, char *message, size_t message_bytes)
{
	*module = (struct ptx_module){ .image_address = image_address };
	struct ptx_parser parser = { .module = module,
				     .lexer = { .cursor = text, .line = 1 },
				     .message = message,
				     .message_bytes = message_bytes };
	parser_advance(&parser);
	while (!parser.failed && parser.token.kind != PTX_END)
		parse_directive(&parser);
	if (!parser.failed && module->version == 0)
		parser_fail(&parser, 1, "no .version: this is no PTX text");
	return !parser.failed;
}

void ptx_free(struct ptx_module *module)
{
	pool_free(&module->pool);
}

struct ptx_kernel *ptx_find(const struct ptx_module *module, const char *name)
{
	for (uint32_t i = 0; i < module->kernels; i++)
		if (strcmp(module->kernel[i].name, name) == 0)
			return &module->kernel[i];
	return NULL;
}
