#!/usr/bin/env bash
# Runs a command with the test double of an Intel GPU: oneDNN's GPU build on Intel's OpenCL runtime for CPUs, which a
# layer makes look like a GPU (tests/xpu/gpu_layer.c). Numbers are right, speed is a CPU's.
#
#   tests/xpu/double.sh COMMAND...
#
# BUILD: where the layer was built (build). XT_DOUBLE_CACHE: a folder for kernels compiled before ("none": none);
# default build/xpu-cache, so that tests compile each kernel once. Exit code 77 where the GPU build is not installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/xpu/where.sh
layer=$build/tests/xpu/gpu_layer.so
if [ ! -e "$lib/libintelocl.so" ]; then
  echo 'skipped: the GPU build of oneDNN is not installed; run "make deps XPU=1"'
  exit 77
fi
[ -e "$layer" ] || { echo "double.sh: $layer is missing: run \"make test-xpu\"" >&2; exit 2; }

export OCL_ICD_FILENAMES=$lib/libintelocl.so OPENCL_LAYERS=$layer
export XTRAIN_DNNL_XPU=${XTRAIN_DNNL_XPU:-$lib/libdnnl.so.3}
if [ -z "${NEO_CACHE_DIR:-}" ] && [ "${XT_DOUBLE_CACHE:-}" != none ]; then
  export NEO_CACHE_PERSISTENT=1 NEO_CACHE_DIR=${XT_DOUBLE_CACHE:-$build/xpu-cache}
  mkdir -p "$NEO_CACHE_DIR"
fi
exec "$@"
