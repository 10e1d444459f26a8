/* schema.c - every key of a configuration: type, range, default, help, example. */
#include "config/config.h"

#include <float.h>
#include <stddef.h>

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof *(array)))
#define UINT32_LIMIT 4294967295.0
/* Numbers with 64 bits stop at 2^53, so that JSON and the doubles of a range hold them exactly. */
#define UINT64_LIMIT 9007199254740992.0
/* Real numbers end up as float32. */
#define REAL_LIMIT 1e30

/* Defaults of the build (Kconfig). */
#ifndef CONFIG_DEFAULT_BUDGET
#define CONFIG_DEFAULT_BUDGET "unlimited"
#endif
#ifndef CONFIG_DEFAULT_THREADS
#define CONFIG_DEFAULT_THREADS 0
#endif
#define QUOTE(text) #text
#define TEXT_OF(value) QUOTE(value)

static const char *const drivers[] = { "cpu", "null", "cuda" };
static const char *const strategies[] = {
	"auto", "none", "memory-poor", "sqrt", "speed", "manual", "min", "memory", "collection",
};
static const uint32_t strategy_alias[] = { STRATEGY_SQRT, STRATEGY_MANUAL };
static const char *const efforts[] = { "fast", "normal", "max" };
static const char *const data_types[] = { "idx", "npy",     "synthetic", "hash",   "tokens",
					  "npz", "cifar10", "cifar100",  "images", "memory" };
static const char *const label_sets[] = { "fine", "coarse" };
static const char *const token_types[] = { "byte", "uint16" };
static const char *const inits[] = { "default", "hash" };
static const char *const losses[] = {
	"cross_entropy", "mean_squared_error", "binary_cross_entropy", "logistic_mixture", "mse", "bce"
};
static const uint32_t loss_alias[] = { LOSS_MEAN_SQUARED_ERROR, LOSS_BINARY_CROSS_ENTROPY };
static const char *const targets[] = { "data", "input" };
static const char *const train_logs[] = { "none", "tensorboard" };
static const char *const optimizers[] = { "sgd", "momentum", "adam", "adamw", "lion", "adafactor" };
static const char *const optimizer_states[] = { "float32", "int8" };
static const char *const microbatch_choices[] = { "given", "auto" };
static const char *const nonfinite_policies[] = { "stop", "skip", "continue" };
static const char *const microbatch_norms[] = { "refuse", "allow" };
static const char *const objectives[] = { "loss",        "hvp",     "maml",     "gradient_penalty",
					  "adversarial", "laplace", "inference" };
static const char *const attacks[] = { "fgsm", "pgd" };
static const char *const laplace_covariances[] = { "diagonal", "full" };
static const char *const hvp_tasks[] = { "product", "trace", "diagonal", "eigenvalues", "density", "hessian" };
static const char *const hvp_modes[] = { "reverse", "forward", "auto" };
static const char *const hvp_vectors[] = { "rademacher", "normal" };
static const char *const formats[] = { "float32", "bfloat16", "float16", "bf16", "fp16" };
static const uint32_t format_alias[] = { NUMBER_BFLOAT16, NUMBER_FLOAT16 };
static const char *const rates[] = { "constant", "step", "cosine" };

_Static_assert(COUNT(strategies) == STRATEGIES + COUNT(strategy_alias), "a name for each strategy, then the aliases");

const char *config_driver_name(uint32_t driver)
{
	return driver < COUNT(drivers) ? drivers[driver] : "unknown";
}

const char *loss_name(uint32_t loss)
{
	return loss < COUNT(losses) - COUNT(loss_alias) ? losses[loss] : "unknown";
}

const char *strategy_name(uint32_t strategy)
{
	return strategy < STRATEGIES ? strategies[strategy] : "unknown";
}

/* clang-format off */
#define AT(field) .offset = (uint32_t)offsetof(struct config, field), .width = (uint32_t)sizeof(((struct config *)0)->field)
#define TEXT(field, least) .type = CONFIG_TEXT, AT(field), .low = (least), .high = 4096, .unit = "text"
#define REAL(field, from, to) .type = CONFIG_REAL, AT(field), .low = (from), .high = (to), .unit = "number"
#define WHOLE(field, from, to, what) .type = CONFIG_INTEGER, AT(field), .low = (from), .high = (to), .unit = (what)
#define BOOL(field) .type = CONFIG_BOOL, AT(field), .unit = "true or false"
#define BYTES(field, from) .type = CONFIG_BYTES, AT(field), .low = (from), .high = DBL_MAX, .unit = "bytes"
#define CHOICE(field, names) .type = CONFIG_CHOICE, AT(field), .choices = (names), .n_choices = COUNT(names), .unit = "name"
#define ALIASES(values) .alias = (values), .n_aliases = COUNT(values)

