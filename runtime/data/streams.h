/*
 * streams.h - who draws from which Philox stream (philox.h): the one list, so that no two users share numbers.
 *
 * Dropout layers count up from 0 in the order of the network; each other user has a range of its own.
 */
#ifndef TARN_DATA_STREAMS_H
#define TARN_DATA_STREAMS_H

#define STREAM_DROPOUT 0x00000000u   /* + number of the dropout layer; step = training step */
#define STREAM_PARAMETER 0x40000000u /* + number of the parameter; step 0 */
#define STREAM_ROUNDING 0x60000000u  /* + number of the parameter's tensor; step = training step */
#define STREAM_SHUFFLE 0x80000000u   /* step = epoch */
#define STREAM_AUGMENT 0x80000001u   /* step = epoch, index = sample */
#define STREAM_CROP 0x80000002u      /* step = epoch, index = sample */
#define STREAM_SHAPE 0x80000003u     /* step = epoch, index = batch */
#define STREAM_SYNTHETIC 0x80000010u /* + use; step = split */
#define STREAM_EPISODE 0x80000020u   /* + split; step = training step, index = task and draw */
#define STREAM_VECTOR 0x80000030u    /* random vectors of `tarn hvp`; step = number of the vector */

#endif
