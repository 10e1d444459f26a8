/* tokens.c - see tokens.h. */
#include "data/tokens.h"

#include "base/regular_file.h"
#include "data/files.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum tarn_status tokens_shape(const struct config *config, struct sample_shape *shape)
{
	if (config->data.classes < 2 || config->data.classes > INT32_MAX)
		return tarn_fail(TARN_EINVAL, "data.classes is %u; a vocabulary has 2 to 2^31 - 1 tokens",
				 config->data.classes);
	if (!config->data.context)
		return tarn_fail(TARN_EINVAL, "data.context is 0; a sample of tokens has at least 1");
	if (config->network.loss != LOSS_CROSS_ENTROPY)
		return tarn_fail(TARN_EINVAL,
				 "tokens have labels: with data.context network.loss must be cross_entropy");
	shape->rank = shape->target_rank = 1;
	shape->dim[0] = shape->target_dim[0] = config->data.context;
	shape->vocabulary = shape->classes = config->data.classes;
	return TARN_OK;
}

static uint32_t width_of(const struct config *config)
{
	return config->data.token_type == TOKEN_UINT16 ? 2 : 1;
}

/* Opens the split's file; *fd is -1 where the split has none. */
static enum tarn_status open_file(const struct config *config, enum data_split split, struct host_arena *arena,
				  const char **path, int *fd, uint64_t *bytes)
{
	bool train = split == SPLIT_TRAIN;
	const char *name = train ? config->data.train_inputs : config->data.test_inputs;
	*fd = -1;
	if (!*name && !train)
		return TARN_OK;
	if (!*name)
		return tarn_fail(TARN_EINVAL, "data.train_inputs is empty; it names the file of tokens to train on");
	enum tarn_status st = files_join(config, train ? "train_inputs" : "test_inputs", name, arena, path);
	return st ? st : regular_file_open(*path, fd, bytes);
}

static enum tarn_status count_samples(const struct config *config, const char *path, uint64_t bytes, uint32_t *samples)
{
	uint64_t width = width_of(config), tokens = bytes / width, context = config->data.context;
	if (bytes % width)
		return tarn_fail(TARN_EFORMAT, "%s: %llu bytes are no whole number of uint16 tokens", path,
				 (unsigned long long)bytes);
	if (tokens <= context)
		return tarn_fail(TARN_EDATA,
				 "%s: %llu tokens are too few for one sample; data.context is %llu and the last token "
				 "needs one after it, so %llu are needed",
				 path, (unsigned long long)tokens, (unsigned long long)context,
				 (unsigned long long)context + 1);
	if ((tokens - 1) / context > UINT32_MAX)
		return tarn_fail(TARN_EDATA, "%s: %llu samples are more than 2^32", path,
				 (unsigned long long)((tokens - 1) / context));
	*samples = (uint32_t)((tokens - 1) / context);
	return TARN_OK;
}

enum tarn_status tokens_describe(const struct config *config, enum data_split split, struct host_arena *arena,
				 uint32_t *samples, struct sample_shape *shape)
{
	const char *path;
	uint64_t bytes;
	int fd;
	memset(shape, 0, sizeof *shape);
	*samples = 0;
	enum tarn_status st = tokens_shape(config, shape);
	if (!st)
		st = open_file(config, split, arena, &path, &fd, &bytes);
	if (st || fd < 0)
		return st;
	close(fd);
	return count_samples(config, path, bytes, samples);
}

static enum tarn_status read_all(int fd, const char *path, uint8_t *data, uint64_t bytes)
{
	for (uint64_t done = 0; done < bytes;) {
		ssize_t n = read(fd, data + done, bytes - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return tarn_fail(TARN_EIO, "%s: cannot read: %s", path, strerror(errno));
		if (!n)
			return tarn_fail(TARN_EIO, "%s: changed while it was read", path);
		done += (uint64_t)n;
	}
	return TARN_OK;
}

static uint32_t token_at(const struct dataset *dataset, uint64_t index)
{
	if (dataset->token_bytes == 4)
		return (uint32_t)((const int32_t *)dataset->tokens)[index];
	const uint8_t *at = (const uint8_t *)dataset->tokens + index * dataset->token_bytes;
	return dataset->token_bytes == 2 ? (uint32_t)at[0] | (uint32_t)at[1] << 8 : at[0];
}

static enum tarn_status check_tokens(const struct dataset *dataset, const char *path)
{
	uint64_t tokens = dataset->samples * dataset->sample_elements + 1;
	for (uint64_t i = 0; i < tokens; i++)
		if (token_at(dataset, i) >= dataset->shape.vocabulary)
			return tarn_fail(TARN_EDATA, "%s: token %llu is %u; allowed are 0 to %u (data.classes)", path,
					 (unsigned long long)i, token_at(dataset, i), dataset->shape.vocabulary - 1);
	return TARN_OK;
}

enum tarn_status tokens_fill(struct dataset *dataset, enum data_split split, struct host_arena *arena)
{
	const char *path;
	uint64_t bytes, needed = (dataset->samples * dataset->sample_elements + 1) * width_of(dataset->config);
	int fd;
	enum tarn_status st = open_file(dataset->config, split, arena, &path, &fd, &bytes);
	if (st)
		return st;
	uint8_t *data = HOST_ARRAY(arena, needed, uint8_t);
	if (!data)
		st = tarn_fail_prefix(TARN_ENOMEM, "%s", path);
	if (!st)
		st = read_all(fd, path, data, needed);
	close(fd);
	if (st)
		return st;
	dataset->tokens = data;
	dataset->token_bytes = width_of(dataset->config);
	return check_tokens(dataset, path);
}

void tokens_read(const struct dataset *dataset, uint64_t first, uint64_t count, void *out)
{
	int32_t *id = out;
	for (uint64_t i = 0; i < count; i++)
		id[i] = (int32_t)token_at(dataset, first + i);
}
