/* status.c - the sentence of the last failure, kept for each thread. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char sentence[TARN_ERROR_BYTES];

enum tarn_status tarn_fail(enum tarn_status status, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(sentence, sizeof sentence, format, arguments);
	va_end(arguments);
	return status;
}

enum tarn_status tarn_fail_prefix(enum tarn_status status, const char *format, ...)
{
	char prefix[TARN_ERROR_BYTES / 2], old[TARN_ERROR_BYTES];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(prefix, sizeof prefix, format, arguments);
	va_end(arguments);
	memcpy(old, sentence, sizeof old);
	size_t used = (size_t)snprintf(sentence, sizeof sentence, "%s: ", prefix);
	strncpy(sentence + used, old, sizeof sentence - used - 1);
	sentence[sizeof sentence - 1] = '\0';
	return status;
}

void tarn_error_clear(void)
{
	sentence[0] = '\0';
}

const char *tarn_error(void)
{
	return sentence;
}
