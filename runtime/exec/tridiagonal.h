/*
 * tridiagonal.h - eigenvalues of a symmetric tridiagonal matrix, by QL with implicit shifts (Dubrulle 1970; Golub, Van
 * Loan, "Matrix Computations", section 8.3).
 */
#ifndef TARN_EXEC_TRIDIAGONAL_H
#define TARN_EXEC_TRIDIAGONAL_H

#include "base/status.h"

#include <stdint.h>

/*
 * diagonal[n], beside[n] with beside[i] between rows i and i + 1 (the last one is not read; all are overwritten). On
 * return diagonal[] holds the eigenvalues, ascending; first[i] and last[i] are the first and the last component of the
 * eigenvector of eigenvalue i, of length 1. TARN_EDIVERGED when an entry is not finite.
 */
enum tarn_status tridiagonal_solve(uint32_t n, double *diagonal, double *beside, double *first, double *last);

#endif
