/* clang-format off */
/*
 * op.h - the op table: what every op means.
 *
 * This table is the contract between the graph builder, autodiff, the drivers and the verifier. Layouts: images
 * N H W C, rows x channels otherwise, always row-major and dense. Convolution weights O I KH KW (as PyTorch stores
 * them), dense weights OUT IN. "rows" of a tensor are all its dimensions but the last, multiplied.
 *
 * Pure and effect. A pure op is a function of its inputs and attributes: it may be executed any number of times.
 * An effect (last column) is executed exactly once in a step: it reads the staging slot, or replaces persistent
 * storage by a new version. Outputs of an effect marked "version of X" occupy X's storage.
 *
 *   kind                    inputs                                 outputs            attributes        in place
 *   INPUT                   staging                                x                  -                 effect
 *   RECORD                  metric, value (1)                      version of metric  -                 effect
 *   MATMUL                  a, b [, bias (N)]                      c (M,N)            transpose_a/b, activation
 *   CONV2D                  x (N,H,W,C), w (O,C/g,KH,KW) [, bias]  y (N,OH,OW,O)      window, groups, activation
 *   CONV2D_GRAD_INPUT       dy, w                                  dx                 window, groups, extent = H,W
 *   CONV2D_GRAD_WEIGHT      x, dy                                  dw                 window, groups
 *   SUM_ROWS                x (rows,C)                             sum (C)            -
 *   MAX_POOL                x                                      y, index (u8)      window
 *   MAX_POOL_GRAD           dy, index                              dx                 window, extent = H,W
 *   AVG_POOL                x                                      y                  window, count_padding
 *   AVG_POOL_GRAD           dy                                     dx                 window, count_padding, extent
 *   ACTIVATION              x                                      y                  activation, alpha  y <- x
 *   ACTIVATION_GRAD         dy, s                                  dx                 activation, alpha  dx <- dy, s
 *   BATCH_STATS             x (rows,C)                             mean (C), var (C)  -
 *   BATCH_APPLY             x, mean, var, gamma, beta              y                  epsilon, activation  y <- x
 *   BATCH_REDUCE            dy, x, mean, var, gamma, beta          dgamma, dbeta      epsilon, activation
 *   BATCH_GRAD_INPUT        dy, x, mean, var, gamma, beta,         dx                 epsilon, activation  dx <- dy, x
 *                             dgamma, dbeta
 *   RUNNING_UPDATE          running_mean, running_var, count,      versions of the    momentum, samples  effect
 *                             mean, var [, scale]                    first three
 *   LAYER_NORM              x (rows,C), gamma, beta                y, mean, rstd      epsilon            y <- x
 *   LAYER_NORM_GRAD         dy, x, mean, rstd, gamma               dx                 -                  dx <- dy, x
 *   LAYER_NORM_GRAD_PARAM   dy, x, mean, rstd                      dgamma, dbeta      -
 *   DROPOUT                 x, scalars                             y                  rate, stream,      y <- x
 *                                                                                       per_sample, begin
 *   ADD                     a, b                                   c                  activation         c <- a, b
 *   MULTIPLY                a, b                                   c                  -                  c <- a, b
 *   SCALE                   x                                      y                  alpha              y <- x
 *   CONCAT                  x0 .. xn                               y                  axis
 *   SLICE                   x (f32 or i32)                         y                  axis, begin, extent[0] = length
 *   SLICE_VIEW              x                                      y: a view of x     the same
 *   PAD_AXIS                x                                      y (zeros around)   axis, begin, extent[0] = total
 *   RESHAPE                 x                                      y: a view of x     shape
 *   PERMUTE                 x (f32)                                y                  rank, extent[i] = the axis of
 *                                                                                       x that becomes axis i of y
 *   SOFTMAX_CROSS_ENTROPY   logits (rows,K), labels (rows) i32     loss (1)           label_smoothing, ignore_index
 *   SOFTMAX_CROSS_ENTROPY_GRAD  logits, labels, dloss (1)          dlogits            the same           dlogits <- logits
 *   COUNT_CORRECT           logits (rows,K), labels                count (1) f32      ignore_index
 *   LABEL_SHARE             x (1), labels of a part i32,           y (1)              ignore_index
 *                             labels of the whole batch i32
 *   MEAN_SQUARED_ERROR      prediction, target                     loss (1)           -
 *   MEAN_SQUARED_ERROR_GRAD prediction, target, dloss (1)          dprediction        -                  <- prediction
 *   FILL                    -                                      y                  alpha, shape
 *   SUM_SQUARES             x                                      s (1)              -
 *   CLIP_SCALE              s0 .. sn                               scale (1), norm(1) alpha = largest norm
 *   UNSCALE                 loss_scale (1), s0 .. sn               scale (1), norm(1) alpha = largest norm
 *   LOSS_SCALE              loss_scale, good, skipped (1 each),    versions of the    samples = interval  effect
 *                             scale (1)                              first three
 *   SGD                     w, g, scalars [, scale (1)]            version of w       weight_decay, rate_scale  effect
 *   MOMENTUM                w, v, g, scalars [, scale]             versions of w, v   + momentum, nesterov      effect
 *   ADAM                    w, m, v, g, scalars [, scale]          versions of w,m,v  + beta1, beta2, epsilon,  effect
 *                                                                                       decoupled
 *   LION                    w, m, g, scalars [, scale]             versions of w, m   weight_decay,       effect
 *                                                                                       rate_scale, beta1, beta2
 *   ADAFACTOR               w (R,..), row (R), column (C), g,      versions of w,     weight_decay,       effect
 *                             scalars [, scale]                      row, column        rate_scale
 *   ADAFACTOR_VECTOR        w, v, g, scalars [, scale]             versions of w, v   the same            effect
 *   ADAM_8BIT               w, m, v (u8: blockwise.h), g,          versions of w,m,v  as ADAM             effect
 *                             scalars [, scale]
 *   BATCH_MATMUL            a (..,M,K), b (..,K,N)                 c (..,M,N)         transpose_a/b, alpha
 *   ADD_BROADCAST           a, b (trailing dimensions of a)        c                  -                  c <- a
 *   BROADCAST_ROWS          x (S)                                  y (..,S)           extent: the whole shape, rank
 *   EMBEDDING               table (V,C), ids (any shape) i32       y (ids' shape,C)   -
 *   EMBEDDING_GRAD          dy (..,C), ids                         dtable (V,C)       extent[0] = V
 *   SOFTMAX                 x (rows,K)                             y                  alpha, causal      y <- x
 *   SOFTMAX_GRAD            dy, y                                  dx                 alpha, causal      dx <- dy
 *   LOG_SOFTMAX             x (rows,K)                             y                  -                  y <- x
 *   LOG_SOFTMAX_GRAD        dy, y                                  dx                 -                  dx <- dy
 *   ATTENTION               q (B,T,H,D), k, v (B,S,G,D)            o (B,T,H,D),       alpha, causal
 *                                                                    lse (B,H,T)
 *   ATTENTION_GRAD          do, q, k, v, o, lse                    dq, dk, dv         alpha, causal
 *   ROTARY                  x (B,T,H,D)                            y                  alpha = base,      y <- x
 *                                                                                       transpose_a
 *   RMS_NORM                x (rows,C), gamma                      y, rstd            epsilon            y <- x
 *   RMS_NORM_GRAD           dy, x, rstd, gamma                     dx                 -                  dx <- dy, x
 *   RMS_NORM_GRAD_PARAM     dy, x, rstd                            dgamma             -
 *   GATE                    x (rows,2C)                            y (rows,C)         mode, activation
 *   GATE_GRAD               dy (rows,C), x                         dx (rows,2C)       mode, activation
 *   LINEAR_CROSS_ENTROPY    x (rows,C), w (V,C), labels            loss (1), lse      label_smoothing, ignore_index
 *                             [, bias (V)]
 *   LINEAR_CROSS_ENTROPY_GRAD  x, w, labels, lse, dloss            dx, dw, dbias      the same
 *                             [, bias]
 *   LSTM_CELL               gates (N,4H), c_prev (N,H)             h, c               -
 *   LSTM_CELL_GRAD          dh, dc, gates, c_prev, c               dgates, dc_prev    -
 *   GRU_CELL                gates_x, gates_h (N,3H), h_prev (N,H)  h                  -
 *   GRU_CELL_GRAD           dh, gates_x, gates_h, h_prev           dgates_x,          -
 *                                                                    dgates_h, dh_prev
 *   EXPONENTIAL_AVERAGE     average, w [, scale]                   version of average alpha = decay      effect
 *   WEIGHT_MASK             w (O,I,KH,KW)                          y                  mode
 *   GROUP_NORM              x (N,..,C), gamma, beta                y, mean, rstd      groups, epsilon    y <- x
 *                                                                    (N,G)
 *   GROUP_NORM_GRAD         dy, x, mean, rstd, gamma               dx                 groups             dx <- dy, x
 *   GROUP_NORM_GRAD_PARAM   dy, x, mean, rstd                      dgamma, dbeta      groups
 *   UPSAMPLE                x (N,H,W,C)                            y (N,OH,OW,C)      mode, extent = OH,OW
 *   UPSAMPLE_GRAD           dy                                     dx                 mode, extent = H,W
 *   ADAPTIVE_AVG_POOL       x (N,H,W,C)                            y (N,OH,OW,C)      extent = OH,OW
 *   ADAPTIVE_AVG_POOL_GRAD  dy                                     dx                 extent = H,W
 *   BINARY_CROSS_ENTROPY    logits, targets                        loss (1)           -
 *   BINARY_CROSS_ENTROPY_GRAD  logits, targets, dloss (1)          dlogits            -                  dlogits <- logits
 *   LOGISTIC_MIXTURE        parameters (N,H,W,10M or 3M),          loss (1)           -
 *                             image (N,H,W,3 or 1)
 *   LOGISTIC_MIXTURE_GRAD   parameters, image, dloss (1)           dparameters        -
 *   WEIGHT_NORM             v (O,..), g (O)                        w                  -
 *   WEIGHT_NORM_GRAD        dw, v, g                               dv, dg             -
 *   CAST                    x                                      y                  mode
 *   STOP_GRADIENT           x                                      y: a view of x     -
 *   FUNCTION                x                                      y                  mode, alpha        y <- x
 *   MAX_POOL_GATHER         g (N,H,W,C), index (N,OH,OW,C)         y (N,OH,OW,C)      window
 *   LABEL_WEIGHTS           labels (any shape) i32                 q (labels' shape,K) label_smoothing,
 *                                                                                       ignore_index, extent[0] = K
 *
 * Definitions that a kernel and its test must share:
 *   - `activation` on MATMUL, CONV2D, ADD and BATCH_APPLY is applied to the result before it is stored; only NONE,
 *     RELU and RELU6 are allowed there. BATCH_REDUCE and BATCH_GRAD_INPUT with such an activation first multiply dy by
 *     the derivative of the activation at z = gamma * (x - mean) * rsqrt(var + epsilon) + beta, recomputed with the
 *     arithmetic of BATCH_APPLY, so that y is not needed.
 *   - ACTIVATION_GRAD: s is y for RELU, RELU6, LEAKY_RELU, ELU, SIGMOID, TANH (op_grad_reads_output) and x for GELU,
 *     GELU_TANH, SILU, SOFTPLUS. relu'(0) = 0.
 *   - BATCH_STATS: over rows; var is the biased variance (divisor rows). Ioffe, Szegedy 2015.
 *   - BATCH_REDUCE, BATCH_GRAD_INPUT with xhat = (x - mean) * rsqrt(var + epsilon), m = rows:
 *         dbeta = sum dy;  dgamma = sum dy * xhat;  dx = gamma * rsqrt(var + epsilon) * (dy - dbeta/m - xhat*dgamma/m)
 *   - RUNNING_UPDATE: r = (1 - momentum) * r + momentum * batch, with var * samples/(samples-1) for running_var
 *     (PyTorch's form; samples = rows; samples = 1 uses var); count (u64) grows by 1.
 *   - LAYER_NORM: biased variance over C, rstd = 1/sqrt(var + epsilon). Ba et al. 2016.
 *   - SLICE_VIEW: a SLICE whose elements lie together in x, from a multiple of TARN_ALIGNMENT bytes on: all dimensions
 *     before the axis are 1. slice_kind() says which of the two an op should be.
 *   - DROPOUT: element e of x is kept when philox(seed, stream, step, e/4).word[e%4] as a float in [0,1) is >= rate, and
 *     is then multiplied by 1/(1-rate); seed and step come from the scalars block. It is its own derivative.
 *     With per_sample every element of a sample n (first axis) has the draw of element n: stochastic depth, Huang et
 *     al. 2016. `begin`: x is a part of a batch, its first axis starts at sample `begin` of the whole, and each element
 *     has the draw that it has in the whole.
 *   - MAX_POOL: padding never wins; index is the position kh*KW+kw in the window of the first largest value; KH*KW <= 256.
 *   - AVG_POOL: divisor KH*KW with count_padding, else the number of elements inside the image.
 *   - SOFTMAX_CROSS_ENTROPY: mean over rows of lse - l_label with lse = log(sum_k exp(l_k - max)) + max. Sums in
 *     double. With label_smoothing s (Szegedy et al. 2016) a row counts lse - (1-s) * l_label - s/K * sum_k l_k. With
 *     has_ignore_index rows whose label is ignore_index count nothing and are not in the mean (no row left: 0/0 is NaN,
 *     the gradient 0). Its gradient: (softmax - (1-s) onehot - s/K) * dloss / counted rows.
 *     Labels were checked by the loader: 0 <= label < K, or ignore_index.
 *   - COUNT_CORRECT: rows whose first largest logit is the label, ignored rows left out.
 *   - LABEL_SHARE: x * c / C with c counted (not ignored) labels in the part and C in the whole: what the mean over a part
 *     gives to the mean over the whole. 0 when c = 0 and C > 0, whatever x is; x itself when C = 0.
 *   - MEAN_SQUARED_ERROR: mean over all elements; gradient 2 (p - t) dloss / elements.
 *   - CLIP_SCALE: norm = sqrt(s0 + .. + sn); scale = min(1, alpha / (norm + 1e-6)). The s are stored as f32. The scale of
 *     an infinite norm is NaN.
 *   - UNSCALE: for gradients of loss_scale times the loss. norm = sqrt(s0 + .. + sn) / loss_scale; scale = 1 / loss_scale,
 *     times CLIP_SCALE's where alpha > 0; scale = 0 where the sum is not finite: some gradient has overflowed.
 *   - Effects whose last input is a `scale` (op_skip_input) change nothing where it is 0: the step is skipped.
 *   - LOSS_SCALE (Micikevicius et al. 2018): scale = 0: loss_scale halves, good = 0, skipped grows by 1. Else good grows by
 *     1, and when it is `samples` loss_scale doubles and good = 0. From LOSS_SCALE_LEAST to LOSS_SCALE_MOST.
 *   - SGD:      g' = scale*g + weight_decay*w;  w -= rate*g'           (rate = scalars.learning_rate * rate_scale)
 *   - MOMENTUM: v = momentum*v + g';  w -= rate * (nesterov ? g' + momentum*v : v)
 *   - ADAM:     with decoupled (AdamW, Loshchilov, Hutter 2019) w *= 1 - rate*weight_decay and g' = scale*g, else g' as
 *               above;  m = beta1*m + (1-beta1)*g';  v = beta2*v + (1-beta2)*g'^2;
 *               w -= rate/bias_correction1 * m / (sqrt(v)/sqrt(bias_correction2) + epsilon), corrections from scalars.
 *     Kingma, Ba 2015.
 *   - SGD, MOMENTUM, ADAM on w in bf16 are computed in f32. With a `stream` the new w is rounded down in magnitude with the
 *     probability of its distance to the next number: the low 16 bits of the float plus the high half of
 *     philox(seed, stream, step, e/4).word[e%4] carry. Without, it is rounded to the nearest.
 *   - LION (Chen et al. 2023): w *= 1 - rate*weight_decay, then w -= rate * sign(beta1*m + (1-beta1)*scale*g);
 *     m = beta2*m + (1-beta2)*scale*g.  sign(0) = 0.
 *   - ADAFACTOR (Shazeer, Stern 2018): g' = scale*g, s = g'^2 + 1e-30, b = 1 - (step+1)^-0.8; C = elements / R columns;
 *     row = b*row + (1-b) * mean of s over the row, column = b*column + (1-b) * mean of s over the column;
 *     u = g' / sqrt(row * column / mean(row));  w *= 1 - rate*weight_decay;
 *     w -= rate * max(1e-3, rms(w)) * u / max(1, rms(u)), with the rms of w before the step. ADAFACTOR_VECTOR:
 *     v = b*v + (1-b)*s and u = g' / sqrt(v).
 *   - ADAM_8BIT: ADAM on the decoded moments (blockwise.h); w sees the new moments before they are encoded again, each as
 *     the nearest value of its map, the smaller magnitude of two that are as near.
 *   - `alpha` of BATCH_MATMUL, SOFTMAX, SOFTMAX_GRAD is a factor: of the product, of x. 0 stands for 1.
 *   - EMBEDDING: a row of the table for each id. An id outside [0, V) gives NaN: the loader refuses such data, and no
 *     kernel reads outside the table. EMBEDDING_GRAD adds the rows of dy in their order and leaves out such ids.
 *   - SOFTMAX over the last axis of alpha * x; with `causal` x is (..,T,S), T <= S, and the columns j > i + (S - T) of
 *     row i are left out: their y is 0. SOFTMAX_GRAD: alpha * y * (dy - sum_j dy_j y_j).
 *   - ATTENTION: softmax(alpha * q k^T) v for each head, alpha 0: 1/sqrt(D); H is a multiple of G, head h reads k and v
 *     of group h / (H/G) (Ainslie et al. 2023). `causal` as in SOFTMAX. lse = log sum exp of the scaled scores. Computed in
 *     blocks with a running maximum; no T x S matrix exists (Milakov, Gimelshein 2018; Dao et al. 2022).
 *   - ROTARY: the pair (x_i, x_(i+D/2)) at position t is turned by the angle t * base^(-2i/D); transpose_a: backwards,
 *     which is the derivative. Su et al. 2021, in the order of pairs that Llama uses.
 *   - RMS_NORM: y = x * rstd * gamma, rstd = 1/sqrt(mean x^2 + epsilon). Zhang, Sennrich 2019.
 *   - GATE: a is the first half of the last axis, b the second. GATE_ACTIVATION: activation(a) * b (Shazeer 2020; only
 *     activations whose gradient reads x, and SIGMOID); GATE_TANH: tanh(a) * sigmoid(b) (van den Oord et al. 2016);
 *     GATE_LINEAR: a * sigmoid(b) (Dauphin et al. 2017).
 *   - LINEAR_CROSS_ENTROPY: SOFTMAX_CROSS_ENTROPY of x w^T + bias, whose logits exist only in pieces, in the workspace.
 *     lse (rows) is kept for the gradient. dbias is written with and without a bias.
 *   - LSTM_CELL: gates before their activation in the order i, f, g, o: c = sigmoid(f) c_prev + sigmoid(i) tanh(g),
 *     h = sigmoid(o) tanh(c). Hochreiter, Schmidhuber 1997, with forget gates (Gers et al. 2000).
 *   - GRU_CELL: order r, z, n: n = tanh(gx_n + sigmoid(gx_r + gh_r) gh_n), z = sigmoid(gx_z + gh_z),
 *     h = (1 - z) n + z h_prev. Cho et al. 2014, as PyTorch and cuDNN have it.
 *   - EXPONENTIAL_AVERAGE: average = alpha * average + (1 - alpha) * w, with the w after this step's update.
 *   - WEIGHT_MASK: weights of a kernel in raster order; MASK_A keeps those before the centre, MASK_B the centre too.
 *   - GROUP_NORM: mean and biased variance over the positions and the C/G channels of a group; Wu, He 2018.
 *   - UPSAMPLE: nearest reads floor(o * in / out); bilinear has half-pixel centres and no align_corners, as PyTorch.
 *     ADAPTIVE_AVG_POOL averages from floor(o * in / out) to ceil((o + 1) * in / out).
 *   - BINARY_CROSS_ENTROPY: mean of log(1 + exp(x)) - x t; targets in [0, 1].
 *   - LOGISTIC_MIXTURE: mean over the numbers of the image, in nats, of minus the logarithm of a mixture of M
 *     discretised logistic distributions over 256 levels from -1 to 1 (Salimans et al. 2017). A pixel has M weights
 *     (logits), then for each channel M means, M logarithms of scales (at least -7) and, with three channels, M
 *     coefficients before tanh.
 *   - WEIGHT_NORM: w = g v / |v| for each output; Salimans, Kingma 2016.
 *   - CAST: x in another number format, the enum dtype in `mode`, one of f32, bf16, f16 that x does not have. Rounded to
 *     the nearest, ties to even; beyond the largest number infinite; NaN stays NaN.
 *   - In MATMUL, BATCH_MATMUL, CONV2D_GRAD_WEIGHT, EMBEDDING, EMBEDDING_GRAD, FILL and for dw in
 *     LINEAR_CROSS_ENTROPY_GRAD, `mode` is the enum dtype of the result: see storage.h.
 *   - STOP_GRADIENT: x itself, whose gradient it does not pass on.
 *   - FUNCTION: exp(x), log(x) or x^alpha, as C's functions of these names.
 *   - MAX_POOL_GATHER: the element of g that `index` names in each window, 0 where that lies in the padding: the
 *     adjoint of MAX_POOL_GRAD.
 *   - LABEL_WEIGHTS: ((1-s) onehot + s/K) / counted rows, 0 in ignored rows, so that SOFTMAX_CROSS_ENTROPY is
 *     -sum q log_softmax.
 */
