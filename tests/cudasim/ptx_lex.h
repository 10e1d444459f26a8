/*
 * ptx_lex.h - PTX text as tokens. Comments and white space go; dots belong to words, so that an instruction's mnemonic
 * (ld.global.v4.f32) and a special register (%tid.x) are one token each.
 */
#ifndef CUDASIM_PTX_LEX_H
#define CUDASIM_PTX_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ptx_token_kind { PTX_END, PTX_WORD, PTX_NUMBER, PTX_STRING, PTX_PUNCTUATION, PTX_BAD };

struct ptx_token {
	enum ptx_token_kind kind;
	const char *text;
	size_t length;
	uint64_t value;     /* of a number; of a 0f or 0d literal its bits */
	uint8_t float_bits; /* 32 or 64 for those, else 0 */
	uint32_t line;
};

struct ptx_lexer {
	const char *cursor;
	uint32_t line;
};

/* A bad character or an unfinished comment is a PTX_BAD token; after the text's end only PTX_END follows. */
struct ptx_token ptx_next(struct ptx_lexer *lexer);
bool ptx_token_is(const struct ptx_token *token, const char *text);

#endif
