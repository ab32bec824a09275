#!/usr/bin/env bash
# Runs a command on Intel's real OpenCL driver in capture mode: it enumerates a GPU that is not here, compiles and loads
# kernels for it, and writes command streams to files instead of a GPU. Kernels are real; numbers are never made.
#
#   tests/xpu/capture.sh COMMAND...
#
# As an Arc A770, on the installed driver of Debian 12 (intel-opencl-icd 22.43), or a copy of it (XT_CAPTURE_DRIVER);
# with XT_CAPTURE_GPU=b580 (a name of --for-gpu) as that GPU, on the current driver that `make deps-check XPU=1` unpacks
# into deps/driver. Then COMMAND is a program, which is run by that driver's dynamic loader.
#
# The command runs in a scratch folder ($XT_CAPTURE_FOLDER, else one that is removed), because the capture grows with
# every upload; paths in it are to be absolute. BUILD: where the layers were built (build): one writes each kernel into
# kernels.log there, and with XT_COUNT_FILE one counts launches. Exit code 70 where, on the driver of 2022, a kernel has
# a pointer for which there is no place in its data (args_layer.c); 77 where the driver is not one that this was tried with.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/xpu/where.sh
gpu=${XT_CAPTURE_GPU:-}
driver=${XT_CAPTURE_DRIVER:-/usr/lib/x86_64-linux-gnu/intel-opencl/libigdrcl.so}
skip() { echo "skipped: $*"; exit 77; }
[ -e "$lib/libdnnl.so.3" ] || skip 'the GPU build of oneDNN is not installed; run "make deps XPU=1"'
by=()
if [ -n "$gpu" ]; then
  root=$PWD/deps/driver/usr/lib/x86_64-linux-gnu
  driver=$root/intel-opencl/libigdrcl.so
  [ -e "$driver" ] || skip 'no current OpenCL driver in deps/driver; run "make deps-check XPU=1", which says why there is none'
  # The table of --for-gpu has what the driver wants to know.
  read -r product config id < <(sed -nE "s/^ *X\(\"$gpu\", [^,]*, \"([^\"]*)\", \"([^\"]*)\", (0x[0-9a-f]*),.*/\1 \2 \3/p" device/gpu/capture.c)
  by=("$root/ld-linux-x86-64.so.2" --library-path "$root")
  export OCL_ICD_VENDORS=$PWD/deps/driver AUBDumpCaptureFileName=/dev/null UseAubStream=0 \
    EnableTimestampWaitForEvents=0 EnableTimestampWaitForQueues=0
else
  read -r product config id <<<'dg2 8x4x16 0x56a0'
  case $(dpkg-query -W -f '${Version}' intel-opencl-icd 2>/dev/null || true) in
    22.43.*) ;;
    *) skip 'no intel-opencl-icd 22.43 (Debian 12), whose capture mode this test uses' ;;
  esac
fi
folder=${XT_CAPTURE_FOLDER:-}
if [ -z "$folder" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi
export OCL_ICD_FILENAMES=$driver ONEAPI_DEVICE_SELECTOR=opencl:gpu XTRAIN_DNNL_XPU=$lib/libdnnl.so.3
export NEOReadDebugKeys=1 ProductFamilyOverride=$product HardwareInfoOverride=$config ForceDeviceId=$id \
  SetCommandStreamReceiver=1
# Memory that is never written holds zeros: what comes back from a step that nothing computes is finite.
export MALLOC_PERTURB_=255
unset OPENCL_LAYERS
layers=
# Newer compilers for DG2 and Xe-LPG give most pointers no place, also those of a kernel that has no others.
for layer in $([ -n "$gpu" ] || echo args) ${XT_COUNT_FILE:+count}; do
  layer=$build/tests/xpu/${layer}_layer.so
  [ ! -e "$layer" ] || layers+=${layers:+:}$layer
done
[ -z "$layers" ] || export OPENCL_LAYERS=$layers
cd "$folder"
export XT_LAYER_LOG=$PWD/kernels.log
rm -f kernels.log
code=0
${by[@]+"${by[@]}"} "$@" || code=$?
if [ -e kernels.log ] && grep -v ', 0 without an address$' kernels.log; then
  echo "for these pointers there is no place in the kernel's data: the driver writes their addresses somewhere else"
  exit 70
fi
exit $code