/* clang-format on */
#ifndef TARN_GRAPH_OP_H
#define TARN_GRAPH_OP_H

#include <stdbool.h>
#include <stdint.h>

enum op_kind {
	OP_INPUT,
	OP_RECORD,
	OP_MATMUL,
	OP_CONV2D,
	OP_CONV2D_GRAD_INPUT,
	OP_CONV2D_GRAD_WEIGHT,
	OP_SUM_ROWS,
	OP_MAX_POOL,
	OP_MAX_POOL_GRAD,
	OP_AVG_POOL,
	OP_AVG_POOL_GRAD,
	OP_ACTIVATION,
	OP_ACTIVATION_GRAD,
	OP_BATCH_STATS,
	OP_BATCH_APPLY,
	OP_BATCH_REDUCE,
	OP_BATCH_GRAD_INPUT,
	OP_RUNNING_UPDATE,
	OP_LAYER_NORM,
	OP_LAYER_NORM_GRAD,
	OP_LAYER_NORM_GRAD_PARAM,
	OP_DROPOUT,
	OP_ADD,
	OP_MULTIPLY,
	OP_SCALE,
	OP_CONCAT,
	OP_SLICE,
	OP_PAD_AXIS,
	OP_RESHAPE,
	OP_PERMUTE,
	OP_SOFTMAX_CROSS_ENTROPY,
	OP_SOFTMAX_CROSS_ENTROPY_GRAD,
	OP_COUNT_CORRECT,
	OP_MEAN_SQUARED_ERROR,
	OP_MEAN_SQUARED_ERROR_GRAD,
	OP_FILL,
	OP_SUM_SQUARES,
	OP_CLIP_SCALE,
	OP_SGD,
	OP_MOMENTUM,
	OP_ADAM,
	OP_BATCH_MATMUL,
	OP_ADD_BROADCAST,
	OP_BROADCAST_ROWS,
	OP_EMBEDDING,
	OP_EMBEDDING_GRAD,
	OP_SOFTMAX,
	OP_SOFTMAX_GRAD,
	OP_LOG_SOFTMAX,
	OP_LOG_SOFTMAX_GRAD,
	OP_ATTENTION,
	OP_ATTENTION_GRAD,
	OP_ROTARY,
	OP_RMS_NORM,
	OP_RMS_NORM_GRAD,
	OP_RMS_NORM_GRAD_PARAM,
	OP_GATE,
	OP_GATE_GRAD,
	OP_LINEAR_CROSS_ENTROPY,
	OP_LINEAR_CROSS_ENTROPY_GRAD,
	OP_LSTM_CELL,
	OP_LSTM_CELL_GRAD,
	OP_GRU_CELL,
	OP_GRU_CELL_GRAD,
	OP_EXPONENTIAL_AVERAGE,
	OP_WEIGHT_MASK,
	OP_GROUP_NORM,
	OP_GROUP_NORM_GRAD,
	OP_GROUP_NORM_GRAD_PARAM,
	OP_UPSAMPLE,
	OP_UPSAMPLE_GRAD,
	OP_ADAPTIVE_AVG_POOL,
	OP_ADAPTIVE_AVG_POOL_GRAD,
	OP_BINARY_CROSS_ENTROPY,
	OP_BINARY_CROSS_ENTROPY_GRAD,
	OP_LOGISTIC_MIXTURE,
	OP_LOGISTIC_MIXTURE_GRAD,
	OP_WEIGHT_NORM,
	OP_WEIGHT_NORM_GRAD,
	OP_CAST,
	OP_STOP_GRADIENT,
	OP_FUNCTION,
	OP_MAX_POOL_GATHER,
	OP_LABEL_WEIGHTS,
	OP_LABEL_SHARE,
	OP_SLICE_VIEW,
	OP_LION,
	OP_ADAFACTOR,
	OP_ADAFACTOR_VECTOR,
	OP_ADAM_8BIT,
	OP_UNSCALE,
	OP_LOSS_SCALE,
	OP_KINDS
};

