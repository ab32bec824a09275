# xtrain: build, test, install. `make help` lists what there is.
CC ?= cc
VERSION := 0.1.0
SAN ?=
BUILD := build$(if $(SAN),/san-$(SAN))

WARN := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror
CFLAGS ?= -O2 -g
ALL_CFLAGS := -std=gnu17 -D_GNU_SOURCE -ffp-contract=off -fopenmp $(WARN) $(CFLAGS) -Isrc -Itests \
  -isystem $(DNNL_INCLUDE) -DXT_VERSION='"$(VERSION)"'
LIBS := -lturbojpeg -lpng -lyaml -lcjson -larchive -ldl -lpthread -lm
SAN_FLAGS := $(if $(SAN),-fsanitize=$(SAN)$(if $(filter address,$(SAN)),$(comma)undefined) -fno-omit-frame-pointer)
comma := ,
DNNL_INCLUDE := deps/dnnl/include

LIB_SOURCES := $(filter-out src/cli/main.c,$(wildcard src/*/*.c))
LIB_OBJECTS := $(LIB_SOURCES:src/%.c=$(BUILD)/obj/%.o)
TEST_SOURCES := $(wildcard tests/*/test_*.c)
TESTS := $(TEST_SOURCES:tests/%.c=$(BUILD)/tests/%)

.PHONY: all test clean
all: $(BUILD)/xtrain

$(BUILD)/obj/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(SAN_FLAGS) -MMD -MP -c $< -o $@

$(BUILD)/libxtrain.a: $(LIB_OBJECTS)
	@rm -f $@
	ar rcs $@ $^

$(BUILD)/xtrain: $(BUILD)/obj/cli/main.o $(BUILD)/libxtrain.a
	$(CC) $(ALL_CFLAGS) $(SAN_FLAGS) $^ $(LIBS) -o $@

$(BUILD)/tests/%: tests/%.c $(BUILD)/libxtrain.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(SAN_FLAGS) -MMD -MP $< $(BUILD)/libxtrain.a $(LIBS) -lcmocka -o $@

clean:
	rm -rf build

-include $(LIB_OBJECTS:.o=.d) $(TESTS:=.d)
