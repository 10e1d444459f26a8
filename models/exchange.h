/*
 * exchange.h - what the tensors of a network are called elsewhere: PyTorch's names and layouts.
 *
 * Tarn's weights have PyTorch's element order already; what differs is the name, and for a few tensors the layout. The
 * tables of exchange.c, one a family, say both: torchvision's names for resnet, resnet_imagenet, vgg, densenet,
 * mobilenetv2 and vit, GPT-2's (transformer.h.N.attn.c_attn, its factors transposed) for gpt. Any other network gets
 * its own names with points instead of slashes, as modules inside modules have them.
 *
 * A family is known by its names: the table that knows every one of them. A map given by the user goes before it.
 */
#ifndef TARN_MODELS_EXCHANGE_H
#define TARN_MODELS_EXCHANGE_H

#include "base/host_arena.h"

#include <stdbool.h>

enum exchange_kind {
	EXCHANGE_PLAIN,
	EXCHANGE_TRANSPOSED, /* a matrix with rows and columns changed */
	EXCHANGE_BIAS, /* of a convolution in front of a batch norm, which has none here: `own` is the running mean */
	EXCHANGE_TWIN  /* a second name of the same values: the head that shares the embedding's table */
};

struct exchange_entry {
	const char *own, *foreign;
	uint32_t kind; /* enum exchange_kind */
	uint32_t ones; /* dimensions of 1 that the foreign shape has in front of the own one */
};

struct exchange {
	const char *family; /* "resnet"; "" when the names are the own ones with points */
	struct exchange_entry *entry;
	uint32_t entries;
	const char *prefix;         /* that foreign files may leave out; "" none */
	const char *const *ignored; /* patterns of foreign names that hold no weights; ends with NULL */
};

/*
 * One entry for each of `name[0..count)` ("conv1/weight"; parameters, running statistics, counters), then those of
 * EXCHANGE_BIAS and EXCHANGE_TWIN. `map` is the text of a map, NULL for none: a line a tensor, "OWN FOREIGN" or "OWN
 * FOREIGN transposed", # begins a comment. TARN_EINVAL with the line for a map that is wrong; TARN_ENOMEM.
 */
enum tarn_status exchange_build(const char *const *name, uint32_t count, const char *map, struct host_arena *arena,
				struct exchange *out);

#endif
