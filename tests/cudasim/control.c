/*
 * control.c - settings, faults, the strict accounting and its report; what every call begins and ends with.
 */
#include "simulator.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct simulator simulator = { .lock = PTHREAD_MUTEX_INITIALIZER };

void *host_zeroed(size_t bytes)
{
	void *memory = calloc(1, bytes);
	if (memory)
		return memory;
	fprintf(stderr, "cudasim: the host has no %zu bytes left\n", bytes);
	abort();
}

/* SplitMix64, as in warp_run.c: the order of streams. */
uint64_t random_draw(void)
{
	uint64_t z = simulator.random += 0x9E3779B97F4A7C15u;
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	z = (z ^ z >> 27) * 0x94D049BB133111EBu;
	return z ^ z >> 31;
}

/* ---- Settings ---- */

#define MIB (UINT64_C(1) << 20)
static const struct config default_config = {
	.total = 4096 * MIB,
	.context = 300 * MIB,
	.stream = 256 << 10,
	.module = 64 << 10,
	.function = 16 << 10,
	.graph = 128 << 10,
	.graph_node = 4 << 10,
	.cublaslt = 1 * MIB,
	.cudnn = 4 * MIB,
	.plan = 256 << 10,
	.multiprocessors = 132,
	.major = 9,
	.minor = 0,
	.driver = 13000,
	.queue = 1024,
	.strict = 1,
	.max_instructions = 4000000000u,
	.name = "simulated device",
};

static const struct {
	const char *key;
	size_t offset;
} setting[] = {
#define SETTING(key)                               \
	{                                          \
#key, offsetof(struct config, key) \
	}
	SETTING(total),
	SETTING(seed),
	SETTING(neighbour),
	SETTING(context),
	SETTING(stream),
	SETTING(module),
	SETTING(function),
	SETTING(graph),
	SETTING(graph_node),
	SETTING(cublaslt),
	SETTING(cudnn),
	SETTING(plan),
	SETTING(major),
	SETTING(minor),
	SETTING(multiprocessors),
	SETTING(driver),
	SETTING(queue),
	SETTING(strict),
	SETTING(max_instructions),
};

static uint64_t *setting_value(const char *key, size_t length)
{
	for (size_t i = 0; i < sizeof setting / sizeof *setting; i++)
		if (strlen(setting[i].key) == length && memcmp(setting[i].key, key, length) == 0)
			return (uint64_t *)((char *)&simulator.config + setting[i].offset);
	return NULL;
}

/* 12, 3 KiB, 1.5GiB */
static bool read_size(const char *text, const char *end, uint64_t *value)
{
	char *unit;
	errno = 0;
	double number = strtod(text, &unit);
	while (*unit == ' ')
		unit++;
	uint64_t factor = 1;
	size_t left = (size_t)(end - unit);
	if (left == 3 && memcmp(unit + 1, "iB", 2) == 0)
		factor = *unit == 'K' ? 1 << 10 : *unit == 'M' ? 1 << 20 : *unit == 'G' ? 1 << 30 : 0;
	else if (left != 0)
		return false;
	*value = (uint64_t)(number * (double)factor);
	return unit != text && factor && number >= 0 && errno == 0;
}

static bool apply_setting(const char *text, const char *end)
{
	const char *equal = memchr(text, '=', (size_t)(end - text));
	if (!equal)
		return false;
	if (equal - text == 4 && memcmp(text, "name", 4) == 0) {
		snprintf(simulator.config.name, sizeof simulator.config.name, "%.*s", (int)(end - equal - 1),
			 equal + 1);
		return true;
	}
	uint64_t *value = setting_value(text, (size_t)(equal - text));
	return value && read_size(equal + 1, end, value);
}

static bool apply_settings(const char *settings, char *message, size_t message_bytes)
{
	while (*settings) {
		const char *end = settings + strcspn(settings, ",");
		if (!apply_setting(settings, end)) {
			snprintf(message, message_bytes, "cudasim: setting '%.*s' is unknown or has a bad value",
				 (int)(end - settings), settings);
			return false;
		}
		settings = *end ? end + 1 : end;
	}
	simulator.random = simulator.config.seed;
	return true;
}

/* NAME:N:CODE[,...] */
static void apply_faults(const char *text)
{
	while (text && *text) {
		char name[48];
		unsigned long long nth;
		int code;
		if (sscanf(text, "%47[^:]:%llu:%d", name, &nth, &code) == 3)
			sim_fault(strcmp(name, "any") == 0 ? NULL : name, nth, code);
		text = strchr(text, ',');
		if (text)
			text++;
	}
}

