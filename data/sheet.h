/* A contact sheet for visual inspection: random samples with their labels, without augmentation and
 * as in training. */
#pragma once

#include "data/loader.h"

/* Draws up to `samples` samples of a loader with this configuration (slots and batch are the
 * sheet's own), and saves them as a PNG. Text is drawn with the glyphs of plates: capitals, digits,
 * provinces. */
enum xt_status xt_sheet_save(const char *path, const struct xt_loader_config *config, int samples,
                             const struct xt_alphabet *alphabet, struct xt_err *err);
