/*
 * device_file.h - a device that is not there, from a JSON file: to plan for it.
 *
 * The file is what cuDNN calls the JSON representation of device properties (a real device can be asked for it), with
 * one more map, "tarn", for what cuDNN does not know:
 *     deviceName, deviceVer (900 for compute capability 9.0), multiProcessorCount, totalGlobalMem (bytes)
 *     tarn: float32_tflops, tf32_tflops      peak figures, in 10^12 operations a second
 *           memory_gb_per_s, link_gb_per_s   peak of its memory; one direction of the link to the host; 10^9 bytes
 *           overhead_mib                     expected beside the arena: context, code, handles
 *           source                           where the figures are from
 * Other keys are cuDNN's business and go to it unread.
 */
#ifndef TARN_DEVICE_FILE_H
#define TARN_DEVICE_FILE_H

#include "driver.h"

/* TARN_EIO, or TARN_EINVAL with file, line and column. description->json lives in the arena. */
enum tarn_status device_file_load(const char *path, struct host_arena *arena, struct device_description *description);

#endif
