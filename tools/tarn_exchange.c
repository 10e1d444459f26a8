/* tarn_exchange.c - `tarn export` and `tarn import`: weights for and from PyTorch. */
#include "command.h"

#include "base/bytes.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>

struct exchange_arguments {
	const char *file, *output, *map;
	bool json, help;
};

static enum tarn_status parse_export(int argc, char **argv, struct exchange_arguments *out)
{
	for (int i = 1; i < argc; i++) {
		const char **value = !strcmp(argv[i], "-o")      ? &out->output
				     : !strcmp(argv[i], "--map") ? &out->map
								 : NULL;
		if (value && i + 1 == argc)
			return tarn_fail(TARN_EINVAL, "export: %s needs a value", argv[i]);
		if (value)
			*value = argv[++i];
		else if (!strcmp(argv[i], "--json"))
			out->json = true;
		else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			out->help = true;
		else if (argv[i][0] == '-')
			return tarn_fail(TARN_EINVAL, "export: unknown option %s; see `tarn help export`", argv[i]);
		else if (out->file)
			return tarn_fail(TARN_EINVAL, "export: one argument too many: %s", argv[i]);
		else
			out->file = argv[i];
	}
	if (out->help)
		return TARN_OK;
	if (!out->file)
		return tarn_fail(TARN_EINVAL, "export: which snapshot? See `tarn help export`");
	if (!out->output)
		return tarn_fail(TARN_EINVAL, "export: -o FILE.safetensors or FILE.npz says where to");
	return TARN_OK;
}

int command_export(int argc, char **argv)
{
	struct exchange_arguments arguments = { .json = false };
	struct tarn_exported exported;
	char bytes[BYTES_TEXT];
	enum tarn_status st = parse_export(argc, argv, &arguments);
	if (!st && arguments.help) {
		print_command_help("export");
		return 0;
	}
	if (!st)
		st = tarn_export(arguments.file, arguments.output, arguments.map, &exported);
	if (st)
		return command_fail(st);
	if (arguments.json) {
		printf("{\"tensors\": %u, \"bytes\": %llu, ", exported.tensors, (unsigned long long)exported.bytes);
		json_text("names", exported.family);
		printf(", \"averages\": %s}\n", exported.averages ? "true" : "false");
		return 0;
	}
	printf("%s: %u tensors, %s, %s%s%s\n", arguments.output, exported.tensors,
	       bytes_format(exported.bytes, bytes, sizeof bytes),
	       exported.family[0] ? "named as PyTorch's " : "named as the layers, with points", exported.family,
	       exported.averages ? "; the averages of train.ema" : "");
	return 0;
}

int command_import(int argc, char **argv)
{
	static char initialize[4200], map[4200];
	struct arguments arguments;
	struct tarn_session *session = NULL;
	struct tarn_plan_info info;
	enum tarn_status st =
		arguments_parse(argc, argv, ARGUMENT_CONFIG | ARGUMENT_IMPORT | ARGUMENT_OUTPUT, &arguments);
	if (st)
		return command_fail(st);
	if (arguments.help) {
		print_command_help("import");
		return 0;
	}
	if (!arguments.weights || !arguments.output)
		return command_fail(tarn_fail(TARN_EINVAL, "import: %s; see `tarn help import`",
					      arguments.weights ? "-o SNAPSHOT says where to" : "which weights?"));
	snprintf(initialize, sizeof initialize, "train.initialize=%s", arguments.weights);
	snprintf(map, sizeof map, "train.initialize_map=%s", arguments.map ? arguments.map : "");
	arguments.override[arguments.options.overrides++] = initialize;
	arguments.override[arguments.options.overrides++] = "train.snapshot=";
	if (arguments.map)
		arguments.override[arguments.options.overrides++] = map;
	st = tarn_open(&arguments.options, &session);
	if (!st)
		st = tarn_save(session, arguments.output);
	if (!st)
		st = tarn_plan_info(session, &info);
	if (!st)
		printf("%s%s: a snapshot at step 0, for --resume, --weights and train.initialize\n", info.initialized,
		       arguments.output);
	tarn_close(session);
	return st ? command_fail(st) : 0;
}
