/* tridiagonal.c - see tridiagonal.h. */
#include "exec/tridiagonal.h"

#include <float.h>
#include <math.h>

#define MOST_SWEEPS 60u

/* The end of the block that begins at l: the first row whose neighbour below is as good as zero. */
static uint32_t block_end(uint32_t n, const double *d, const double *e, uint32_t l)
{
	uint32_t m = l;
	while (m + 1 < n && fabs(e[m]) > DBL_EPSILON * (fabs(d[m]) + fabs(d[m + 1])))
		m++;
	return m;
}

static void rotate(double *row, uint32_t i, double c, double s)
{
	double upper = row[i + 1];
	row[i + 1] = s * row[i] + c * upper;
	row[i] = c * row[i] - s * upper;
}

/* One sweep over the rows l .. m with Wilkinson's shift. */
static void sweep(double *d, double *e, uint32_t l, uint32_t m, double *first, double *last)
{
	double g = (d[l + 1] - d[l]) / (2 * e[l]), r = hypot(g, 1), s = 1, c = 1, p = 0;
	g = d[m] - d[l] + e[l] / (g + copysign(r, g));
	for (uint32_t i = m; i-- > l;) {
		double f = s * e[i], b = c * e[i];
		r = hypot(f, g);
		e[i + 1] = r;
		if (r == 0) { /* the matrix falls apart here */
			d[i + 1] -= p;
			e[m] = 0;
			return;
		}
		s = f / r;
		c = g / r;
		g = d[i + 1] - p;
		r = (d[i] - g) * s + 2 * c * b;
		p = s * r;
		d[i + 1] = g + p;
		g = c * r - b;
		rotate(first, i, c, s);
		rotate(last, i, c, s);
	}
	d[l] -= p;
	e[l] = g;
	e[m] = 0;
}

static void swap(double *x, uint32_t i, uint32_t j)
{
	double kept = x[i];
	x[i] = x[j];
	x[j] = kept;
}

enum tarn_status tridiagonal_solve(uint32_t n, double *d, double *e, double *first, double *last)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!isfinite(d[i]) || (i + 1 < n && !isfinite(e[i])))
			return tarn_fail(TARN_EDIVERGED, "row %u of the tridiagonal matrix is not finite", i);
		first[i] = i == 0;
		last[i] = i + 1 == n;
	}
	if (n)
		e[n - 1] = 0;
	for (uint32_t l = 0; l < n; l++)
		for (uint32_t sweeps = 0; block_end(n, d, e, l) != l; sweeps++) {
			if (sweeps == MOST_SWEEPS)
				return tarn_fail(TARN_EINTERNAL, "eigenvalue %u of %u has not settled after %u sweeps",
						 l, n, MOST_SWEEPS);
			sweep(d, e, l, block_end(n, d, e, l), first, last);
		}
	for (uint32_t i = 1; i < n; i++)
		for (uint32_t j = i; j > 0 && d[j] < d[j - 1]; j--) {
			swap(d, j, j - 1);
			swap(first, j, j - 1);
			swap(last, j, j - 1);
		}
	return TARN_OK;
}
