/* Why oneDNN opens no GPU, according to the layers below it: its engine is created in a child
 * process with the logs of oneDNN, SYCL, the drivers' adapters and the driver enabled, and the
 * relevant line is extracted from their output. Call it before threads start. */
#pragma once

#include <stddef.h>

/* For engine `index`. "" if the output has no relevant line. */
void xt_why_no_engine(int index, char *out, size_t size);
