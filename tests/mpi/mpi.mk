# Training by several processes on this machine: included by the Makefile.
MPI_TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/mpi/test_*.c))
MPI_SCRIPTS := $(wildcard tests/mpi/test_*.sh)

.PHONY: test-mpi
test-mpi:
	@MPI=1 scripts/deps.sh || true
	@$(MAKE) -k all $(MPI_TESTS) $(BUILD)/tests/weights_apart || true
	@TEST_TIMEOUT=$${TEST_TIMEOUT:-1800} scripts/run-tests.sh $(MPI_TESTS) $(MPI_SCRIPTS)
