# Makefile - builds, tests and installs Tarn. `make help` lists the targets.
#
#   make                          build/tarn, build/libtarn.a, build/libtarn.so.0
#   make check [TESTS='plan*']    installs what is missing, builds and runs the tests
#   make train [ARGS=...]         the same, then trains on Fashion-MNIST
#
# Variables (command line or environment)
#   CC CFLAGS CPPFLAGS LDFLAGS    as usual; CFLAGS comes after the project's own flags, so it wins
#   BUILD=dir                     where everything built goes                    (build)
#   KCONFIG_CONFIG=file           what is built, see Kconfig                     (.config)
#   SAN=address,undefined         sanitizers, in a build folder of their own
#   WERROR=1                      warnings are errors
#   V=1                           print the commands
#
# Configurations side by side in one checkout have a BUILD and a KCONFIG_CONFIG each.

VERSION := 0.1.0
SONAME := libtarn.so.0

MAKEFLAGS += --no-builtin-rules --no-print-directory
.SUFFIXES:
.DELETE_ON_ERROR:

ifneq ($(filter default undefined,$(origin CC)),)
CC := gcc
endif
LD ?= ld
AR ?= ar
OBJCOPY ?= objcopy
PKG_CONFIG ?= pkg-config
CLANG ?= clang
CLANG_FORMAT ?= clang-format
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 30
TORCH_PYTHON ?= python3

comma := ,
BUILD ?= build$(if $(SAN),-$(subst $(comma),-,$(SAN)))
KCONFIG_CONFIG ?= .config
export KCONFIG_CONFIG

# Debian's interpreter, because its kconfiglib is not seen by another python3 on the PATH.
PYTHON ?= /usr/bin/python3
kconfig = $(PYTHON) -c 'import kconfiglib' 2>/dev/null || \
	{ echo "kconfiglib is missing: install python3-kconfiglib (tools/install_dependencies.sh does)" >&2; exit 1; }; \
	$(PYTHON) -m

# Begins a recipe line: says in short what it does, unless V=1 shows the command or -s asks for silence.
quiet := $(if $(V),,@)
silent := $(findstring s,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
say = $(quiet)$(if $(V)$(silent),,printf '  %-6s %s\n' $1 $2;)

# Targets that start a build of their own use every core unless -j says otherwise.
jobs = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))

