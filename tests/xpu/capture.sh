#!/usr/bin/env bash
# Runs a command on Intel's real OpenCL driver in capture mode: it enumerates an Arc A770, compiles and loads kernels
# for it, and writes command streams to files instead of a GPU. Kernels are those of an A770; numbers are never made.
#
#   tests/xpu/capture.sh COMMAND...
#
# The command runs in a scratch folder ($XT_CAPTURE_FOLDER, else one that is removed), because the capture grows with
# every upload; paths in it are to be absolute. XT_CAPTURE_DRIVER: a copy of the driver's file that is taken in its place.
# BUILD: where the layer was built (build) that writes each kernel into kernels.log there. Exit code 70 where a kernel has
# a pointer for which there is no place in its data (args_layer.c); 77 where the driver is not one that this was tried with
# (Debian 12's intel-opencl-icd 22.43).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/xpu/where.sh
driver=${XT_CAPTURE_DRIVER:-/usr/lib/x86_64-linux-gnu/intel-opencl/libigdrcl.so}
version=$(dpkg-query -W -f '${Version}' intel-opencl-icd 2>/dev/null || true)
if [ ! -e "$lib/libdnnl.so.3" ]; then
  echo 'skipped: the GPU build of oneDNN is not installed; run "make deps XPU=1"'
  exit 77
fi
case $version in
  22.43.*) ;;
  *) echo 'skipped: no intel-opencl-icd 22.43 (Debian 12), whose capture mode this test uses'; exit 77 ;;
esac
folder=${XT_CAPTURE_FOLDER:-}
if [ -z "$folder" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi
export OCL_ICD_FILENAMES=$driver ONEAPI_DEVICE_SELECTOR=opencl:gpu XTRAIN_DNNL_XPU=$lib/libdnnl.so.3
export NEOReadDebugKeys=1 ProductFamilyOverride=dg2 HardwareInfoOverride=8x4x16 ForceDeviceId=0x56a0 \
  SetCommandStreamReceiver=1
unset OPENCL_LAYERS
layer=$build/tests/xpu/args_layer.so
[ ! -e "$layer" ] || export OPENCL_LAYERS=$layer
cd "$folder"
export XT_LAYER_LOG=$PWD/kernels.log
rm -f kernels.log
code=0
"$@" || code=$?
if [ -e kernels.log ] && grep -v ', 0 without an address$' kernels.log; then
  echo "for these pointers there is no place in the kernel's data: the driver writes their addresses somewhere else"
  exit 70
fi
exit $code
