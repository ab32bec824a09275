# Where the scripts of this folder find things, sourced from the root of the tree: what was built, and oneDNN's GPU build.
build=${BUILD:-build}
case $build in /*) ;; *) build=$PWD/$build ;; esac
lib=${XTRAIN_DNNL_XPU:+$(dirname "$XTRAIN_DNNL_XPU")}
lib=${lib:-$PWD/deps/xpu/lib}
