#include "data/sources/archive.h"

#include "base/system/thread.h"

void xt_archive_allow_filters(struct archive *archive)
{
    if (archive_zlib_version())
        archive_read_support_filter_gzip(archive);
    if (archive_bzlib_version())
        archive_read_support_filter_bzip2(archive);
    if (archive_liblzma_version())
        archive_read_support_filter_xz(archive);
    if (archive_libzstd_version())
        archive_read_support_filter_zstd(archive);
    if (archive_liblz4_version())
        archive_read_support_filter_lz4(archive);
}

uint64_t xt_archive_unpacked_most(uint64_t packed)
{
    enum { TIMES = 32 };
    static const uint64_t always = 64 << 20;
    uint64_t half = xt_thread_memory_limit() / 2;
    uint64_t most = packed < always / TIMES ? always : packed * TIMES;
    return half && half < most ? half : most;
}
