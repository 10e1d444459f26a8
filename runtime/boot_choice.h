/*
 * boot_choice.h - choices outside a plan that may change the last bits of results: parts of a batch, workspace cap.
 *
 * They are made only where the configuration asks with `auto`, because results must not follow from the budget
 * otherwise. Candidates are planned one after the other, on devices of their own, and nothing is run: parts 1, 2, 4 ...
 * up to BOOT_MOST_PARTS and the batch; caps 256 MiB, 64 MiB ... 1 MiB, none. The plan with the least planned time of a
 * training step within the budget wins, the first one of those. Where none fits, the one that needs least does, so that
 * planning it says what is missing. More parts, or less workspace, than those of a plan that recomputes nothing are not
 * tried: they only take longer.
 */
#ifndef TARN_BOOT_CHOICE_H
#define TARN_BOOT_CHOICE_H

#include "config/config.h"
#include "driver.h"

#define BOOT_MOST_PARTS 64u

/*
 * Replaces what is `auto` in memory.microbatches and memory.workspace_cap: config->train.accumulate, and
 * memory.workspace_cap together with workspace_chosen. `options` is for opening devices, its workspace_cap is not read.
 * TARN_EINVAL where parts would change the mathematics (batch statistics).
 */
enum tarn_status boot_choose(const struct driver_ops *driver, const struct device_options *options,
			     struct config *config);

#endif
