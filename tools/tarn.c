/* tarn.c - the command line: finds the command and leaves the rest to it. */
#include "command.h"

#include "config/config.h"
#include "driver.h"
#include "graph/build.h"
#ifdef CONFIG_PLANNER
#include "models/models.h"
#endif

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One entry a command: how it is called, and what its options do. */
static const struct {
	const char *name, *usage, *help;
} manual[] = {
#ifdef CONFIG_PLANNER
	{ "plan",
	  "tarn plan CONFIG [key=value ...] [--json] [-o FILE.plan] [--explain] [--summary] [--svg FILE.svg] "
	  "[--print]\n"
	  "            [--html FILE.html] [--dump-dag FILE.json] [--device DEVICE.json]",
	  "Plans a run and says what it will need.\n"
	  "  --device FILE  plans for a GPU that is not here, described in FILE (configs/devices has some)\n"
	  "  -o FILE      writes the plan, for `tarn train --plan` and builds without planner\n"
	  "  --summary    shows the network as a table: op, result, parameters, bytes and floating-point operations of "
	  "each\n"
	  "               layer; with --json all that is needed to build it elsewhere (tools/compare_torch.py)\n"
	  "  --explain    says why: what is in memory at the peak, kept, computed again, in place, and what other "
	  "budgets\n"
	  "               would cost; with --json as `explanation`\n"
	  "  --svg FILE   draws the arena over one training step, and the time over the budget\n"
	  "  --html FILE  the same and more as one page for a browser: bytes by section, names, live bytes\n"
	  "  --print      lists tensors, instructions and offsets of every program\n"
	  "  --dump-dag FILE  writes the training step as a graph for `tarn dag`, and says what time that finds within "
	  "the\n"
	  "               same budget: `dag_time_ns` in JSON. There only bytes are summed and nothing happens in "
	  "place;\n"
	  "               memory.in_place=false plans the network without it too\n"
	  "  --json       one line of JSON instead of the summary\n" },
	{ "fit", "tarn fit CONFIG [key=value ...] [--vary KEY] [--device DEVICE.json] [--json] [--svg FILE.svg]",
	  "Will it fit? Says the smallest budget, and the largest batch within memory.budget, each with the expected "
	  "extra\n"
	  "compute. Only plans: nothing is trained, and no data are read beyond their sizes.\n"
	  "  --vary KEY     the largest value of another numeric key, for example model.depth or data.context\n"
	  "  --device FILE  for a GPU that is not here\n"
	  "  --svg FILE     draws the memory over the values tried\n"
	  "  --json         one line of JSON\n" },
	{ "pack", "tarn pack BUFFERS.csv [--capacity BYTES] [--timeout SECONDS] [-o OUT.csv] [--json]",
	  "Packs buffers with fixed lives into one arena: the columns are id, lower, upper and size, and may be "
	  "alignment\n"
	  "and pinned; a buffer lives in [lower, upper). Prints a line of JSON. Without a capacity the height is "
	  "minimised;\n"
	  "with one, exit code 3 says that it is proved to be too small, 4 that this is unknown.\n"
	  "  --timeout SECONDS   allows work for so long, then stops with the best so far\n"
	  "  -o OUT.csv          writes the buffers with their offsets, when they fit\n" },
#ifdef CONFIG_YAML
	{ "dag",
	  "tarn dag GRAPH.json --budget BYTES [--strategy NAME] [--effort fast|normal|max] [--seed N] [-o "
	  "SCHEDULE.txt] "
	  "[--json] [--min-peak] [--sweep N]",
	  "Plans an abstract training graph: which ops to compute when, and again, so that the bytes live at once "
	  "fit.\n"
	  "  --budget BYTES   of all that is live, sources included\n"
	  "  --strategy NAME  auto (default), none, memory_poor, sqrt, speed, min\n"
	  "  --effort LEVEL   how long the search goes on, in rounds; normal takes at most about two seconds for a "
	  "few\n"
	  "                   hundred ops, max a minute\n"
	  "  --seed N         of the search; same seed, same schedule\n"
	  "  -o FILE          writes the schedule: `c ID` computes, `f ID` frees\n"
	  "  --min-peak       looks for the smallest budget\n"
	  "  --sweep N        plans N budgets from the smallest to that of keeping everything, a line of JSON each\n"
	  "  --json           one line of JSON\n"
	  "Three keys of a node go beyond bytes and time: `once: true` for an op that may not run again, `after: "
	  "[IDS]` for\n"
	  "ops whose runs all come before, `with: ID` for another output of the op just before (its time is 0).\n"
	  "Exit codes: 0 planned; 3 no schedule fits, which is proved; 4 none was found.\n" },
	{ "calibrate", "tarn calibrate CONFIG [key=value ...] -o COSTS.txt",
	  "Measures what each op of a run costs here; device.costs=COSTS.txt then plans with it.\n"
	  "  -o FILE  the measured costs, as text\n" },
#endif
	{ "train",
	  "tarn train CONFIG | --plan FILE.plan [key=value ...] [--json] [--max-steps N] [--resume SNAPSHOT] "
	  "[--lockdown]\n"
	  "             [--quiet | --verbose]",
#else
	{ "train",
	  "tarn train --plan FILE.plan [key=value ...] [--json] [--max-steps N] [--resume SNAPSHOT] [--lockdown]\n"
	  "             [--quiet | --verbose]",
#endif
	  "Trains, evaluates on the test set, writes a snapshot. Ctrl-C ends the step and writes a snapshot first.\n"
	  "train.run=FOLDER keeps plan, metrics and result of the run for `tarn report`.\n"
	  "  --max-steps N      the same as train.max_steps=N\n"
	  "  --resume SNAPSHOT  goes on from there, to the bit\n"
	  "  --lockdown         after boot the process may map no more memory, run no program, open no socket (Linux "
	  "seccomp)\n"
	  "                     and no file but in the folders of the snapshots (Landlock)\n"
	  "  --quiet            shows the result alone\n"
	  "  --verbose          before the first step the whole table of layers, and why the plan is as it is\n"
	  "  --json             a line of JSON each train.log_every steps (means since the line before), then one "
	  "with\n"
	  "                     the result, whose `loss` is that of the last step\n" },
#ifdef CONFIG_PLANNER
	{ "eval", "tarn eval CONFIG | --plan FILE.plan --weights SNAPSHOT [key=value ...] [--json]",
#else
	{ "eval", "tarn eval --plan FILE.plan --weights SNAPSHOT [key=value ...] [--json]",
#endif
	  "Loss and accuracy of a snapshot on the test set.\n" },
	{ "report", "tarn report RUN [RUN ...] -o FILE.html",
	  "One page for a browser about what training runs left in their folders (train.run): loss, accuracy, learning "
	  "rate,\n"
	  "throughput, memory and time as planned and as measured, the arena. Several runs are compared.\n"
	  "  -o FILE  the page; it needs nothing else\n" },
	{ "export", "tarn export SNAPSHOT -o FILE.safetensors|FILE.npz [--map FILE] [--json]",
	  "The weights of a snapshot for PyTorch: load_state_dict(safetensors.torch.load_file(FILE)) takes them.\n"
	  "Names and layouts are torchvision's for resnet, resnet_imagenet, vgg, densenet, mobilenetv2 and vit, "
	  "GPT-2's\n"
	  "for gpt; of other networks the own names with points (docs/weights.md).\n"
	  "  --map FILE  other names: a line a tensor, OWN OTHER, or OWN OTHER transposed\n" },
#ifdef CONFIG_PLANNER
	{ "import",
	  "tarn import WEIGHTS.safetensors|WEIGHTS.npz --config CONFIG [key=value ...] -o SNAPSHOT [--map FILE]",
	  "Weights with PyTorch's names as a snapshot of the network in CONFIG, at step 0. Every tensor must be there "
	  "and\n"
	  "fit, but for what train.initialize_skip names; a training can also take the file as train.initialize.\n"
	  "  --map FILE  other names, as for export\n" },
#endif
#ifdef CONFIG_PLANNER
	{ "predict", "tarn predict CONFIG --weights FILE INPUT ... [key=value ...] [--csv]",
	  "What the network says of each input: class and probabilities, or its values; a line of JSON a sample.\n"
	  "Inputs are npy and IDX files (one sample or many), PNG, PPM and PGM images, and for networks of tokens\n"
	  "files of bytes, of which the last data.context count and the next token is predicted.\n"
	  "  --weights FILE  a snapshot, or safetensors or npz with PyTorch's names\n"
	  "  --csv           a table instead of JSON\n"
	  "Where the training data are not at hand, data.synthetic=true data.shape=[28,28,1] data.classes=10 stand "
	  "in.\n" },
	{ "sample",
	  "tarn sample CONFIG --weights FILE [--prompt TEXT] [--length N] [--temperature T] [--top K] [--seed S]\n"
	  "            [--count N] [-o IMAGE.pgm] [key=value ...]",
	  "Draws from a network that learned to: text after a prompt from gpt, lstm and gru, images from pixelcnn and\n"
	  "pixelcnnpp. The same seed gives the same sample.\n"
	  "  --length N       tokens to write; default 256\n"
	  "  --temperature T  below 1 bolder, above 1 more varied; 0: always the likeliest. Default 1\n"
	  "  --top K          only among the K likeliest; default all\n"
	  "  --count N        images side by side in the file; default 1\n"
	  "  -o FILE          images: a PGM or PPM file\n" },
#endif
	{ "hvp",
	  "tarn hvp CONFIG | --plan FILE.plan [key=value ...] [--weights SNAPSHOT] [--vector SNAPSHOT] [-o FILE.npy] "
	  "[--json]",
	  "Asks about the Hessian of the mean loss over the training set, by products with it, inside memory.budget.\n"
	  "hvp.task says what: product, trace, diagonal, eigenvalues, density, hessian; see `tarn help hvp`.\n"
	  "  --weights SNAPSHOT  at these weights; else at the initial ones\n"
	  "  --vector SNAPSHOT   product: the parameters in there are the vector; else it is random\n"
	  "  -o FILE.npy         writes the product, the diagonal or the whole matrix, in the order that --json "
	  "names\n" },
#ifdef CONFIG_PLANNER
	{ "laplace", "tarn laplace CONFIG --weights SNAPSHOT [key=value ...] [-o FILE.npy] [--json]",
	  "How sure the last layer is: its Laplace approximation (Daxberger et al. 2021), fitted to the training set, "
	  "and what\n"
	  "it says of the test set. laplace.covariance and laplace.prior_precision say how; see `tarn help laplace`.\n"
	  "  -o FILE.npy  writes the variance of each logit of each test sample\n" },
	{ "prune", "tarn prune CONFIG --weights SNAPSHOT --fraction NUMBER -o SNAPSHOT [key=value ...] [--json]",
	  "Sets the least important weights to 0 and keeps masks, so that they stay 0 in further training with\n"
	  "optimizer.masks: true. Importance is the Hessian's diagonal times the squared weight (LeCun et al. 1990);\n"
	  "the diagonal is estimated as `tarn hvp hvp.task=diagonal` does.\n"
	  "  --fraction NUMBER  of all weights in matrices and kernels, such as 0.8; those pruned before count\n"
	  "  -o SNAPSHOT        the pruned weights; `tarn train --resume` goes on from there\n" },
#endif
	{ "tokens", "tarn tokens TEXT ... -o TRAIN.tokens [--test TEST.tokens [--test-share PERCENT]]",
	  "Text files, one after the other, as byte tokens for data.type: tokens.\n"
	  "  -o FILE               the tokens to train on\n"
	  "  --test FILE           the last part of them, to evaluate on\n"
	  "  --test-share PERCENT  how large that part is; default 10\n" },
	{ "verify", "tarn verify FILE.plan [--json]",
	  "Replays a plan symbolically; refuses it with the first violation.\n" },
	{ "info", "tarn info [--json]", "What this build can do and what this machine has.\n" },
#ifdef CONFIG_PLANNER
	{ "help", "tarn help [COMMAND | config | KEY | layers | models | schema]",
	  "Commands; keys of the configuration; layers; networks; a JSON Schema for editors.\n" },
#else
	{ "help", "tarn help [COMMAND | config | KEY]", "Commands; keys that a run may override.\n" },
#endif
};
#define COMMANDS_WITH_HELP (sizeof manual / sizeof *manual)

static void print_usage(FILE *out)
{
	fputs("tarn " TARN_VERSION " - trains neural networks inside one fixed pool of memory\n\n", out);
	for (size_t i = 0; i < COMMANDS_WITH_HELP; i++)
		fprintf(out, "  %s\n", manual[i].usage);
	fputs("\n"
#ifdef CONFIG_PLANNER
	      "`tarn help COMMAND` says more. CONFIG is a YAML file; key=value overrides one of its keys, for example\n"
	      "memory.budget=24MiB.\n"
#else
	      "`tarn help COMMAND` says more. This build only runs plans; key=value overrides, for example "
	      "train.epochs=2.\n"
#endif
	      "Exit codes: 0 done; 1 internal fault; 2 bad arguments or configuration; 3 the budget cannot be met;\n"
	      "4 the planner could not decide; 5 file cannot be read or written; 6 corrupt file; 7 plan refused; 8 not "
	      "supported here; 9 host memory;\n"
	      "10 bad data; 11 the loss or a weight is not finite; 12 the device failed; 130 stopped by a signal, "
	      "after a snapshot where\n"
	      "train.snapshot is set; a second signal does not wait for it.\n",
	      out);
}

bool print_command_help(const char *name)
{
	for (size_t i = 0; i < COMMANDS_WITH_HELP; i++)
		if (!strcmp(name, manual[i].name)) {
			printf("%s\n\n%s", manual[i].usage, manual[i].help);
			return true;
		}
	return false;
}

static int command_help(int argc, char **argv)
{
	const char *topic = argc > 1 ? argv[1] : "";
	if (argc > 2) {
		fprintf(stderr, "tarn: help: one topic at a time; \"%s\" is one too many\n", argv[2]);
		return TARN_EINVAL;
	}
	if (!*topic) {
		print_usage(stdout);
		return 0;
	}
	if (print_command_help(topic))
		return 0;
	if (!strcmp(topic, "config"))
		return config_help(stdout, NULL) ? command_fail(TARN_EINVAL) : 0;
	if (!strcmp(topic, "schema")) {
		config_json_schema(stdout);
		return 0;
	}
	if (!strcmp(topic, "config-markdown")) {
		config_markdown(stdout);
		return 0;
	}
#ifdef CONFIG_PLANNER
	if (!strcmp(topic, "layers")) {
		layers_help(stdout);
		return 0;
	}
	if (!strcmp(topic, "models")) {
		models_help(stdout);
		return 0;
	}
#endif
	return config_help(stdout, topic) ? command_fail(TARN_EINVAL) : 0;
}

static void print_feature(const char *name, bool present, const char *meaning)
{
	printf("  %-10s %-4s %s\n", name, present ? "yes" : "no", meaning);
}

static void tell_text(void *context, const char *name, const char *text)
{
	(void)context;
	printf("       %s: %s\n", name, text);
}

static void tell_json(void *context, const char *name, const char *text)
{
	(void)context;
	printf(", ");
	json_text(name, text);
}

static void print_drivers_json(void)
{
	printf("{\"version\": \"%s\", \"drivers\": {", TARN_VERSION);
	for (uint32_t i = 0; i < driver_table_count; i++) {
		const struct driver_ops *driver = driver_table[i];
		enum tarn_status st = driver->probe();
		printf("%s\"%s\": {\"ready\": %s, ", i ? ", " : "", driver->name, st ? "false" : "true");
		json_text("state", st ? tarn_error() : "ready");
		if (driver->info)
			driver->info(tell_json, NULL);
		printf("}");
	}
	printf("}}\n");
}

static int command_info(int argc, char **argv)
{
	bool json = argc == 2 && !strcmp(argv[1], "--json");
	if (argc > 1 && !json) {
		fprintf(stderr, "tarn: info: unknown argument %s; it takes --json or nothing\n", argv[1]);
		return TARN_EINVAL;
	}
	if (json) {
		print_drivers_json();
		return 0;
	}
	bool planner = false, yaml = false, lockdown = false, checks = false;
#ifdef CONFIG_PLANNER
	planner = true;
#endif
#ifdef CONFIG_YAML
	yaml = true;
#endif
#ifdef CONFIG_LOCKDOWN
	lockdown = true;
#endif
#ifdef CONFIG_DEBUG_CHECKS
	checks = true;
#endif
	printf("tarn %s, %ld processor cores\n\nbuild\n", TARN_VERSION, sysconf(_SC_NPROCESSORS_ONLN));
	print_feature("planner", planner, planner ? "plans networks" : "runs plan files only");
	print_feature("yaml", yaml, yaml ? "reads configurations" : "no configurations: give it plan files");
	print_feature("lockdown", lockdown,
		      "--lockdown forbids mappings, programs, sockets and files after boot (seccomp, Landlock)");
	print_feature("checks", checks, "debug checks: dead arena ranges are filled with NaN");
	printf("\ndrivers\n");
	for (uint32_t i = 0; i < driver_table_count; i++) {
		enum tarn_status st = driver_table[i]->probe();
		print_feature(driver_table[i]->name, st == TARN_OK, st ? tarn_error() : "ready");
		if (driver_table[i]->info)
			driver_table[i]->info(tell_text, NULL);
	}
	return 0;
}

static int command_version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("tarn %s\n", TARN_VERSION);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
#ifdef CONFIG_YAML
	{ "dag", command_dag },
#endif
#ifdef CONFIG_PLANNER
	{ "pack", command_pack },
#endif
	{ "calibrate", command_calibrate },
	{ "tokens", command_tokens },
	{ "plan", command_plan },
#ifdef CONFIG_PLANNER
	{ "fit", command_fit },
#endif
	{ "train", command_train },
	{ "eval", command_eval },
	{ "report", command_report },
	{ "hvp", command_hvp },
	{ "export", command_export },
#ifdef CONFIG_PLANNER
	{ "laplace", command_laplace },
	{ "prune", command_prune },
	{ "predict", command_predict },
	{ "sample", command_sample },
	{ "import", command_import },
#endif
	{ "verify", command_verify },
	{ "info", command_info },
	{ "help", command_help },
	{ "--help", command_help },
	{ "-h", command_help },
	{ "version", command_version },
	{ "--version", command_version },
};

/*
 * Between two parallel loops OpenMP's threads spin for milliseconds, as if the machine were theirs: beside one busy
 * process that makes a training step four times slower (ResNet-20 on two cores: 1500 ms instead of 420; alone it costs
 * nothing). The library reads its settings when it is loaded, so the program starts itself again with a shorter spin,
 * unless the user has chosen one.
 */
static void shorten_spinning(char **argv)
{
	if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY"))
		return;
	if (!setenv("GOMP_SPINCOUNT", "1000", 1))
		execv("/proc/self/exe", argv); /* when it fails, this process goes on as it is */
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		print_usage(stderr);
		return TARN_EINVAL;
	}
	signal(SIGXFSZ, SIG_IGN); /* the write beyond a limit fails, and the sentence names its file */
	if (!strcmp(argv[1], "train") || !strcmp(argv[1], "eval") || !strcmp(argv[1], "calibrate") ||
	    !strcmp(argv[1], "hvp") || !strcmp(argv[1], "laplace") || !strcmp(argv[1], "prune") ||
	    !strcmp(argv[1], "predict") || !strcmp(argv[1], "sample"))
		shorten_spinning(argv);
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		if (!strcmp(argv[1], commands[i].name)) {
			int code = commands[i].run(argc - 1, argv + 1);
			if (fflush(stdout) || ferror(stdout)) {
				fprintf(stderr, "tarn: cannot write the output\n");
				return code ? code : TARN_EIO;
			}
			return code;
		}
	fprintf(stderr, "tarn: unknown command \"%s\"; see `tarn help`\n", argv[1]);
	return TARN_EINVAL;
}
