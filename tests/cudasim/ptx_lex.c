#include "ptx_lex.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* False: a comment has no end. */
static bool skip_space(struct ptx_lexer *lexer)
{
	for (;;) {
		const char *c = lexer->cursor;
		if (*c == '\n') {
			lexer->line++;
			lexer->cursor++;
		} else if (isspace((unsigned char)*c)) {
			lexer->cursor++;
		} else if (c[0] == '/' && c[1] == '/') {
			lexer->cursor += strcspn(c, "\n");
		} else if (c[0] == '/' && c[1] == '*') {
			const char *end = strstr(c + 2, "*/");
			if (!end)
				return false;
			for (; c < end; c++)
				lexer->line += *c == '\n';
			lexer->cursor = end + 2;
		} else {
			return true;
		}
	}
}

static bool word_character(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

static void number(struct ptx_token *token)
{
	const char *text = token->text;
	char *end;
	if (text[0] == '0' && (tolower((unsigned char)text[1]) == 'f' || tolower((unsigned char)text[1]) == 'd')) {
		token->float_bits = tolower((unsigned char)text[1]) == 'f' ? 32 : 64;
		token->value = strtoull(text + 2, &end, 16);
		if (end != text + 2 + token->float_bits / 4)
			token->kind = PTX_BAD;
	} else if (text[0] == '0' && tolower((unsigned char)text[1]) == 'b') {
		token->value = strtoull(text + 2, &end, 2);
	} else {
		token->value = strtoull(text, &end, 0);
	}
	if (*end == 'U')
		end++;
	if (end != text + token->length && token->kind != PTX_BAD) /* .version 9.0 */
		token->kind = PTX_WORD;
}

struct ptx_token ptx_next(struct ptx_lexer *lexer)
{
	bool whole = skip_space(lexer);
	const char *start = lexer->cursor;
	struct ptx_token token = { .kind = PTX_PUNCTUATION, .text = start, .length = 1, .line = lexer->line };
	if (!whole) {
		token.kind = PTX_BAD;
	} else if (!*start) {
		token.kind = PTX_END;
		token.length = 0;
	} else if (*start == '"') {
		token.kind = PTX_STRING;
		token.length = strcspn(start + 1, "\"\n") + 1;
		if (start[token.length] == '"')
			token.length++;
		else
			token.kind = PTX_BAD;
	} else if (word_character(*start)) {
		token.kind = isdigit((unsigned char)*start) ? PTX_NUMBER : PTX_WORD;
		while (word_character(start[token.length]) ||
		       (start[token.length] == ':' && start[token.length + 1] == ':'))
			token.length += start[token.length] == ':' ? 2 : 1;
		if (token.kind == PTX_NUMBER)
			number(&token);
	} else if (!strchr("{}[]()<>,;:+-!@|=", *start)) {
		token.kind = PTX_BAD;
	}
	lexer->cursor += token.length;
	return token;
}

bool ptx_token_is(const struct ptx_token *token, const char *text)
{
	return token->length == strlen(text) && memcmp(token->text, text, token->length) == 0;
}