enum activation {
	ACTIVATION_NONE,
	ACTIVATION_RELU,
	ACTIVATION_RELU6,
	ACTIVATION_LEAKY_RELU, /* alpha: slope below zero */
	ACTIVATION_ELU,        /* alpha: limit below zero */
	ACTIVATION_SIGMOID,
	ACTIVATION_TANH,
	ACTIVATION_GELU,      /* exact, with erf; Hendrycks, Gimpel 2016 */
	ACTIVATION_GELU_TANH, /* its tanh approximation */
	ACTIVATION_SILU,
	ACTIVATION_SOFTPLUS,
	ACTIVATIONS
};

/* op_attr.mode of GATE and GATE_GRAD. */
enum gate_mode { GATE_ACTIVATION, GATE_TANH, GATE_LINEAR, GATE_MODES };
/* op_attr.mode of WEIGHT_MASK, and of UPSAMPLE. */
enum mask_mode { MASK_A, MASK_B, MASK_MODES };
enum upsample_mode { UPSAMPLE_NEAREST, UPSAMPLE_BILINEAR, UPSAMPLE_MODES };
/* op_attr.mode of FUNCTION. */
enum function_mode { FUNCTION_EXPONENTIAL, FUNCTION_LOGARITHM, FUNCTION_POWER, FUNCTION_MODES };