void configure_once(void)
{
	if (simulator.configured)
		return;
	simulator.configured = true;
	simulator.config = default_config;
	simulator.stack_limit = 1024;
	const char *settings = getenv("TARN_CUDASIM");
	char message[128];
	if (settings && !apply_settings(settings, message, sizeof message)) {
		fprintf(stderr, "%s\n", message);
		exit(EXIT_FAILURE);
	}
	apply_faults(getenv("TARN_CUDASIM_FAULT"));
}

bool sim_configure(const char *settings, char *message, size_t message_bytes)
{
	configure_once();
	return apply_settings(settings, message, message_bytes);
}

uint64_t sim_setting(const char *key)
{
	configure_once();
	const uint64_t *value = setting_value(key, strlen(key));
	return value ? *value : 0;
}

/* ---- Accounting ---- */

static void keep_failure(const char *format, va_list arguments)
{
	struct simulator *sim = &simulator;
	char text[MESSAGE_BYTES];
	vsnprintf(text, sizeof text, format, arguments);
	fprintf(stderr, "cudasim: %s\n", text);
	if (sim->failures < MAX_FAILURES)
		memcpy(sim->failure[sim->failures], text, sizeof text);
	sim->failures++;
}

void note_failure(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	keep_failure(format, arguments);
	va_end(arguments);
}

void sim_note(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	pthread_mutex_lock(&simulator.lock);
	keep_failure(format, arguments);
	pthread_mutex_unlock(&simulator.lock);
	va_end(arguments);
}

uint32_t sim_failures(void)
{
	return simulator.failures;
}

const char *sim_failure(uint32_t index)
{
	return index < simulator.failures && index < MAX_FAILURES ? simulator.failure[index] : "";
}

int stick(int error)
{
	if (!simulator.sticky)
		simulator.sticky = error;
	return error;
}

void sim_freeze(int frozen)
{
	simulator.frozen = frozen != 0;
}

bool device_take(uint64_t bytes)
{
	struct simulator *sim = &simulator;
	uint64_t taken = sim->used_bytes + sim->config.neighbour;
	if (bytes > sim->config.total || taken > sim->config.total - bytes)
		return false;
	sim->used_bytes += bytes;
	if (sim->peak_bytes < sim->used_bytes)
		sim->peak_bytes = sim->used_bytes;
	return true;
}

bool hidden_take(const char *who, uint64_t bytes)
{
	if (bytes && simulator.frozen)
		note_failure("%s takes %llu hidden bytes of device memory after the freeze", who,
			     (unsigned long long)bytes);
	if (!device_take(bytes))
		return false;
	simulator.hidden_bytes += bytes;
	return true;
}

void hidden_give(uint64_t bytes)
{
	simulator.used_bytes -= bytes;
	simulator.hidden_bytes -= bytes;
}

bool sim_hidden(const char *who, int64_t bytes)
{
	pthread_mutex_lock(&simulator.lock);
	bool taken = true;
	if (bytes < 0)
		hidden_give((uint64_t)-bytes);
	else
		taken = hidden_take(who, (uint64_t)bytes);
	pthread_mutex_unlock(&simulator.lock);
	return taken;
}

void sim_library_handles(int more)
{
	simulator.library_handles += more;
}

uint64_t sim_count(enum sim_count count)
{
	const struct simulator *sim = &simulator;
	switch (count) {
	case SIM_INSTRUCTIONS:
		return sim->machine.instructions;
	case SIM_USED_BYTES:
		return sim->used_bytes;
	case SIM_PEAK_BYTES:
		return sim->peak_bytes;
	case SIM_HIDDEN_BYTES:
		return sim->hidden_bytes;
	default:
		return count < SIM_COUNTS ? sim->count[count] : 0;
	}
}

#define COUNT_LIST(list)                                                                        \
	static uint32_t count_##list(void)                                                      \
	{                                                                                       \
		uint32_t n = 0;                                                                 \
		for (__typeof__(simulator.list) item = simulator.list; item; item = item->next) \
			n++;                                                                    \
		return n;                                                                       \
	}
COUNT_LIST(streams)
COUNT_LIST(events)
COUNT_LIST(modules)
COUNT_LIST(executables)

static uint32_t count_graphs(void)
{
	uint32_t n = 0;
	for (const struct graph *graph = simulator.graphs; graph; graph = graph->next)
		n += !graph->destroyed;
	return n;
}

const char *sim_leaks(void)
{
	struct simulator *sim = &simulator;
	const struct {
		const char *what;
		uint32_t held;
	} held[] = { { "device allocations", sim->device_allocations },
		     { "host allocations", sim->host_allocations },
		     { "streams", count_streams() },
		     { "events", count_events() },
		     { "modules", count_modules() },
		     { "graphs", count_graphs() },
		     { "executable graphs", count_executables() },
		     { "handles and descriptors of libraries", (uint32_t)sim->library_handles },
		     { "uses of the context", sim->context_users } };
	sim->leaks[0] = '\0';
	for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
		size_t used = strlen(sim->leaks);
		if (held[i].held)
			snprintf(sim->leaks + used, sizeof sim->leaks - used, "%s%u %s", used ? ", " : "", held[i].held,
				 held[i].what);
	}
	return sim->leaks;
}

