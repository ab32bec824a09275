# xtrain: build, check, test, install. `make help` lists what there is; docs/building.md says more.
#
# Variables: BUILD (folder of everything that is built), SAN (address, thread or fuzzer), CC, CFLAGS, PREFIX,
# DESTDIR, DNNL_ROOT (an oneDNN of your own), V=1 (show the commands).
CC ?= cc
VERSION := 0.1.0
SAN ?=
ifeq ($(SAN),fuzzer)
CC := clang
endif
BUILD ?= build$(if $(SAN),/san-$(SAN))
PREFIX ?= /usr/local
CFLAGS ?= $(if $(SAN),-O1 -g1,-O2 -g)
V ?= 0

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
ifeq ($(MAKELEVEL),0)
ifeq ($(filter -j% --jobserver%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif
endif
MAKEFLAGS += --no-print-directory

# Q hides a command; say prints the one line that stands for it.
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-6s %s\n' $(1) $(2))

# --- flags -----------------------------------------------------------------------------------------------------------
# What an initializer leaves out is zero; gcc and clang warn of it in different places.
WARN := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-missing-field-initializers -Werror
# Compiled with, not linked with: base/system/openmp.c loads the runtime. The fuzzers are built by clang, which calls
# another runtime than gcc: there the pragmas are ignored.
OPENMP := $(if $(filter fuzzer,$(SAN)),-Wno-unknown-pragmas -Wno-source-uses-openmp,-fopenmp)
# They double the time to compile; with -O1 gcc does not know how long numbers can be.
SAN_WARN := -Wno-unknown-warning-option -Wno-format-truncation
SAN_address := $(SAN_WARN) -fsanitize=address,undefined,float-cast-overflow \
  -fno-sanitize-recover=undefined,float-cast-overflow -fno-omit-frame-pointer
SAN_thread := $(SAN_WARN) -fsanitize=thread -fno-omit-frame-pointer
SAN_fuzzer := -fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow \
  -fno-sanitize-recover=undefined,float-cast-overflow -fno-omit-frame-pointer
ifneq ($(SAN),)
ifeq ($(SAN_$(SAN)),)
$(error SAN=$(SAN) is not known: write SAN=address, SAN=thread or SAN=fuzzer)
endif
endif
# What `make deps` found or fetched comes first; an oneDNN of the system is in the compiler's own path.
INCLUDES := -I. -Itests -isystem deps/dnnl/include $(if $(DNNL_ROOT),-isystem $(DNNL_ROOT)/include) -isystem $(BUILD)/gen
LANGUAGE := -std=gnu17 -D_GNU_SOURCE $(OPENMP) $(INCLUDES) -DXT_VERSION='"$(VERSION)"'
# What is not in xtrain.h is hidden: all of it can be in a shared library, and be inlined there.
ALL_CFLAGS := $(LANGUAGE) -fPIC -fvisibility=hidden -ffp-contract=off $(WARN) $(CFLAGS) $(SAN_$(SAN))
LIBS := -ljpeg -lpng -lwebp -lexif -lyaml -lcjson -larchive -lprotobuf-c -ldl -lpthread -lm
TEST_LIBS := -lcmocka -lz
# An old-style rpath: the libraries that are loaded at run time find their neighbours by it too.
ALL_LDFLAGS := $(SAN_$(SAN)) -Wl,--disable-new-dtags -Wl,-rpath,'$$ORIGIN/../lib/xtrain' $(LDFLAGS)

# Inner loops are compiled once for each instruction set; the program picks one when it starts.
LOOP_CFLAGS = $(filter-out -O%,$(ALL_CFLAGS)) -O3 -fno-trapping-math -fno-math-errno -ffp-contract=fast
# Parameters have the same bits whatever the CPU.
CONTRACT_train := -ffp-contract=off
# With sanitizers -O2 takes twice as long to compile as -O1, and tests are no faster. No fuzzer computes with the engine's.
# There the address sanitizer checks pointers; the checks of UBSan for each one double the time once more.
LOOP_SAN_CFLAGS = $(patsubst -O3,-O1,$(LOOP_CFLAGS))
ENGINE_address := -fno-sanitize=null,pointer-overflow,alignment,object-size
loop_flags = $(if $(and $(filter fuzzer,$(SAN)),$(filter engine/%,$1)),\
  $(filter-out -fsanitize=% -fno-sanitize%,$(LOOP_SAN_CFLAGS)),\
  $(if $(SAN),$(LOOP_SAN_CFLAGS) $(if $(filter engine/%,$1),$(ENGINE_$(SAN))),$(LOOP_CFLAGS))) $(CONTRACT_$(firstword $(subst /, ,$1)))
# The reference loops are what a self-test under a sanitizer does most of its time.
ifneq ($(ENGINE_$(SAN)),)
$(BUILD)/obj/engine/ops/%.o $(BUILD)/obj/engine/selftest/%.o: ALL_CFLAGS += -O2 $(ENGINE_$(SAN))
endif
MARCH_avx512 := -march=skylake-avx512 -mprefer-vector-width=512
MARCH_avx512bf16 := $(MARCH_avx512) -mavx512bf16
MARCH_amx := $(MARCH_avx512bf16) -mamx-tile -mamx-bf16
MARCH_avx2 := -march=haswell
MARCH_base :=
LOOP_ISAS := $(if $(filter x86_64,$(shell uname -m)),amx avx512bf16 avx512 avx2) base

# --- what is built from what -----------------------------------------------------------------------------------------
ROOMS := base device data engine models infer ranks runs train cli
# What is loaded at run time is a library of its own.
MPI_SOURCE := ranks/plugin/mpi.c
SOURCES := $(filter-out $(MPI_SOURCE),$(sort $(shell find $(ROOMS) -name '*.c')))
LOOP_SOURCES := $(foreach f,$(SOURCES),$(if $(findstring /loops/,$f),$f))
# Pixels have no matrices.
loops_of = $(if $(filter amx avx512bf16,$1),$(filter engine/%,$(LOOP_SOURCES)),$(LOOP_SOURCES))
LIB_SOURCES := $(filter-out cli/main.c $(LOOP_SOURCES),$(SOURCES))
# Written by protobuf-c from schemas: that of ONNX, which libonnx-dev brings, and our own.
ONNX_CODE := $(BUILD)/gen/onnx.pb-c
EVENTS_CODE := $(BUILD)/gen/events.pb-c
GENERATED := $(ONNX_CODE) $(EVENTS_CODE)
LIB_OBJECTS := $(LIB_SOURCES:%.c=$(BUILD)/obj/%.o) $(GENERATED:=.o) \
  $(foreach isa,$(LOOP_ISAS),$(patsubst %.c,$(BUILD)/obj/%.$(isa).o,$(call loops_of,$(isa))))
HEADERS := $(sort $(shell find $(ROOMS) -name '*.h')) $(wildcard tests/*.h)
# tests/<folder>/test_*.c: a binary each; tests/<name>.c: a tool (golden); tests/support.c is linked into all of them.
# Those of tests/xpu run under a double of a GPU: `make test-xpu`, in tests/xpu/xpu.mk; those of tests/mpi as several
# processes: `make test-mpi`, in tests/mpi/mpi.mk.
TEST_SOURCES := $(filter-out tests/xpu/% tests/mpi/%,$(wildcard tests/*/test_*.c))
TESTS := $(TEST_SOURCES:tests/%.c=$(BUILD)/tests/%)
TEST_SCRIPTS := $(filter-out tests/xpu/% tests/mpi/%,$(wildcard tests/*/test_*.sh))
TOOLS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(filter-out tests/support.c,$(wildcard tests/*.c)))
SUPPORT := $(patsubst tests/%.c,$(BUILD)/obj/tests/%.o,$(wildcard tests/support.c))
FUZZERS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/fuzz/fuzz_*.c))

.PHONY: all deps deps-check demo test fuzz test-all check install uninstall bundle wheel deb clean help tests fuzzers fuzz-libs FORCE
# MPI, where `mpicc` is there: the program loads it where it is one of several processes. The compiler is ours, with the
# flags that mpicc would give it.
# Debian's names beside each other are mpicc.openmpi and mpicc.mpich; one that is alone is mpicc.
MPICC ?= $(if $(shell command -v mpicc.openmpi),mpicc.openmpi,mpicc)
MPICC_MPICH ?= mpicc.mpich
mpi_flags = $(patsubst -I%,-isystem %,$(wordlist 2,99,$(shell $(1) -show 2>/dev/null)))
MPI_FLAGS := $(call mpi_flags,$(MPICC))
MPICH_FLAGS := $(call mpi_flags,$(MPICC_MPICH))
MPI_LIBRARIES := $(if $(MPI_FLAGS),$(BUILD)/libxtrain_mpi.so) $(if $(MPICH_FLAGS),$(BUILD)/libxtrain_mpich.so)
# What catches the exceptions of oneDNN's GPU build is the one part in C++: the program loads it for an XPU.
CXX ?= c++
GUARD_SOURCE := device/faults/catch.cpp
GUARD_LIBRARY := $(BUILD)/libxtrain_guard.so
PLUGINS := $(MPI_LIBRARIES) $(GUARD_LIBRARY)
all: $(BUILD)/xtrain $(BUILD)/libxtrain.so $(PLUGINS)

help:
	@sed -n 's/^#: //p' Makefile

# The first build looks whether what it needs is there, and says what to do if not.
$(BUILD)/deps-found: scripts/deps.sh
	@mkdir -p $(@D)
	@scripts/deps.sh --probe
	@touch $@

# Everything is built again when the flags change.
FLAGS = $(CC) $(CXX) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(LOOP_CFLAGS) $(foreach isa,$(LOOP_ISAS),$(MARCH_$(isa)))
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(FLAGS))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(FLAGS))' >$@

$(ONNX_CODE).h: | $(BUILD)/deps-found
	$(call say,PROTO,$@)
	@mkdir -p $(@D)
	$(Q)scripts/onnx-code.sh $(@D)
$(EVENTS_CODE).h: runs/report/events.proto | $(BUILD)/deps-found
	$(call say,PROTO,$@)
	@mkdir -p $(@D)
	$(Q)protoc-c --proto_path=$(<D) --c_out=$(@D) $<
$(GENERATED:=.o): %.o: %.h $(BUILD)/flags
	$(Q)$(CC) $(ALL_CFLAGS) -w -c $*.c -o $@

$(BUILD)/obj/%.o: %.c $(BUILD)/flags | $(BUILD)/deps-found $(GENERATED:=.h)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/obj/runs/report/events.o: $(EVENTS_CODE).h
# What the assembler takes in as it is.
$(BUILD)/obj/runs/report/template.o: $(wildcard runs/report/page.*)

define loop_rule
$(BUILD)/obj/%.$(1).o: %.c $(BUILD)/flags | $(BUILD)/deps-found
	$$(call say,CC,'$$< ($(1))')
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(call loop_flags,$$<) -DXT_LOOPS_ISA=$(1) $$(MARCH_$(1)) -MMD -MP -c $$< -o $$@
endef
$(foreach isa,$(LOOP_ISAS),$(eval $(call loop_rule,$(isa))))

$(BUILD)/libxtrain.a: $(LIB_OBJECTS)
	$(call say,AR,$@)
	@rm -f $@
	$(Q)ar rcs $@ $^

$(BUILD)/xtrain: $(BUILD)/obj/cli/main.o $(BUILD)/libxtrain.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

# The library, by the name that programs load it by; and as they are linked with it.
SONAME := libxtrain.so.1
$(BUILD)/$(SONAME): $(BUILD)/obj/infer/session/library.o $(BUILD)/libxtrain.a infer/session/xtrain.map
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=infer/session/xtrain.map \
	  -Wl,--no-undefined -Wl,--as-needed -Wl,--gc-sections $(filter %.o %.a,$^) $(LIBS) -o $@
$(BUILD)/libxtrain.so: $(BUILD)/$(SONAME)
	$(Q)ln -sf $(SONAME) $@
$(BUILD)/libxtrain_mpi.so: USED_FLAGS = $(MPI_FLAGS)
$(BUILD)/libxtrain_mpich.so: USED_FLAGS = $(MPICH_FLAGS)
$(BUILD)/libxtrain_mpi.so $(BUILD)/libxtrain_mpich.so: $(MPI_SOURCE) ranks/plugin/mpi_table.h base/number.h $(BUILD)/flags
	$(call say,LINK,$@)
	$(Q)$(CC) $(filter-out $(OPENMP),$(LANGUAGE)) -ffp-contract=off $(WARN) $(CFLAGS) -fPIC -shared $< $(USED_FLAGS) -o $@

$(GUARD_LIBRARY): $(GUARD_SOURCE) device/faults/catch.h $(BUILD)/flags | $(BUILD)/deps-found
	$(call say,LINK,$@)
	$(Q)$(CXX) -std=c++17 -I. $(filter-out %-prototypes,$(WARN)) $(CFLAGS) -fPIC -fvisibility=hidden -shared $< -o $@
$(BUILD)/tests/device/test_catch: | $(GUARD_LIBRARY)

# Image libraries that the fuzzers see into, where `make fuzz-libs` has built them.
FUZZ_LIBS ?= deps/fuzz-libs
FUZZ_IMAGES := $(wildcard $(FUZZ_LIBS)/lib/libjpeg.a $(FUZZ_LIBS)/lib/libpng.a)
$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/obj/tests/fuzz/fuzz_%.o $(BUILD)/libxtrain.a $(FUZZ_IMAGES)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer $^ $(LIBS) $(if $(FUZZ_IMAGES),-lz) -o $@

$(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(SUPPORT) $(BUILD)/libxtrain.a
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) $(TEST_LIBS) -o $@

# The program with one network more: what adding one takes.
SEPARABLE := $(BUILD)/tests/models/xtrain-separable
SEPARABLE_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/models/separable/*.c))
$(SEPARABLE): $(BUILD)/obj/cli/main.o $(SEPARABLE_OBJECTS) $(BUILD)/libxtrain.a
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

tests: $(TESTS) $(TOOLS) $(GUARD_LIBRARY) $(if $(SAN),,$(SEPARABLE))
fuzzers: $(FUZZERS)
fuzz-libs:
	@scripts/fuzz-libs.sh $(FUZZ_LIBS)
# Object files are kept, also those that make only sees as a step on the way.
.SECONDARY:

# --- set-up and the main job -----------------------------------------------------------------------------------------
export DNNL_ROOT DNNL_ROOT_XPU XPU MPI CC BUILD
deps:
	@scripts/deps.sh
deps-check:
	@scripts/deps.sh --check

demo:
	@scripts/deps.sh
	@$(MAKE) all
	@XTRAIN=$(BUILD)/xtrain scripts/demo.sh

# --- tests -----------------------------------------------------------------------------------------------------------
# Fuzzers want clang's libFuzzer; where it is missing they count as skipped.
HAVE_FUZZER = $(shell scripts/deps.sh --fuzzer && echo yes)
FUZZ_BUILD := $(BUILD)/san-fuzzer
FUZZ_RUN = $(if $(HAVE_FUZZER),$(FUZZERS:$(BUILD)/%=$(FUZZ_BUILD)/%),\
  $(foreach f,$(notdir $(FUZZERS)),--skip 'fuzz/$f: clang with libFuzzer is not here; run "make deps-check"'))
FUZZ_MAKE = $(if $(and $(HAVE_FUZZER),$(FUZZERS)),$(MAKE) -k SAN=fuzzer BUILD=$(FUZZ_BUILD) fuzzers,true)
GOLDEN := $(wildcard tests/golden.c)
GOLDEN_RUN := $(if $(GOLDEN),--golden $(BUILD)/tests/golden)

ifeq ($(SAN),)
test:
	@scripts/deps.sh
	@$(MAKE) -k all tests || true
	@scripts/run-tests.sh --jobs 3 $(TESTS) $(TEST_SCRIPTS) $(GOLDEN_RUN)

fuzz:
	@scripts/deps.sh
	+@$(FUZZ_MAKE) || true
	@scripts/run-tests.sh --jobs 3 --fuzz-seconds 2 $(FUZZ_RUN)

THREADED_TESTS := $(addprefix $(BUILD)/san-thread/tests/,data/test_loader data/test_cached_files data/test_cache infer/test_feed \
  infer/test_session)
test-all:
	@scripts/deps.sh
	@XTRAIN_TEST_ALL=1 $(MAKE) test-xpu
	@XTRAIN_TEST_ALL=1 TEST_TIMEOUT=1800 $(MAKE) test-mpi
	@$(MAKE) -k all tests || true
	+@$(FUZZ_MAKE) || true
	@TIDY_NODES=225000 $(MAKE) -k BUILD=$(BUILD)/deep check-tidy
	@$(MAKE) -k SAN=address BUILD=$(BUILD)/san-address tests || true
	@$(MAKE) -k SAN=thread BUILD=$(BUILD)/san-thread all $(THREADED_TESTS) || true
	@scripts/mutate.sh
	@XTRAIN_TEST_ALL=1 scripts/run-tests.sh --fuzz-seconds 60 $(TESTS) $(TEST_SCRIPTS) $(GOLDEN_RUN) $(FUZZ_RUN) \
	  $(TESTS:$(BUILD)/%=$(BUILD)/san-address/%) $(THREADED_TESTS) tests/faults/threads.sh
else
# Under a sanitizer: the unit tests alone, which measure no time. Threads that wait give their CPU away.
test:
	@scripts/deps.sh
	@$(MAKE) -k tests || true
	@TEST_TIMEOUT=$${TEST_TIMEOUT:-600} OMP_WAIT_POLICY=passive scripts/run-tests.sh --jobs 3 $(TESTS)
endif

include tests/xpu/xpu.mk
include tests/mpi/mpi.mk

# --- check: the laws of the tree -------------------------------------------------------------------------------------
FORMATTED := $(SOURCES) $(MPI_SOURCE) $(GUARD_SOURCE) $(HEADERS) $(wildcard tests/*.c tests/*/*.[ch] tests/*/*/*.[ch])
TIDY_OK := $(patsubst %,$(BUILD)/check/%.tidy,$(SOURCES) $(if $(MPI_FLAGS),$(MPI_SOURCE)))
HEADERS_OK := $(HEADERS:%=$(BUILD)/check/%.alone)
$(BUILD)/check/$(MPI_SOURCE).tidy: LANGUAGE += $(filter -isystem /%,$(MPI_FLAGS))
CLANG_LANGUAGE = $(filter-out -fopenmp,$(LANGUAGE)) -Wno-unknown-pragmas -DXT_LOOPS_ISA=base

.PHONY: check-files check-includes check-format check-tidy check-headers check-objects check-abi abi-record
check: check-files check-includes check-format check-headers check-objects check-abi check-tidy

check-files:
	@scripts/check-files.sh

check-includes:
	@scripts/check-includes.sh

check-format:
	@scripts/check-format.sh $(FORMATTED)

check-tidy: $(TIDY_OK)
	@echo 'clang-tidy: $(words $(TIDY_OK)) files are clean'
$(BUILD)/check/%.tidy: % .clang-tidy $(HEADERS) | $(BUILD)/deps-found $(GENERATED:=.h)
	@mkdir -p $(@D)
	@scripts/check-tidy.sh $< -- $(CLANG_LANGUAGE) $(if $(filter-out base/err.c,$<),-include scripts/analyzer.h)
	@touch $@

check-headers: $(HEADERS_OK)
	@echo 'headers: $(words $(HEADERS_OK)) headers compile alone'
$(BUILD)/check/%.alone: % $(HEADERS) | $(BUILD)/deps-found $(GENERATED:=.h)
	@mkdir -p $(@D)
	@echo '#include "$(patsubst tests/%,%,$<)"' | \
	  $(CC) $(ALL_CFLAGS) -x c -fsyntax-only - || { echo 'headers: $< does not compile alone'; exit 1; }
	@touch $@

check-objects: $(LIB_OBJECTS) $(BUILD)/obj/cli/main.o
	@scripts/check-objects.sh $(BUILD)/obj $^

ABI := infer/session/xtrain.abi
check-abi: $(BUILD)/$(SONAME)
	@scripts/abi.sh $< $(ABI)
abi-record: $(BUILD)/$(SONAME)
	@scripts/abi.sh --record $< $(ABI)

# --- install, bundle -------------------------------------------------------------------------------------------------
install: $(BUILD)/xtrain $(BUILD)/libxtrain.so $(PLUGINS)
	@scripts/install.sh $(BUILD)/xtrain '$(DESTDIR)$(PREFIX)'
uninstall:
	@scripts/install.sh --remove '$(DESTDIR)$(PREFIX)'
bundle: $(BUILD)/xtrain $(BUILD)/$(SONAME) $(PLUGINS)
	@scripts/bundle.sh $(BUILD)/xtrain $(VERSION)
wheel: $(BUILD)/xtrain $(BUILD)/$(SONAME) $(PLUGINS)
	@scripts/wheel.sh $(BUILD)/xtrain $(VERSION)
deb: $(BUILD)/xtrain $(BUILD)/$(SONAME) $(PLUGINS)
	@scripts/deb.sh $(BUILD)/xtrain $(VERSION)

clean:
	rm -rf $(BUILD) dist

-include $(LIB_OBJECTS:.o=.d) $(BUILD)/obj/cli/main.d $(TESTS:$(BUILD)/%=$(BUILD)/obj/%.d) \
  $(TOOLS:$(BUILD)/%=$(BUILD)/obj/%.d) $(FUZZERS:$(BUILD)/%=$(BUILD)/obj/%.d) $(SUPPORT:.o=.d) $(SEPARABLE_OBJECTS:.o=.d)

#: make             the program and the library: build/xtrain, build/libxtrain.so
#: make deps        what the build needs: Debian packages, oneDNN; with XPU=1 also oneDNN's GPU build,
#:                  with MPI=1 MPI
#: make deps-check  what `make check` and the fuzzers need: clang and its tools
#: make fuzz-libs   the image libraries built for the fuzzers, from Debian's source packages
#: make demo        deps, make, and a first training run with plates that the program draws
#: make test        every test of this machine; the last line counts them
#: make fuzz        two seconds of each fuzzer (after `make deps-check`)
#: make test-all    the long ones too: fuzzing, sanitizers, mutants
#: make test-gpus   whole steps as GPUs that are not here, in each type, on Intel's driver (after `make deps-check XPU=1`)
#: make test-xpu    the XPU path on doubles of an Intel GPU (after `make deps XPU=1`)
#: make test-mpi    training by several processes (it fetches MPI where that is missing)
#: make check       include law, format, clang-tidy, headers, globals, large files, libxtrain's ABI
#: make abi-record  record libxtrain's ABI anew, after a change that keeps it compatible
#: make install     the program and libxtrain: PREFIX=/usr/local, DESTDIR=
#: make uninstall takes away what make install put there, and says what
#: make bundle      a tarball that runs on a machine without root or network
#: make wheel       a Python wheel: the program and the module xtrain, for pip
#: make deb         a Debian package, with a systemd unit for xtrain serve
#: make SAN=address a build with a sanitizer (also SAN=thread) under build/san-address; `make SAN=address test`
#: make clean       remove what was built, and dist/ (deps/ stays)