/* Sliding window of a convolution or pooling; [0] is height, [1] is width; all in elements. */
struct window {
	uint32_t kernel[2];
	uint32_t stride[2];
	uint32_t dilation[2]; /* 1: dense */
	uint32_t pad_begin[2];
	uint32_t pad_end[2];
};

/* A limit of the build (Kconfig); plan files say which one they were made with. */
#ifdef CONFIG_MAX_RANK
#define OP_MAX_RANK CONFIG_MAX_RANK
#else
#define OP_MAX_RANK 6
#endif

/* Plain data without padding holes: it is written to the plan file as it is. Unused fields are zero. */
struct op_attr {
	struct window window;
	uint32_t groups; /* 0 or 1: one group */
	uint32_t activation;
	uint32_t transpose_a, transpose_b;
	uint32_t axis, begin;
	uint32_t extent[OP_MAX_RANK]; /* see the table; RESHAPE, FILL: the whole shape, PERMUTE: the axes; `rank` of
					 them */
	uint32_t rank;
	uint32_t count_padding, nesterov, decoupled;
	uint32_t stream;  /* Philox stream of a dropout */
	uint32_t samples; /* of a batch, for the unbiased variance */
	float alpha, epsilon, rate, momentum, beta1, beta2, weight_decay, rate_scale;
	uint32_t causal;
	int32_t ignore_index; /* with has_ignore_index: rows with this label do not count */
	uint32_t has_ignore_index;
	uint32_t mode; /* an enum of the op */
	uint32_t per_sample;
	float label_smoothing;
};