# ---- Targets that need no configuration: they run before, or start another make that has one. ----
defconfigs := $(notdir $(wildcard configs/*_defconfig))
config-goals := menuconfig oldconfig olddefconfig savedefconfig $(defconfigs)
outer-goals := $(config-goals) check check-slow check-gpu golden train fuzz clean distclean help format check-format analyze \
	       dependencies uninstall ptx
goals := $(or $(MAKECMDGOALS),all)

.PHONY: all $(config-goals) $(outer-goals)
all:

ifneq ($(and $(filter $(outer-goals),$(goals)),$(word 2,$(goals))),)

# `make clean all`, `make debug_defconfig check`: one after another, whatever -j says.
.PHONY: $(goals) one-by-one
$(goals): one-by-one
	@:
one-by-one:
	@set -e; for goal in $(goals); do $(MAKE) $$goal; done

else ifneq ($(filter $(outer-goals) %_defconfig,$(goals)),)

%_defconfig:
	@echo "configs/$@: no such file; there is: $(defconfigs)" >&2; exit 1
$(defconfigs):
	@mkdir -p $(dir $(KCONFIG_CONFIG))
	@$(kconfig) defconfig configs/$@

menuconfig oldconfig olddefconfig:
	@mkdir -p $(dir $(KCONFIG_CONFIG))
	@$(kconfig) $@

savedefconfig:
	@mkdir -p $(BUILD)
	@$(kconfig) $@ --out $(BUILD)/defconfig

dependencies:
	@tools/install_dependencies.sh

check check-slow check-gpu golden train: dependencies
	@$(MAKE) $(jobs) run-$@

fuzz:
	@tools/install_dependencies.sh clang libclang-rt-14-dev libomp-dev
	@$(MAKE) $(jobs) run-fuzz

# The committed PTX text of the CUDA kernels; needs nvcc, which building does not.
ptx:
	@tools/make_ptx.sh

clean:
	rm -rf $(BUILD)

# Every build folder and configuration; runs/ holds the user's training and stays.
distclean:
	rm -rf $(sort build $(wildcard build-*) $(BUILD)) .config .config.old

c-files = $(shell find runtime drivers models tests tools -name '*.[ch]' -o -name '*.cu')
format:
	$(CLANG_FORMAT) -i $(c-files)
check-format:
	$(CLANG_FORMAT) --dry-run --Werror $(c-files)
analyze:
	cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
		-Iruntime -Idrivers -Itests -I. -D_GNU_SOURCE --suppress=missingIncludeSystem runtime drivers models tools

uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,bin/tarn lib/libtarn.a lib/libtarn.so lib/$(SONAME) \
		include/tarn.h include/tarn_status.h lib/pkgconfig/tarn.pc)

help:
	@echo 'Build'
	@echo '  all (default)      $(BUILD)/tarn, $(BUILD)/libtarn.a, $(BUILD)/$(SONAME)'
	@echo '  install            under DESTDIR and PREFIX ($(PREFIX)); uninstall removes it'
	@echo '  clean              removes $(BUILD)/'
	@echo '  distclean          removes every build folder and .config'
	@echo '  dependencies       installs the packages that are missing (make check and make train do it too)'
	@echo 'Configuration ($(KCONFIG_CONFIG))'
	@printf '  %-18s %s\n' $(foreach d,$(defconfigs),$d "$(shell sed -n '1s/^# *//p' configs/$d)")
	@echo '  menuconfig         edits it in the terminal'
	@echo '  oldconfig          asks about symbols that are new in Kconfig; olddefconfig takes their defaults'
	@echo '  savedefconfig      writes what differs from the defaults to $(BUILD)/defconfig'
	@echo 'Use'
	@echo '  train              trains configs/fashion-mnist.yaml; ARGS="--max-steps 60" adds options'
	@echo 'Tests'
	@echo "  check              runs the tests; TESTS='plan* config' a part, SAN=address,undefined with sanitizers"
	@echo '  check-slow         runs them with the slow cases'
	@echo '  check-gpu          runs what needs a GPU and writes $(BUILD)/check-gpu.json; ARGS=--simulated without one'
	@echo '  cudasim            the simulated CUDA libraries that the tests of the CUDA driver use'
	@echo '  engines            records what an installed cuDNN offers for the convolutions of tests/cudasim/fixtures'
	@echo '  golden             rewrites the golden files from what the program says now'
	@echo '  fuzz               each fuzz target for FUZZ_SECONDS ($(FUZZ_SECONDS)) with clang'
	@echo '  format             clang-format on every source; check-format only says what it would change'
	@echo '  analyze            cppcheck'
	@echo '  ptx                the PTX text of the CUDA kernels, with nvcc; it is committed, so that building needs no nvcc'
	@echo '  docs               docs/config.md and docs/arena.svg from what the program says now'
	@echo '  figures            numbers and pictures of docs/experiments.md: memory and time against layers (minutes)'
	@echo 'Measurements'
	@echo '  bench              own benchmarks'
	@echo '  bench-plan         the planner on abstract graphs, and its targets; ARGS=FOLDERS of cases, else made here'
	@echo '  bench-peers        the same networks in PyTorch; TORCH_PYTHON names a python that has it'
	@echo '                     (tools/compare_torch.py compares any one configuration)'
	@echo
	@echo 'Variables (CC, CFLAGS, BUILD, KCONFIG_CONFIG, SAN, WERROR, V ...) are explained at the head of the Makefile.'

else

# ---- Configuration: $(BUILD)/auto.conf for make, $(BUILD)/include/autoconf.h for the compiler. ----
auto-conf := $(BUILD)/auto.conf
autoconf-h := $(BUILD)/include/autoconf.h

# genconfig leaves a file alone whose content stays the same, so objects see a new autoconf.h only when it is one;
# auto.conf is touched, because it stands for having looked.
generate = mkdir -p $(BUILD)/include; { $(kconfig) genconfig --header-path $(autoconf-h) --config-out $(auto-conf); } \
	   && touch $(auto-conf)

$(auto-conf): Kconfig $(KCONFIG_CONFIG)
	@$(generate)
$(autoconf-h):
	@$(generate)
$(KCONFIG_CONFIG):
	@mkdir -p $(@D); { $(kconfig) defconfig configs/cpu_defconfig; } >/dev/null

include $(auto-conf)

ifeq ($(CONFIG_DRIVER_CPU)$(CONFIG_DRIVER_CUDA)$(CONFIG_DRIVER_NULL),)
ifneq ($(wildcard $(auto-conf)),)
$(error $(KCONFIG_CONFIG) has no driver: choose DRIVER_CPU, DRIVER_CUDA or DRIVER_NULL)
endif
endif

# ---- Sources. What only the planner or YAML need is named first; the rest of those folders is always built. ----
src-planner := $(filter-out runtime/planner/dag_file.c,$(wildcard runtime/boot*.c runtime/graph/build*.c runtime/graph/microbatch*.c runtime/graph/layer*.c runtime/graph/fuse* runtime/graph/simplify*.c \
		 runtime/autodiff/*.c runtime/planner/*.c runtime/planner/*/*.c models/*.c))
src-yaml := $(wildcard runtime/config/yaml_tree*.c runtime/config/config_load*.c runtime/planner/dag_file.c \
		 runtime/device_file.c)
src-base := $(wildcard $(addsuffix /*.c,runtime runtime/base runtime/config runtime/graph runtime/plan runtime/verify \
		 runtime/exec runtime/data drivers))

src-y := $(filter-out $(src-planner) $(src-yaml),$(src-base))
src-$(CONFIG_PLANNER) += $(src-planner)
src-$(CONFIG_YAML) += $(src-yaml)
src-$(CONFIG_DRIVER_NULL) += $(wildcard drivers/null/*.c)
src-$(CONFIG_DRIVER_CPU) += $(wildcard drivers/cpu/*.c)
src-$(CONFIG_DRIVER_CUDA) += $(wildcard drivers/cuda/*.c)

src-tool := $(if $(CONFIG_YAML),$(wildcard tools/*.c),$(filter-out tools/tarn_dag.c,$(wildcard tools/*.c)))
src-bench := $(wildcard tools/bench/bench_*.c)
src-fuzz := $(wildcard tests/fuzz/fuzz_*.c)
src-test := $(wildcard tests/test_*.c tests/*/test_*.c)
# Whatever tests share: tests/support/, and files beside the tests of a folder that are no tests themselves.
src-support := $(filter-out $(src-test) tests/fuzz/% tests/cudasim/% tests/faults/%,$(wildcard tests/*/*.c))
# Preloaded before the program, it makes one of its calls fail.
src-faults := tests/faults/fault_inject.c
# The simulated libraries of CUDA: four shared objects that the CUDA driver opens instead of NVIDIA's.
src-cudasim-cublaslt := $(wildcard tests/cudasim/cublaslt*.c)
src-cudasim-cudnn := $(wildcard tests/cudasim/cudnn*.c)
src-cudasim-nvml := $(wildcard tests/cudasim/nvml.c)
src-cudasim-cuda := $(filter-out $(src-cudasim-nvml) $(src-cudasim-cublaslt) $(src-cudasim-cudnn) tests/cudasim/record_%,\
		    $(wildcard tests/cudasim/*.c))
src-cudasim := $(src-cudasim-cuda) $(src-cudasim-cublaslt) $(src-cudasim-cudnn) $(src-cudasim-nvml)

# ---- Flags ----
san-flags := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
lib-y := -lxxhash -lz -lm -lpthread
lib-$(CONFIG_YAML) += -lyaml
lib-$(CONFIG_PNG) += -lpng
lib-$(CONFIG_LOCKDOWN) += -lseccomp
lib-$(CONFIG_DRIVER_CPU) += -ldnnl
openmp-$(CONFIG_DRIVER_CPU) := -fopenmp

flags := -std=c11 -D_GNU_SOURCE -DTARN_VERSION='"$(VERSION)"' -Iruntime -Idrivers -I. -include $(autoconf-h) \
	 -O2 -g -fPIC -fvisibility=hidden -ffp-contract=off -fopenmp-simd \
	 -Wall -Wextra -Wshadow -Wconversion -Werror=implicit $(if $(WERROR),-Werror) $(san-flags)
# clang says of each loop that it does not vectorise, which is no fault.
flags += $(if $(findstring clang,$(CC)),-Wno-pass-failed)
user-flags := $(CPPFLAGS) $(CFLAGS)
# Where the CUDA toolkit is, if anywhere; only checks of the tests need its headers.
CUDA_HOME ?= /usr/local/cuda

# One set of flags a group of objects, the compiler included, so that another one rebuilds.
flags-lib := $(CC) $(flags) $(user-flags)
flags-cpu := $(CC) $(flags) -O3 -fopenmp -fno-math-errno -fno-trapping-math $(user-flags)
flags-tool := $(flags-lib)
cuda-headers := $(if $(wildcard $(CUDA_HOME)/include/cudnn_graph.h),-isystem $(CUDA_HOME)/include -DTARN_CUDA_HEADERS)
flags-test := $(CC) $(flags) -Itests $(cuda-headers) $(openmp-y) $(shell $(PKG_CONFIG) --cflags check 2>/dev/null) $(user-flags)
# It runs where it is built, and its loops over 32 lanes are worth the widest instructions there are.
flags-cudasim := $(CC) $(flags) -Itests -O3 -march=native -fopenmp-simd -fno-math-errno \
		 $(addprefix -I,$(wildcard $(CUDA_HOME)/include)) $(user-flags)
link = $(CC) $(san-flags) $(openmp-y) $(CFLAGS) -Wl,--as-needed $(LDFLAGS)
test-libs = $(shell $(PKG_CONFIG) --libs check)

# Calls to these from the project's objects reach tests/support/heap_wrap.c in the tests that count heap calls.
heap-functions := malloc calloc realloc reallocarray free aligned_alloc posix_memalign memalign valloc strdup strndup
wrap-flags := $(addprefix -Wl$(comma)--wrap=,$(heap-functions))
wrapped-tests := test_noalloc% test_heap_wrap%

# $(call remember,name,text) keeps text in $(BUILD)/stamps/name and rewrites it only when it changes. Whatever depends on
# the stamp is then remade when its flags or its list of objects change, and not otherwise.
differ = $(subst x$1,,x$2)$(subst x$2,,x$1)
remember = $(if $(call differ,$(strip $(file <$(BUILD)/stamps/$1)),$(strip $2)),$(shell mkdir -p $(BUILD)/stamps)$(file \
	   >$(BUILD)/stamps/$1,$(strip $2)))

object = $(patsubst %.c,$(BUILD)/obj/%.o,$1)
objects-cpu := $(call object,$(filter drivers/cpu/%,$(src-y)))
objects-lib := $(call object,$(filter-out drivers/cpu/%,$(src-y)))
objects-tool := $(call object,$(src-tool) $(src-bench))
objects-test := $(call object,$(src-test) $(src-support) $(src-faults))
objects-cudasim := $(call object,$(src-cudasim))
objects := $(objects-lib) $(objects-cpu)

$(foreach group,lib cpu tool test cudasim,$(call remember,flags-$(group),$(flags-$(group))))
$(call remember,objects,$(sort $(objects)))
$(call remember,objects-tool,$(src-tool))
$(call remember,objects-support,$(src-support))
$(call remember,objects-cudasim,$(src-cudasim))
$(call remember,link,$(link) $(lib-y) $(wrap-flags))

# ---- Objects ----
define compile
$(call say,CC,$<)mkdir -p $(@D); $(flags-$1) -MMD -MP -c -o $@ $<
endef
$(objects-lib): $(BUILD)/obj/%.o: %.c $(BUILD)/stamps/flags-lib $(autoconf-h)
	$(call compile,lib)
$(objects-cpu): $(BUILD)/obj/%.o: %.c $(BUILD)/stamps/flags-cpu $(autoconf-h)
	$(call compile,cpu)
$(objects-tool): $(BUILD)/obj/%.o: %.c $(BUILD)/stamps/flags-tool $(autoconf-h)
	$(call compile,tool)
$(objects-test): $(BUILD)/obj/%.o: %.c $(BUILD)/stamps/flags-test $(autoconf-h)
	$(call compile,test)
$(objects-cudasim): $(BUILD)/obj/%.o: %.c $(BUILD)/stamps/flags-cudasim $(autoconf-h)
	$(call compile,cudasim)

# The assembler reads the texts, and the compiler's list of dependencies does not name it.
$(call object,drivers/cuda/kernels_text.c): $(wildcard drivers/cuda/kernels/tarn_kernels_*.ptx)

-include $(patsubst %.o,%.d,$(objects) $(objects-tool) $(objects-test) $(objects-cudasim))

# ---- Libraries and the program ----
internal := $(BUILD)/libtarn-internal.a
program := $(if $(src-tool),$(BUILD)/tarn)
libraries := $(BUILD)/libtarn.a $(BUILD)/$(SONAME) $(BUILD)/libtarn.so

all: $(program) $(libraries)

define archive
$(call say,AR,$@)mkdir -p $(@D); rm -f $@; $(AR) rcs $@
endef
# Every object with all its names, for the program and the tests.
$(internal): $(objects) $(BUILD)/stamps/objects
	$(call archive) $(objects)

# For users: one object in which only the public names are left.
$(BUILD)/libtarn.o: $(objects) $(BUILD)/stamps/objects
	$(call say,LD,$@)$(LD) -r -o $@ $(objects)
	$(quiet)$(OBJCOPY) --localize-hidden $@
$(BUILD)/libtarn.a: $(BUILD)/libtarn.o
	$(call archive) $<

$(BUILD)/$(SONAME): $(objects) $(BUILD)/stamps/objects $(BUILD)/stamps/link
	$(call say,LD,$@)$(link) -shared -Wl,-soname,$(SONAME) $(if $(SAN),,-Wl$(comma)-z$(comma)defs) -o $@ $(objects) $(lib-y)
$(BUILD)/libtarn.so: $(BUILD)/$(SONAME)
	$(quiet)ln -sf $(SONAME) $@

$(BUILD)/tarn: $(call object,$(src-tool)) $(internal) $(BUILD)/stamps/objects-tool $(BUILD)/stamps/link
	$(call say,LD,$@)$(link) -o $@ $(filter %.o,$^) $(internal) $(lib-y)

# ---- Tests ----
support := $(BUILD)/libtarn-support.a
test-programs := $(patsubst tests/%.c,$(BUILD)/tests/%,$(src-test))
test-scripts := $(wildcard tests/test_*.sh tests/*/test_*.sh)

$(support): $(call object,$(src-support)) $(BUILD)/stamps/objects-support
	$(call archive) $(filter %.o,$^)
$(test-programs): $(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(support) $(internal) $(BUILD)/stamps/link
	$(call say,LD,$@)mkdir -p $(@D); $(link) $(if $(filter $(wrapped-tests),$(@F)),$(wrap-flags)) -o $@ $< $(support) \
		$(internal) $(test-libs) $(lib-y)

# Named as NVIDIA's are; the other libraries find the device beside them.
cudasim := $(addprefix $(BUILD)/cudasim/,libcuda.so.1 $(if $(src-cudasim-cublaslt),libcublasLt.so.13) \
	   $(if $(src-cudasim-cudnn),libcudnn_graph.so.9) $(if $(src-cudasim-nvml),libnvidia-ml.so.1))
$(BUILD)/cudasim/libcuda.so.1: $(call object,$(src-cudasim-cuda))
$(BUILD)/cudasim/libcublasLt.so.13: $(call object,$(src-cudasim-cublaslt)) $(BUILD)/cudasim/libcuda.so.1
$(BUILD)/cudasim/libnvidia-ml.so.1: $(call object,$(src-cudasim-nvml)) $(BUILD)/cudasim/libcuda.so.1
$(BUILD)/cudasim/libcudnn_graph.so.9: $(call object,$(src-cudasim-cudnn)) $(BUILD)/cudasim/libcuda.so.1
$(cudasim): $(BUILD)/stamps/objects-cudasim $(BUILD)/stamps/link
	$(call say,LD,$@)mkdir -p $(@D); $(link) -shared -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN' -o $@ $(filter %.o,$^) \
		$(filter %libcuda.so.1,$(filter-out $@,$^)) -lm -lpthread

# Asks an installed cuDNN, without a device, for the engines that its double serves.
record-engines := $(BUILD)/cudasim/record_engines
$(record-engines): tests/cudasim/record_engines.c tests/cudasim/cudnn_values.h $(BUILD)/stamps/flags-cudasim
	$(call say,LD,$@)mkdir -p $(@D); $(flags-cudasim) -o $@ $< -ldl

fault-library := $(BUILD)/tests/fault_inject.so
$(fault-library): $(call object,$(src-faults)) $(BUILD)/stamps/link
	$(call say,LD,$@)mkdir -p $(@D); $(link) -shared -o $@ $(filter %.o,$^) -ldl

.PHONY: tests cudasim engines run-check run-check-slow run-check-gpu run-golden run-train
tests: $(test-programs) $(cudasim) $(record-engines) $(fault-library)
cudasim: $(cudasim)
fixtures := tests/cudasim/fixtures
engines: $(record-engines)
	$(quiet)for device in h200 rtx3060ti; do $< configs/devices/$$device.json $(fixtures)/convolutions.txt \
		>$(BUILD)/engines && mv $(BUILD)/engines $(fixtures)/engines_$$device.txt || exit 1; done

# A test script that calls make gets the variables of this one, and not its job server, which it cannot reach.
run-tests = MAKEFLAGS='$(MAKEOVERRIDES)' MFLAGS= BUILD='$(BUILD)' SAN='$(SAN)' CC='$(CC)' TESTS='$(TESTS)' \
	    tools/run_tests.sh $(test-programs) $(test-scripts)
ifeq ($(CONFIG_PLANNER),)
run-check run-check-slow run-check-gpu run-golden:
	@echo "The tests plan before they run, and $(KCONFIG_CONFIG) leaves the planner out: choose PLANNER." >&2; exit 1
else
run-check: all tests
	@$(run-tests)
run-check-slow: all tests
	@TARN_TEST_SLOW=1 TEST_TIMEOUT=3600 $(run-tests)
run-check-gpu: all tests
	@$(PYTHON) tools/check_gpu.py $(BUILD) $(ARGS)
run-golden: TESTS := golden*
run-golden: all tests
	@TARN_GOLDEN_UPDATE=1 $(run-tests)
endif

run-train: all
	$(BUILD)/tarn train configs/fashion-mnist.yaml $(ARGS)

# ---- Fuzzing: every source once more, instrumented by clang ----
fuzz-build := $(BUILD)/fuzz
fuzz-flags := $(flags) -Itests -O1 -fsanitize=fuzzer-no-link,address $(openmp-y) \
	      $(shell $(PKG_CONFIG) --cflags check 2>/dev/null)
fuzz-object = $(patsubst %.c,$(fuzz-build)/obj/%.o,$1)
fuzz-library := $(fuzz-build)/libtarn.a
fuzz-programs := $(patsubst tests/fuzz/%.c,$(fuzz-build)/%,$(src-fuzz))
$(call remember,flags-fuzz,$(CLANG) $(fuzz-flags))
$(call remember,objects-fuzz,$(src-y) $(src-support))

$(call fuzz-object,$(src-y) $(src-support) $(src-fuzz)): $(fuzz-build)/obj/%.o: %.c $(BUILD)/stamps/flags-fuzz $(autoconf-h)
	$(call say,CC,$<)mkdir -p $(@D); $(CLANG) $(fuzz-flags) -MMD -MP -c -o $@ $<
$(fuzz-library): $(call fuzz-object,$(src-y) $(src-support)) $(BUILD)/stamps/objects-fuzz
	$(call archive) $(filter %.o,$^)
$(fuzz-programs): $(fuzz-build)/%: $(fuzz-build)/obj/tests/fuzz/%.o $(fuzz-library)
	$(call say,LD,$@)$(CLANG) -fsanitize=fuzzer,address $(openmp-y) -o $@ $^ $(test-libs) $(lib-y)
-include $(patsubst %.o,%.d,$(call fuzz-object,$(src-y) $(src-support) $(src-fuzz)))

.PHONY: run-fuzz
run-fuzz: $(fuzz-programs)
	@tools/run_fuzz.sh $(FUZZ_SECONDS) $(fuzz-programs)

# ---- Benchmarks ----
bench-programs := $(patsubst tools/bench/%.c,$(BUILD)/bench/%,$(src-bench))
$(bench-programs): $(BUILD)/bench/%: $(BUILD)/obj/tools/bench/%.o $(internal) $(BUILD)/stamps/link
	$(call say,LD,$@)mkdir -p $(@D); $(link) -o $@ $< $(internal) $(lib-y)

.PHONY: bench bench-peers bench-plan
bench: all $(bench-programs)
	@set -e; for program in $(bench-programs); do echo "== $$program"; $$program; done
	@$(PYTHON) tools/bench/bench_budget.py $(BUILD)/tarn $(ARGS)
bench-plan: all
	@$(PYTHON) tools/bench/bench_plan.py $(BUILD)/tarn $(ARGS)
	@$(PYTHON) tools/bench/plan_targets.py $(BUILD)/tarn --json $(BUILD)/plan_targets.json $(ARGS)
bench-peers: all
	@$(TORCH_PYTHON) tools/bench/bench_peers.py $(BUILD)/tarn $(ARGS)

# ---- What the documents show and the program knows ----
.PHONY: docs figures
figures: all
	@$(PYTHON) tools/figures.py $(BUILD)/tarn docs/figures $(ARGS)
docs: all
	$(quiet)tools/generate_docs.sh $(BUILD)/tarn >$(BUILD)/config.md
	$(quiet)cmp -s $(BUILD)/config.md docs/config.md || cp $(BUILD)/config.md docs/config.md
	$(quiet)$(BUILD)/tarn plan configs/fashion-mnist.yaml train.threads=2 --svg docs/arena.svg >/dev/null

# ---- Installing ----
.PHONY: install
target := $(DESTDIR)$(PREFIX)
install: all
	$(quiet)install -d $(target)/lib/pkgconfig $(target)/include $(if $(program),$(target)/bin)
	$(quiet)$(if $(program),install -m 755 $(program) $(target)/bin/tarn)
	$(quiet)install -m 644 $(BUILD)/libtarn.a $(target)/lib/libtarn.a
	$(quiet)install -m 755 $(BUILD)/$(SONAME) $(target)/lib/$(SONAME)
	$(quiet)ln -sf $(SONAME) $(target)/lib/libtarn.so
	$(quiet)install -m 644 runtime/tarn.h runtime/tarn_status.h $(target)/include
	$(quiet)sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' \
		-e 's|@PRIVATE_LIBS@|$(strip $(san-flags) $(openmp-y) $(lib-y))|' tools/tarn.pc.in >$(target)/lib/pkgconfig/tarn.pc

endif
