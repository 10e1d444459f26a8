/*
 * tarn_status.h - what a call returns. Part of the public API (tarn.h includes it).
 *
 * The values are also the exit codes of the command line.
 */
#ifndef TARN_STATUS_H
#define TARN_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

enum tarn_status {
	TARN_OK = 0,
	TARN_EINTERNAL = 1,     /* a fault in this program: please report it */
	TARN_EINVAL = 2,        /* bad command line or configuration */
	TARN_EBUDGET = 3,       /* the budget cannot be met; the sentence names the smallest that can */
	TARN_EUNKNOWN = 4,      /* the planner stopped before it could decide */
	TARN_EIO = 5,           /* a file cannot be read or written */
	TARN_EFORMAT = 6,       /* a file is corrupt, truncated or of another kind */
	TARN_EVERIFY = 7,       /* the verifier refuses the plan */
	TARN_EUNSUPPORTED = 8,  /* this build or driver cannot do it */
	TARN_ENOMEM = 9,        /* the host has no memory left */
	TARN_EDATA = 10,        /* the data contradict the configuration (label out of range, shape mismatch) */
	TARN_EDIVERGED = 11,    /* the loss or a weight is not finite */
	TARN_EDEVICE = 12,      /* the device or one of its libraries failed; what is on disk is whole */
	TARN_EINTERRUPTED = 130 /* stopped by the user after a complete snapshot */
};

/* The sentence of the last failure of this thread; "" when there was none. Borrowed, valid until the next failure. */
__attribute__((visibility("default"))) const char *tarn_error(void);

#ifdef __cplusplus
}
#endif
#endif