const struct config_key config_schema[] = {
	{ .path = "name", TEXT(name, 0), .default_text = "", .example = "lenet-mnist",
	  .help = "What the run is called in reports. Empty: the file's name without its ending." },

	{ .path = "device.driver", CHOICE(driver, drivers), .default_text = "cpu", .example = "cpu",
	  .help = "What computes: cpu and cuda (an NVIDIA GPU) train; null plans and steps through networks of any size "
		  "without arithmetic." },
	{ .path = "device.tf32", BOOL(tf32), .default_text = "false", .example = "true",
	  .help = "cuda: matrix products and convolutions may use tensor cores, which round float32 factors to 10 bits of "
		  "mantissa. Changes results, and is several times faster on GPUs that have them for it." },
	{ .path = "device.graph", BOOL(graph), .default_text = "true", .example = "false",
	  .help = "cuda: record a step as one CUDA graph at boot and replay it with one call. The recording takes some device "
		  "memory; without it the ops are launched one by one, with the same results." },
	{ .path = "device.reserve", BYTES(reserve, 0), .default_text = "64 MiB", .example = "128 MiB",
	  .help = "cuda: the part of memory.budget that is kept out of the arena for what is not known before it exists: code "
		  "that libraries load at first use, and recorded steps. Too little is refused at boot with the figure that works." },

	{ .path = "device.costs", TEXT(costs, 0), .default_text = "", .example = "costs.txt",
	  .help = "File of measured costs of ops, written by `tarn calibrate`; the planner then knows what recomputing "
		  "really takes. Relative to the current directory. Empty: the driver's own estimates." },

	{ .path = "memory.budget", BYTES(memory.budget, 1), .default_text = CONFIG_DEFAULT_BUDGET, .example = "24 MiB",
	  .help = "The hard limit for everything the run keeps on its device: parameters, gradients, optimizer state, "
		  "activations, workspaces, staging of the data, metrics. GB is 10^9 bytes, GiB is 2^30; `unlimited` sets none. On a GPU it also bounds context, code and library "
		  "handles, measured at boot, and `auto` takes what the device has free, less 1/64 of its memory." },
	{ .path = "memory.recompute", CHOICE(memory.recompute, strategies), ALIASES(strategy_alias),
	  .default_text = "auto", .example = "sqrt",
	  .help = "Which activations are kept and which are computed again in the backward pass. auto: least time that "
		  "fits the budget; none: keep all; memory-poor: keep nothing; sqrt (also: memory): about sqrt(n) tensors; "
		  "speed: outputs of convolutions and matrix products; manual (also: collection): those of memory.keep; "
		  "min: least memory." },
	{ .path = "memory.keep", .type = CONFIG_TEXT_LIST, AT(memory.keep), .low = 1, .high = 4096, .unit = "names",
	  .default_text = "[]", .example = "[\"block*/conv1\", pool1]",
	  .help = "Names of tensors to keep, or patterns with * and ?. Only with memory.recompute: manual, which needs it." },
	{ .path = "memory.workspace_cap", BYTES(memory.workspace_cap, 0), .default_text = "256 MiB", .example = "64 MiB",
	  .help = "The most that one library call may use as workspace. It decides which kernels are chosen, so that "
		  "results depend on it; it never follows from the budget, unless `auto` asks for it: then plans with caps from 256 MiB "
		  "down are compared and the fastest within the budget is taken. A value below 4096 needs a unit." },
	{ .path = "memory.microbatches", CHOICE(memory.microbatches, microbatch_choices), .default_text = "given",
	  .example = "auto",
	  .help = "Who says in how many parts a batch is taken. given: train.accumulate; auto: plans with 1, 2, 4 ... parts are "
		  "compared and the fastest within the budget is taken. The last bits of results may then change with the budget. "
		  "Refused with batch norm, whose statistics would change, unless train.microbatch_norm is allow." },
	{ .path = "memory.effort", CHOICE(memory.effort, efforts), .default_text = "fast", .example = "normal",
	  .help = "How long the planner searches for a faster plan at boot, in rounds, never by the clock. fast: some tens of "
		  "milliseconds for a few hundred ops; normal: up to about two seconds; max: up to a minute." },
	{ .path = "memory.in_place", BOOL(memory.in_place), .default_text = "true", .example = "false",
	  .help = "Whether an op may write where an input that nobody needs any more lies. false: for comparisons with "
		  "planners that cannot; it needs more memory and changes no result." },
	{ .path = "memory.offload", BOOL(memory.offload), .default_text = "false", .example = "true",
	  .help = "Activations and other tensors of a step may wait in host memory, beside the budget, where copying them "
		  "out and back takes less time than computing them again, or where nothing else meets the budget. The "
		  "results keep their bits." },
	{ .path = "memory.offload_limit", BYTES(memory.offload_limit, 1), .default_text = "unlimited", .example = "4 GiB",
	  .help = "The most host memory that offloaded tensors may take. Only with memory.offload: true." },
	{ .path = "memory.offload_bandwidth", BYTES(memory.offload_bandwidth, 0), .default_text = "0", .example = "25 GB",
	  .help = "Bytes a second that a copy between device and host moves, for the planner's estimate. 0: the driver's "
		  "figure. Only with memory.offload: true." },

	{ .path = "data.type", CHOICE(data.type, data_types), .default_text = NULL, .example = "idx",
	  .help = "Where samples come from. idx: files in the format of MNIST, plain or gzip; npy: NumPy arrays; "
		  "synthetic: made up and learnable; hash: made up, the same bits in every program, for comparisons; "
		  "tokens: files of token ids, one after the other, as `tarn tokens` writes them; npz: NumPy arrays in a zip "
		  "archive; cifar10, cifar100: the binary version of these files; images: PNG, PPM and PGM files in a "
		  "folder a class; memory: what a program that uses the library hands over (docs/library.md)." },
	{ .path = "data.synthetic", BOOL(data.synthetic), .default_text = "false", .example = "true",
	  .help = "Made-up samples of the same shape stand in for files that are not there, to try a configuration without "
		  "its data: data.samples to train on, data.test_samples (256) to evaluate on. It is said at the start and in "
		  "the results. idx, npy, npz and images need data.shape for it." },
	{ .path = "data.directory", TEXT(data.directory, 1), .default_text = ".", .example = "../datasets/mnist",
	  .help = "Where the files lie. In a file it is relative to that file, on the command line to the current directory." },
	{ .path = "data.train_inputs", TEXT(data.train_inputs, 1), .default_text = "train-images-idx3-ubyte.gz",
	  .example = "train-images.npy",
	  .help = "Samples to train on. Defaults: train_inputs.npy with data.type: npy, the array train_inputs with npz, the "
		  "folder train with images, train.tokens with tokens." },
	{ .path = "data.train_labels", TEXT(data.train_labels, 1), .default_text = "train-labels-idx1-ubyte.gz",
	  .example = "train-labels.npy", .help = "Their labels. Defaults: train_labels.npy with data.type: npy, the array train_labels with npz." },
	{ .path = "data.test_inputs", TEXT(data.test_inputs, 0), .default_text = "t10k-images-idx3-ubyte.gz",
	  .example = "test-images.npy",
	  .help = "Samples to evaluate on; \"\" for none. Defaults: test_inputs.npy with data.type: npy, the array test_inputs "
		  "with npz, the folder test with images, none with tokens." },
	{ .path = "data.test_labels", TEXT(data.test_labels, 0), .default_text = "t10k-labels-idx1-ubyte.gz",
	  .example = "test-labels.npy",
	  .help = "Their labels; \"\" for none. Defaults: test_labels.npy with data.type: npy, the array test_labels with npz." },
	{ .path = "data.arrays", .type = CONFIG_TEXT_LIST, AT(data.arrays), .low = 1, .high = 64, .unit = "names",
	  .default_text = "[]", .example = "[meta, age]",
	  .help = "npy and npz: further arrays with a row a sample, by the names that layers and losses call them. Floats are "
		  "values as they are, integers are labels or ids." },
	{ .path = "data.train_arrays", .type = CONFIG_TEXT_LIST, AT(data.train_arrays), .low = 1, .high = 4096,
	  .unit = "names", .default_text = "[]", .example = "[meta.npy, age.npy]",
	  .help = "Their files, or arrays in the archive, for training: one for each of data.arrays." },
	{ .path = "data.test_arrays", .type = CONFIG_TEXT_LIST, AT(data.test_arrays), .low = 1, .high = 4096,
	  .unit = "names", .default_text = "[]", .example = "[meta_test.npy, age_test.npy]",
	  .help = "The same for the test set, where there is one." },
	{ .path = "data.archive", TEXT(data.archive, 1), .default_text = "data.npz", .example = "mnist.npz",
	  .help = "npz: the file with the arrays that data.train_inputs and the keys beside it name." },
	{ .path = "data.test_archive", TEXT(data.test_archive, 0), .default_text = "", .example = "test.npz",
	  .help = "npz: the file with the arrays of the test set. Empty: they are in data.archive too." },
	{ .path = "data.label_set", CHOICE(data.label_set, label_sets), .default_text = "fine", .example = "coarse",
	  .help = "cifar100: which of its two labels an image has, that of 100 fine classes or that of 20 coarse ones." },
	{ .path = "data.shape", .type = CONFIG_SIZE_LIST, AT(data.shape), .low = 1, .high = 16777216, .unit = "elements",
	  .default_text = "[]", .example = "[28, 28, 1]",
	  .help = "Shape of one sample, [height, width, channels] or [features]. Needed for synthetic and hash; "
		  "files say it themselves." },
	{ .path = "data.shapes", .type = CONFIG_SIZE_LIST, AT(data.shapes), .low = 1, .high = 16777216, .unit = "elements",
	  .default_text = "[]", .example = "[64, 128, 256]",
	  .help = "Several shapes in one run: contexts of tokens, or sides of square images. Each training batch has one of "
		  "them, drawn from train.seed, the epoch and its number; of each sample it takes a random piece. The largest "
		  "is data.context or the side of the images, and evaluation uses it. Empty: whole samples." },
	{ .path = "data.classes", WHOLE(data.classes, 1, 16777216, "classes"), .default_text = "10", .example = "100",
	  .help = "Labels are 0 to classes - 1. It is also the width of the last layer of a model family." },
	{ .path = "data.context", WHOLE(data.context, 0, 16777216, "tokens"), .default_text = "0", .example = "256",
	  .help = "Tokens in a sample; the label of each is the next one. Needed for tokens; with synthetic and hash it makes "
		  "samples of tokens instead of values. data.classes is the vocabulary." },
	{ .path = "data.token_type", CHOICE(data.token_type, token_types), .default_text = "byte", .example = "uint16",
	  .help = "What the files of tokens hold: bytes, or 16-bit numbers, little-endian. Only with tokens." },
	{ .path = "data.batch", WHOLE(data.batch, 1, 16777216, "samples"), .default_text = "128", .example = "64",
	  .help = "Samples in one training step." },
	{ .path = "data.samples", WHOLE(data.samples, 0, UINT32_LIMIT, "samples"), .default_text = "0", .example = "4096",
	  .help = "Training samples of synthetic and hash, and with data.synthetic. 0: one batch for hash, else 1024." },
	{ .path = "data.test_samples", WHOLE(data.test_samples, 0, UINT32_LIMIT, "samples"), .default_text = "0",
	  .example = "512", .help = "Samples of the test set of synthetic and hash, and with data.synthetic. 0: no test set." },
	{ .path = "data.shuffle", BOOL(data.shuffle), .default_text = "true", .example = "false",
	  .help = "A new order of the samples in each epoch, a function of train.seed and the epoch." },
	{ .path = "data.pixel_labels", BOOL(data.pixel_labels), .default_text = "false", .example = "true",
	  .help = "Each pixel has a label of its own, as for segmentation: arrays of labels are N x H x W." },
	{ .path = "data.drop_last", BOOL(data.drop_last), .default_text = "false", .example = "true",
	  .help = "Leave out the last batch of an epoch when it is not full." },
	{ .path = "data.mean", .type = CONFIG_REAL_LIST, AT(data.mean), .low = -REAL_LIMIT, .high = REAL_LIMIT,
	  .unit = "numbers", .default_text = "[]", .example = "[0.1307]",
	  .help = "Subtracted from each sample, after bytes were divided by 255: one value, or one a channel. Needs data.std. "
		  "Not with synthetic and hash." },
	{ .path = "data.std", .type = CONFIG_REAL_LIST, AT(data.std), .low = 1e-30, .high = REAL_LIMIT, .unit = "numbers",
	  .default_text = "[]", .example = "[0.3081]", .help = "Divides each sample after the mean. As many values as data.mean." },
	{ .path = "data.augment.shift", WHOLE(data.shift, 0, 1024, "pixels"), .default_text = "0", .example = "4",
	  .help = "Random crop of training images after padding them by so many pixels on each side. 0: off." },
	{ .path = "data.augment.flip", BOOL(data.flip), .default_text = "false", .example = "true",
	  .help = "Mirror half of the training images left to right." },

	{ .path = "network.init", CHOICE(network.init, inits), .default_text = "default", .example = "hash",
	  .help = "Initial weights. default: uniform by fan-in (He et al. 2015), from train.seed; hash: the same bits "
		  "in every program, for comparisons." },
	{ .path = "network.loss", CHOICE(network.loss, losses), ALIASES(loss_alias), .default_text = "cross_entropy",
	  .example = "mean_squared_error",
	  .help = "cross_entropy: softmax of the outputs against labels; mean_squared_error (also: mse): against values; "
		  "binary_cross_entropy (bce): logits against values from 0 to 1; logistic_mixture: the pixels of the input "
		  "under the distributions that the network gives (PixelCNN++, Salimans et al. 2017)." },
	{ .path = "network.target", CHOICE(network.target, targets), .default_text = "data", .example = "data",
	  .help = "What the result is compared with. data: the labels or values of the data; input: the input itself, as in "
		  "an autoencoder; the data then need no labels. Always input with logistic_mixture." },
	{ .path = "network.losses", .type = CONFIG_NODE, AT(network.losses), .unit = "list of maps", .default_text = NULL,
	  .example = "[{type: mean_squared_error, input: age_head, labels: age, weight: 0.1}]",
	  .help = "Losses beside network.loss, which is that of the last layer: of which layer, against which of data.arrays, and "
		  "how much it weighs (1). The sum is minimised and each is reported, under its name or that of its layer." },
	{ .path = "network.chunked_loss", BOOL(network.chunked_loss), .default_text = "false", .example = "true",
	  .help = "Cross-entropy together with the last dense layer, in pieces, so that the logits of a large vocabulary "
		  "never exist whole. The accuracy is then not counted." },
	{ .path = "network.label_smoothing", REAL(network.label_smoothing, 0, 1), .default_text = "0", .example = "0.1",
	  .help = "Share of a label's weight that is spread over all classes (Szegedy et al. 2016). Only with cross_entropy." },
	{ .path = "network.ignore_index", WHOLE(network.ignore_index, -1, 2147483647.0, "label"), .default_text = "-1",
	  .example = "0", .help = "Rows with this label count neither in the loss nor in the accuracy. -1: none. Only with cross_entropy." },
	{ .path = "network.freeze", .type = CONFIG_TEXT_LIST, AT(network.freeze), .low = 1, .high = 4096, .unit = "names",
	  .default_text = "[]", .example = "[\"stage[12]/*\", \"*/norm*/bias\"]",
	  .help = "Parameters that are not trained, by name (`tarn plan --summary` lists them) or patterns with *, ? and []: no "
		  "gradient, no optimizer state. * also stands for slashes. Batch norms still use and follow the batch's statistics." },

	{ .path = "precision.compute", CHOICE(precision.compute, formats), ALIASES(format_alias), .default_text = "float32",
	  .example = "bfloat16",
	  .help = "How activations, and the copies of weights that products read, are stored: float32, or bfloat16 (also: "
		  "bf16) or float16 (fp16), which halve the memory of a step. All arithmetic and every sum is float32, and so are statistics, "
		  "losses, biases, norms' scales and the weights that the optimizer changes." },
	{ .path = "precision.gradients", CHOICE(precision.gradients, formats), ALIASES(format_alias),
	  .default_text = "float32", .example = "float32",
	  .help = "How the gradients of weights are stored until their update: float32, or as precision.compute says." },
	{ .path = "precision.weights", CHOICE(precision.weights, formats), ALIASES(format_alias), .default_text = "float32",
	  .example = "float32",
	  .help = "How matrices, kernels and tables are stored that products read: float32, or bfloat16 with "
		  "precision.compute: bfloat16, without a copy in float32. Their updates are then rounded at random, up or down "
		  "with the probabilities that keep the mean. Only with sgd, momentum, adam and adamw." },
	{ .path = "precision.loss_scale.initial", REAL(precision.loss_scale_initial, 0x1p-20, 0x1p40),
	  .default_text = "65536", .example = "1024",
	  .help = "With precision.compute: float16 the loss is multiplied by this at first, so that small gradients do not "
		  "vanish. A step whose gradients overflow changes nothing and halves it." },
	{ .path = "precision.loss_scale.growth_interval", WHOLE(precision.growth_interval, 1, 16777216.0, "steps"),
	  .default_text = "2000", .example = "500",
	  .help = "The loss scale doubles after so many steps in a row without overflow." },

	{ .path = "optimizer.type", CHOICE(optimizer.type, optimizers), .default_text = "momentum", .example = "adam",
	  .help = "sgd; momentum: sgd with momentum, one more buffer per parameter; adam (Kingma and Ba 2015) and adamw "
		  "(Loshchilov and Hutter 2019), two more; lion (Chen et al. 2023), one, with steps of the size of the learning "
		  "rate, a third to a tenth of adam's; adafactor (Shazeer and Stern 2018), a row and a column per matrix, with "
		  "steps relative to the size of the weights." },
	{ .path = "optimizer.state", CHOICE(optimizer.state, optimizer_states), .default_text = "float32", .example = "int8",
	  .help = "What the moments are kept in. int8: 8 bits in blocks of 2048 with a scale each (Dettmers et al. 2022), for "
		  "parameters of 4096 elements and more. Only with adam and adamw." },
	{ .path = "optimizer.masks", BOOL(optimizer.masks), .default_text = "false", .example = "true",
	  .help = "Keep a mask of ones and zeros for every trained parameter of two dimensions or more: where `tarn prune` "
		  "wrote a zero the weight stays 0. Costs as much memory as the weights. docs/second-order.md." },
	{ .path = "optimizer.learning_rate", REAL(optimizer.learning_rate, 0, REAL_LIMIT), .default_text = "0.01",
	  .example = "1e-3", .help = "Step size, before the schedule." },
	{ .path = "optimizer.momentum", REAL(optimizer.momentum, 0, 0.999999), .default_text = "0.9", .example = "0.95",
	  .help = "Share of the last update that goes into the next one. Only with type: momentum." },
	{ .path = "optimizer.nesterov", BOOL(optimizer.nesterov), .default_text = "false", .example = "true",
	  .help = "Nesterov's momentum (Sutskever et al. 2013). Only with type: momentum." },
	{ .path = "optimizer.weight_decay", REAL(optimizer.weight_decay, 0, REAL_LIMIT), .default_text = "0",
	  .example = "5e-4", .help = "Added to the gradient as weight_decay times the weight; with adamw applied to the weight itself." },
	{ .path = "optimizer.decay_norms", BOOL(optimizer.decay_norms), .default_text = "true", .example = "false",
	  .help = "Weight decay also on biases and on the parameters of normalisation layers. Needs a weight_decay." },
	{ .path = "optimizer.beta1", REAL(optimizer.beta1, 0, 0.999999), .default_text = "0.9", .example = "0.8",
	  .help = "Decay of the mean of gradients; of lion, its weight in the step. Only with adam, adamw and lion." },
	{ .path = "optimizer.beta2", REAL(optimizer.beta2, 0, 0.99999999), .default_text = "0.999", .example = "0.95",
	  .help = "Decay of the mean of squared gradients; of lion, of the mean of gradients, 0.99 unless given. Only with "
		  "adam, adamw and lion." },
	{ .path = "optimizer.epsilon", REAL(optimizer.epsilon, 1e-30, 1), .default_text = "1e-8", .example = "1e-6",
	  .help = "Added to the root of the second moment. Only with adam and adamw." },
	{ .path = "optimizer.clip_norm", REAL(optimizer.clip_norm, 0, REAL_LIMIT), .default_text = "0", .example = "1.0",
	  .help = "All gradients together are scaled down to this norm. Needs every gradient before the first update, "
		  "which costs memory. 0: off." },
	{ .path = "optimizer.schedule.type", CHOICE(optimizer.schedule, rates), .default_text = "constant",
	  .example = "cosine", .help = "How the learning rate goes on after the warm-up (cosine: Loshchilov and Hutter 2017)." },
	{ .path = "optimizer.schedule.warmup_steps", WHOLE(optimizer.warmup_steps, 0, UINT32_LIMIT, "steps"),
	  .default_text = "0", .example = "500", .help = "The learning rate rises linearly over the first so many steps." },
	{ .path = "optimizer.schedule.final_rate", REAL(optimizer.final_rate, 0, 1), .default_text = "0",
	  .example = "0.01", .help = "Last learning rate of cosine, as a fraction of learning_rate." },
	{ .path = "optimizer.schedule.step_epochs", WHOLE(optimizer.step_epochs, 1, UINT32_LIMIT, "epochs"),
	  .default_text = "30", .example = "10", .help = "step changes the learning rate every so many epochs." },
	{ .path = "optimizer.schedule.step_factor", REAL(optimizer.step_factor, 0, 1), .default_text = "0.1",
	  .example = "0.5", .help = "step multiplies the learning rate by this." },
	{ .path = "optimizer.groups", .type = CONFIG_NODE, AT(optimizer.groups), .unit = "list of maps", .default_text = NULL,
	  .example = "[{match: \"*/bias\", weight_decay: 0}, {match: \"conv1/*\", learning_rate: 1e-3}]",
	  .help = "Parameters with a learning_rate or weight_decay of their own: match is a pattern of their names, and the first "
		  "group that matches counts. The schedule applies to all alike." },

	{ .path = "train.epochs", WHOLE(train.epochs, 0, UINT32_LIMIT, "epochs"), .default_text = "0", .example = "20",
	  .help = "Passes over the training samples. 0: until train.max_steps, or one pass where that is not given." },
	{ .path = "train.max_steps", WHOLE(train.max_steps, 0, UINT64_LIMIT, "steps"), .default_text = "0",
	  .example = "1000", .help = "Stop after so many steps, even within an epoch. 0: no limit." },
	{ .path = "train.accumulate", WHOLE(train.accumulate, 1, 65536, "parts"), .default_text = "1", .example = "4",
	  .help = "A batch is taken in so many parts, one after the other, and their gradients are added: the step of the whole "
		  "batch with the activations of a part. Losses are weighted by the samples, or counted labels, of each part; "
		  "clipping, update and schedule come once a batch. Parts differ by one sample where the number does not divide "
		  "the batch. Sums have another order than with 1, so that last bits differ." },
	{ .path = "train.microbatch_norm", CHOICE(train.microbatch_norm, microbatch_norms), .default_text = "refuse",
	  .example = "allow",
	  .help = "Batch norm with train.accumulate above 1. refuse: an error, because statistics of a part are not those of "
		  "the batch; allow: each part has its own, and the running ones move once a batch, towards the parts' mean." },
	{ .path = "train.on_nonfinite", CHOICE(train.on_nonfinite, nonfinite_policies), .default_text = "stop",
	  .example = "skip",
	  .help = "A step whose loss or gradient is NaN or infinite. stop: the run ends with exit code 11 and keeps the last "
		  "snapshot; skip: the step is undone and counted, and the run goes on with the next batch, which costs a copy of "
		  "everything that lasts in host memory, made and looked through at each step; continue: only said. All name the "
		  "first op whose result is not finite where they can." },
	{ .path = "train.seed", WHOLE(train.seed, 0, UINT64_LIMIT, "number"), .default_text = "0", .example = "42",
	  .help = "Start of all random numbers: initial weights, order of samples, dropout, augmentation." },
	{ .path = "train.threads", WHOLE(train.threads, 0, 1024, "threads"), .default_text = TEXT_OF(CONFIG_DEFAULT_THREADS), .example = "2",
	  .help = "Threads that compute. Results depend on their number. 0: all cores." },
	{ .path = "train.log_every", WHOLE(train.log_every, 0, UINT32_LIMIT, "steps"), .default_text = "100",
	  .example = "10", .help = "Print a line every so many steps. 0: only at the end of an epoch." },
	{ .path = "train.evaluate_every", WHOLE(train.evaluate_every, 0, UINT32_LIMIT, "epochs"), .default_text = "1",
	  .example = "5", .help = "Evaluate on the test set every so many epochs. 0: only at the end." },
	{ .path = "train.snapshot", TEXT(train.snapshot, 0), .default_text = "", .example = "lenet.safetensors",
	  .help = "File for weights, optimizer state and position, relative to the current directory. Empty: none." },
	{ .path = "train.snapshot_every", WHOLE(train.snapshot_every, 0, UINT32_LIMIT, "epochs"), .default_text = "0",
	  .example = "1", .help = "Write the snapshot every so many epochs. 0: only at the end." },
	{ .path = "train.run", TEXT(train.run, 0), .default_text = "", .example = "runs/first",
	  .help = "Folder for all that a training run leaves, relative to the current directory: configuration, settings, plan, "
		  "metrics, result, and the snapshot where train.snapshot is empty. `tarn report` shows it. Empty: none." },
	{ .path = "train.log", CHOICE(train.log, train_logs), .default_text = "none", .example = "tensorboard",
	  .help = "What else is written into the folder train.run. tensorboard: event files." },
	{ .path = "train.initialize", TEXT(train.initialize, 0), .default_text = "", .example = "resnet18.safetensors",
	  .help = "File of weights to start from: a snapshot, or a safetensors or npz file with PyTorch's names (docs/weights.md), "
		  "relative to the current directory. Optimizer state and position are not read; --resume goes before it. Empty: none." },
	{ .path = "train.initialize_skip", .type = CONFIG_TEXT_LIST, AT(train.initialize_skip), .low = 1, .high = 4096,
	  .unit = "names", .default_text = "[]", .example = "[\"output/*\"]",
	  .help = "Tensors that keep their initial values with train.initialize: names or patterns of the network's, such as those "
		  "of a head with other classes, or of the file's that the network does not have. All others must fit." },
	{ .path = "train.initialize_map", TEXT(train.initialize_map, 0), .default_text = "", .example = "names.txt",
	  .help = "Names that train.initialize reads: a line a tensor, OWN OTHER, or OWN OTHER transposed. Empty: PyTorch's names "
		  "for the families of models, else the own ones with points." },
	{ .path = "train.ema", REAL(train.ema, 0, 0.99999999), .default_text = "0", .example = "0.999",
	  .help = "Keep an exponential moving average of each weight with this decay, and evaluate with the averages. Costs as "
		  "much memory as the weights. 0: off." },

	{ .path = "objective.type", CHOICE(objective.type, objectives), .default_text = "loss", .example = "maml",
	  .help = "What a step is about. loss: the network's loss; maml: how well the network learns a new task in a few "
		  "steps (Finn et al. 2017); gradient_penalty: the loss and the squared norm of its gradient by the input (Drucker, "
		  "LeCun 1992); adversarial: the loss of inputs that were moved to where it is larger; see docs/second-order.md. hvp: "
		  "products with the Hessian, set by `tarn hvp`; laplace: set by `tarn laplace`; inference: no training at all, "
		  "set by `tarn eval`, `predict` and `sample`." },
	{ .path = "objective.result", BOOL(objective.result), .default_text = "false", .example = "true",
	  .help = "Keep the network's result of a batch where it can be read: set by `tarn predict` and `tarn sample`. Without it "
		  "only results with one label a sample are kept. Only with inference." },
	{ .path = "objective.ways", WHOLE(objective.ways, 2, 65536, "classes"), .default_text = "5", .example = "3",
	  .help = "Classes of a task, drawn from those of the data. Only with maml." },
	{ .path = "objective.shots", WHOLE(objective.shots, 1, 65536, "samples"), .default_text = "1", .example = "5",
	  .help = "Samples of each class that a task is learnt from. Only with maml." },
	{ .path = "objective.queries", WHOLE(objective.queries, 1, 65536, "samples"), .default_text = "5", .example = "15",
	  .help = "Samples of each class that tell how well it was learnt. Only with maml." },
	{ .path = "objective.tasks", WHOLE(objective.tasks, 1, 65536, "tasks"), .default_text = "4", .example = "1",
	  .help = "Tasks in one step; their losses are averaged. Only with maml." },
	{ .path = "objective.test_classes", WHOLE(objective.test_classes, 0, 65536, "classes"), .default_text = "0", .example = "3",
	  .help = "The last so many classes are for the tasks of evaluation, the others for those of training. 0: all for both. "
		  "Only with maml." },
	{ .path = "objective.inner_steps", WHOLE(objective.inner_steps, 1, 1000, "steps"), .default_text = "3", .example = "5",
	  .help = "Steps of plain gradient descent on the samples of a task. Only with maml." },
	{ .path = "objective.inner_rate", REAL(objective.inner_rate, 0, REAL_LIMIT), .default_text = "0.1", .example = "0.4",
	  .help = "Their learning rate. Only with maml." },
	{ .path = "objective.learn_rates", BOOL(objective.learn_rates), .default_text = "false", .example = "true",
	  .help = "Each parameter has an inner rate of its own, which begins with inner_rate and is learnt too "
		  "(Antoniou et al. 2019). Only with maml." },
	{ .path = "objective.order", WHOLE(objective.order, 1, 2, "order"), .default_text = "2", .example = "1",
	  .help = "2: differentiates the inner steps; 1: takes their gradients for constants, which saves memory and time "
		  "(first-order MAML). Only with maml." },
	{ .path = "objective.weight", REAL(objective.weight, 0, REAL_LIMIT), .default_text = "1", .example = "0.5",
	  .help = "gradient_penalty: the factor of the mean squared norm of a sample's gradient. adversarial: the share of moved "
		  "inputs in the loss, at most 1; the rest is that of the inputs as they are. Only with these two." },
	{ .path = "objective.method", CHOICE(objective.method, attacks), .default_text = "fgsm", .example = "pgd",
	  .help = "How the input is moved. fgsm: by epsilon along the sign of the gradient (Goodfellow et al. 2015); pgd: in "
		  "several steps (Madry et al. 2018). Only with adversarial." },
	{ .path = "objective.epsilon", REAL(objective.epsilon, 1e-9, REAL_LIMIT), .default_text = "0.1", .example = "0.3",
	  .help = "The most that an element of the input is moved by, as the network sees it: after data.mean and data.std. Only "
		  "with adversarial." },
	{ .path = "objective.steps", WHOLE(objective.attack_steps, 1, 1000, "steps"), .default_text = "7", .example = "20",
	  .help = "Steps of pgd. Only with adversarial." },
	{ .path = "objective.step_size", REAL(objective.step_size, 0, REAL_LIMIT), .default_text = "0", .example = "0.02",
	  .help = "How far each of them goes. 0: 2.5 epsilon / steps. Only with adversarial." },
	{ .path = "objective.attack_test", BOOL(objective.attack_test), .default_text = "false", .example = "true",
	  .help = "Evaluation judges inputs that are moved in the same way, instead of those that the data have. Only with "
		  "adversarial." },

	{ .path = "hvp.task", CHOICE(hvp.task, hvp_tasks), .default_text = "product", .example = "trace",
	  .help = "For `tarn hvp`, about the Hessian of the mean loss over the training set. product: times one vector; trace, "
		  "diagonal: estimates of Hutchinson (1990); eigenvalues: the largest, by Lanczos (1950); density: of all "
		  "eigenvalues, by stochastic Lanczos quadrature (Ubaru et al. 2017); hessian: all of it, for small networks." },
	{ .path = "hvp.mode", CHOICE(hvp.mode, hvp_modes), .default_text = "reverse", .example = "auto",
	  .help = "How the gradient is differentiated again: reverse, or forward; auto plans both and takes the faster one. Bits "
		  "of the results depend on it." },
	{ .path = "hvp.vector", CHOICE(hvp.vector, hvp_vectors), .default_text = "rademacher", .example = "normal",
	  .help = "Random vectors, from train.seed: +1 and -1, or normally distributed numbers." },
	{ .path = "hvp.samples", WHOLE(hvp.samples, 1, 1024, "vectors"), .default_text = "10", .example = "100",
	  .help = "Random vectors that trace, diagonal and density are averaged over." },
	{ .path = "hvp.steps", WHOLE(hvp.steps, 2, 256, "steps"), .default_text = "20", .example = "80",
	  .help = "Steps of a Lanczos iteration; a vector of the parameters' size is kept for each, inside memory.budget. Only "
		  "with eigenvalues and density." },
	{ .path = "hvp.eigenvalues", WHOLE(hvp.eigenvalues, 1, 256, "values"), .default_text = "5", .example = "1",
	  .help = "How many of the largest eigenvalues, at most hvp.steps." },
	{ .path = "hvp.batches", WHOLE(hvp.batches, 0, UINT32_LIMIT, "batches"), .default_text = "0", .example = "8",
	  .help = "Batches of the training set that the Hessian is about. 0: all." },
	{ .path = "hvp.training", BOOL(hvp.training), .default_text = "false", .example = "true",
	  .help = "The network as in training, with batch statistics and dropout (that of step 0), instead of as in evaluation." },

	{ .path = "laplace.covariance", CHOICE(laplace.covariance, laplace_covariances), .default_text = "diagonal",
	  .example = "full",
	  .help = "For `tarn laplace`: what is kept of the covariance of the last layer's weights; full is for at most 1024 of "
		  "them." },
	{ .path = "laplace.prior_precision", REAL(laplace.prior_precision, 0, REAL_LIMIT), .default_text = "0", .example = "1",
	  .help = "Precision of the normal prior of each of these weights. 0: where the marginal likelihood is largest." },

	{ .path = "layers", .type = CONFIG_NODE, AT(layers), .unit = "list", .default_text = NULL,
	  .example = "[flatten, {dense: {features: 128}}, relu, {dense: {features: 10}}]",
	  .help = "The network, layer by layer. Exactly one of layers and model must be there." },
	{ .path = "model", .type = CONFIG_NODE, AT(model), .unit = "map", .default_text = NULL,
	  .example = "{family: resnet, depth: 20}",
	  .help = "A network from a family of ready-made ones, with its parameters." },
};
/* clang-format on */

const uint32_t config_schema_keys = COUNT(config_schema);
