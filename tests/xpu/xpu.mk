# The tests of the XPU path, on a machine without a GPU: included by the Makefile. docs/xpu.md says what each double is.
XPU_TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/xpu/test_*.c))
# The longest begin first: at the end nobody waits for one alone.
XPU_LONGEST := $(patsubst %,tests/xpu/test_%.sh,zoo selftest)
XPU_SCRIPTS := $(filter-out $(XPU_LONGEST),$(wildcard tests/xpu/test_*.sh))
# The doubles: a layer over Intel's OpenCL runtime for CPUs, and a Level Zero driver; and a layer that looks at what
# Intel's own driver is given. The layers are built where oneDNN's GPU build is (`make deps XPU=1`); the
# tests that want them are skipped elsewhere.
ZE_HEADERS := /usr/include/level_zero
XPU_DOUBLES := $(if $(wildcard deps/xpu/include/CL/cl_layer.h),$(patsubst %,$(BUILD)/tests/xpu/%_layer.so,gpu args fault count)) \
  $(BUILD)/tests/xpu/ze_driver.so
XPU_CFLAGS = -std=gnu17 -D_GNU_SOURCE -I. $(WARN) $(CFLAGS) -fPIC

$(BUILD)/tests/xpu/%_layer.so: tests/xpu/%_layer.c tests/xpu/layer.c tests/xpu/layer.h $(BUILD)/flags
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(XPU_CFLAGS) -isystem deps/xpu/include -shared $(filter %.c,$^) -o $@ -lpthread

# The loader asks a driver for every table of functions that it knows: its headers list them.
$(BUILD)/tests/xpu/ze_tables.c: $(wildcard $(ZE_HEADERS)/ze*_ddi.h) tests/xpu/xpu.mk
	@mkdir -p $(@D)
	@sed -n 's/^\(ze[a-z]*Get[A-Za-z0-9]*ProcAddrTable\)(.*/__attribute__((weak)) unsigned \1(unsigned v, void *t);\
	__attribute__((weak)) unsigned \1(unsigned v, void *t) { (void)v; (void)t; return 0; }/p' \
	  $(ZE_HEADERS)/ze_ddi.h $(ZE_HEADERS)/zes_ddi.h $(ZE_HEADERS)/zet_ddi.h >$@
$(BUILD)/tests/xpu/ze_driver.so: tests/xpu/ze_driver.c $(BUILD)/tests/xpu/ze_tables.c $(BUILD)/flags
	$(call say,CC,$<)
	$(Q)$(CC) $(XPU_CFLAGS) -shared tests/xpu/ze_driver.c $(BUILD)/tests/xpu/ze_tables.c -o $@ \
	  $(if $(shell grep -l zesGetGlobalProcAddrTable $(ZE_HEADERS)/zes_ddi.h),-DHAVE_ZES_INIT)

# The first round of kernels is compiled into build/xpu-cache, and stays there.
# A kernel's compilation keeps one core busy; two at once need 3 GB of memory.
XPU_JOBS ?= 2
.PHONY: test-xpu test-gpus xpu-doubles
xpu-doubles: $(XPU_DOUBLES) $(GUARD_LIBRARY)
test-xpu:
	@scripts/deps.sh
	@$(MAKE) -k all xpu-doubles $(XPU_TESTS) $(TOOLS) || true
	@$(if $(wildcard deps/xpu/lib/libintelocl.so),tests/xpu/double.sh) \
	  env TEST_TIMEOUT=900 BUILD=$(BUILD) scripts/run-tests.sh --jobs $(XPU_JOBS) $(XPU_LONGEST) $(XPU_TESTS) $(XPU_SCRIPTS)
# Each type, every shape of the kernels' self-test, and ResNet-18 and MobileNetV3 too.
test-gpus: all xpu-doubles
	@XTRAIN_TEST_ALL=1 BUILD=$(BUILD) tests/xpu/test_capture_gpus.sh

-include $(XPU_TESTS:$(BUILD)/%=$(BUILD)/obj/%.d)