/* ---- Faults ---- */

void sim_fault(const char *function, uint64_t nth, int code)
{
	struct simulator *sim = &simulator;
	if (nth == 0) {
		sim->faults = 0;
		return;
	}
	if (sim->faults == MAX_FAULTS)
		return;
	struct fault *fault = &sim->fault[sim->faults++];
	*fault = (struct fault){ .countdown = nth, .code = code };
	if (function)
		snprintf(fault->function, sizeof fault->function, "%s", function);
}

/* cuMemAlloc_v2 is also meant by cuMemAlloc. */
static bool names(const char *fault, const char *function)
{
	size_t length = strlen(fault);
	if (length == 0)
		return strcmp(function, "kernel") != 0;
	return strncmp(fault, function, length) == 0 &&
	       (function[length] == '\0' || strcmp(function + length, "_v2") == 0);
}

int fault_of(const char *function)
{
	for (uint32_t i = 0; i < simulator.faults; i++) {
		struct fault *fault = &simulator.fault[i];
		if (names(fault->function, function) && fault->countdown && --fault->countdown == 0)
			return fault->code;
	}
	return 0;
}

/* Errors after which CUDA's context is lost. */
static bool sticks(int code)
{
	return code == SIM_CUDA_ERROR_ECC_UNCORRECTABLE || (code >= 700 && code <= 719 && code != 701) ||
	       code == SIM_CUDA_ERROR_UNKNOWN;
}

int call_begin(const char *function, unsigned flags)
{
	struct simulator *sim = &simulator;
	pthread_mutex_lock(&sim->lock);
	configure_once();
	sim->count[SIM_CALLS]++;
	if (flags & CALL_ANYTIME)
		return 0;
	if (sim->sticky)
		return sim->sticky;
	int code = fault_of(function);
	if (code)
		return sticks(code) ? stick(code) : code;
	if (flags & CALL_NO_DEVICE)
		return 0;
	if (!sim->initialized && strcmp(function, "cuInit") != 0)
		return SIM_CUDA_ERROR_NOT_INITIALIZED;
	if (!(flags & CALL_NO_CONTEXT) && !sim->context_current)
		return SIM_CUDA_ERROR_INVALID_CONTEXT;
	if (flags & CALL_NOT_IN_CAPTURE && is_capturing_any()) {
		capture_invalidate_all(function);
		return SIM_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	if (flags & CALL_ALLOCATES && sim->frozen)
		note_failure("%s after the freeze", function);
	return 0;
}

int call_end(int error)
{
	pthread_mutex_unlock(&simulator.lock);
	return error;
}

int sim_library_call(const char *function)
{
	int error = call_begin(function, CALL_NO_DEVICE);
	return call_end(error);
}

bool sim_has_context(void)
{
	return simulator.context_current;
}

/* ---- The end ---- */

void sim_reset(void)
{
	struct simulator *sim = &simulator;
	struct config config = sim->config;
	streams_clear();
	graphs_clear();
	modules_clear();
	memory_free_all(&sim->memory);
	machine_free(&sim->machine);
	*sim = (struct simulator){ .lock = PTHREAD_MUTEX_INITIALIZER, .config = config, .configured = true };
	sim->stack_limit = 1024;
	sim->random = config.seed;
}

static void write_report(FILE *f)
{
	static const char *const name[SIM_COUNTS] = { "calls",        "launches",   "copies",     "graph_launches",
						      "instructions", "used_bytes", "peak_bytes", "hidden_bytes" };
	for (int i = 0; i < SIM_COUNTS; i++)
		fprintf(f, "%s %llu\n", name[i], (unsigned long long)sim_count((enum sim_count)i));
	fprintf(f, "failures %u\nsticky %d\nleaks %s\n", simulator.failures, simulator.sticky, sim_leaks());
	for (uint32_t i = 0; i < simulator.failures && i < MAX_FAILURES; i++)
		fprintf(f, "failure %s\n", simulator.failure[i]);
}

__attribute__((destructor)) static void report(void)
{
	const char *path = getenv("TARN_CUDASIM_REPORT");
	FILE *f = path && *path ? fopen(path, "w") : NULL;
	if (f) {
		write_report(f);
		fclose(f);
	}
	if (!simulator.sticky && *sim_leaks())
		fprintf(stderr, "cudasim: still held at the end: %s\n", sim_leaks());
	sim_reset();
}
