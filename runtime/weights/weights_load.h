/*
 * weights_load.h - a network starts from the weights in a file: a snapshot, or one with PyTorch's names.
 *
 * Parameters, running statistics and counters are read; optimizer state and position are not, and moving averages begin
 * at the weights. Every tensor of the network must be there with its shape, and every one of the file must be used, but
 * for what `skip` names: own or foreign names, as globs; those keep their initial values.
 */
#ifndef TARN_WEIGHTS_LOAD_H
#define TARN_WEIGHTS_LOAD_H

#include "config/config.h"
#include "exec/exec.h"

struct weights_request {
	const char *path;             /* the file */
	const char *map;              /* path of a map (models/exchange.h); "" none */
	const struct text_list *skip; /* patterns */
};

/*
 * Boot: writes the tensors into the arena. *report: lines that name what was loaded and what was not, in `arena`.
 * TARN_EFORMAT with three lists (missing, unexpected, shape a vs b) before anything is written; TARN_EINVAL for a
 * pattern that names nothing; TARN_EIO, TARN_EUNSUPPORTED.
 */
enum tarn_status weights_load(struct executor *executor, const struct weights_request *request,
			      struct host_arena *arena, const char **report);

/* A whole text file, zero-terminated, at most 16 MiB: maps. */
enum tarn_status weights_read_text(const char *path, struct host_arena *arena, const char **text);

#endif