/* What the table says of a kind, whatever the shapes. */
struct op_row {
	const char *name; /* lower case, as printed: "conv2d_grad_input" */
	uint8_t min_inputs;
	uint8_t max_inputs; /* UINT8_MAX: any number */
	uint8_t outputs;
	bool effect;
	bool view; /* output 0 shares the storage of input 0 and costs nothing; never an instruction */
	/* version_of[k]: output k is a version of this input's storage; -1 when it is a tensor of its own. */
	int8_t version_of[3];
	/* Bit j: output 0 may take over the memory of input j when nothing reads that input afterwards. */
	uint8_t in_place;
};

#define OP_MAX_OUTPUTS 3

/* Persistent tensors of a graph with a loss scale, and its range. */
#define LOSS_SCALE_STATE "optimizer/loss_scale"
#define LOSS_SCALE_GOOD LOSS_SCALE_STATE "/good_steps"
#define LOSS_SCALE_SKIPPED LOSS_SCALE_STATE "/skipped_steps"
#define LOSS_SCALE_LEAST 0x1p-20f
#define LOSS_SCALE_MOST 0x1p40f

const struct op_row *op_row(enum op_kind kind);
const char *activation_name(enum activation activation);
/* True when this input may be a version that another effect of the same step wrote: the op then comes after it. */
bool op_reads_version(uint32_t kind, uint32_t input);
/* The optional last input of an effect that skips the step when that number is 0; UINT32_MAX: it has none. */
uint32_t op_skip_input(uint32_t kind, uint32_t inputs);
/* True when the gradient of the activation is a function of its output y (else of its input x). */
bool activation_grad_reads_output(enum activation activation);

#endif
