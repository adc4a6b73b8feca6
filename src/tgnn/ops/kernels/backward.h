// Backward pass: d loss / d f = g * S / f, summed over the edges out of each node.
#pragma once

#include "plain.h"

namespace {

// d loss / d f in wide rows, whose values do not fit q. With value = mantissa * 2^exponent, d loss / d f is
//   f != 0:  value / f if no factor of this row and column is zero, else 0
//   f == 0:  value (the product of the other factors) if f is the only zero, else 0
struct WideRows {
  std::unique_ptr<Node[]> slot;  // index of each destination among the wide rows; -1: not wide
  Index count = 0, column = 0, width = 0;  // number of rows, first column, number of columns
  std::unique_ptr<double[]> mantissa;
  std::unique_ptr<int32_t[]> code;  // 2 * exponent, plus 1 if the value belongs to the zero factor
  std::unique_ptr<std::atomic<bool>[]> has_source;  // whether each source has an edge to a wide row; null: none has

  static int32_t encode(int64_t exponent, bool for_zero) {
    exponent = std::max<int64_t>(-100000, std::min<int64_t>(100000, exponent));  // far outside the range of join()
    return int32_t(2 * exponent + for_zero);
  }
  Index at(Index slot, Index first_column) const { return slot * width + first_column - column; }
  bool contains(Index u) const { return has_source && has_source[u].load(std::memory_order_relaxed); }
};

// q = g * S, and 0 in wide rows, for a range of columns. It is stored in blocks of columns, [N_dst, width] each, so
// that the rows of a block are contiguous. (With a stride of a power of two they would map to the same cache sets.)
template <class T>
struct Backward {
  T* q;
  Index n_dst;
  WideRows wide;

  T* q_block(Index column) const { return q + (column - wide.column) * n_dst; }
};

// Computes q = g * S row by row, and marks the rows whose values do not fit into q as wide.
template <class T>
void form_q(const CompressedEdges& by_dst, Index rank, bool tanh, const T* grad, const T* state, const T* least,
            Backward<T>& back) {
  constexpr double tiny = std::numeric_limits<T>::min();
  // Sums of values below this bound do not overflow: they are computed in double.
  constexpr T huge = sizeof(T) == sizeof(double) ? T(0x1p900) : std::numeric_limits<T>::max();
  const Index first = back.wide.column, last = first + back.wide.width;
  std::atomic<bool> any_lost(false);
  parallel_for(0, by_dst.groups, std::max<Index>(1, 32768 / rank), [&](Index begin, Index end) {
    for (Index v = begin; v < end; ++v) {
      const double reach = sizeof(T) == sizeof(double) ? 0.0 : tiny * double(least[v]) * saved_scale<T>(tanh);
      int64_t lost = least[v] == T(0);
      const auto multiply = [&](Index column, auto constant, int given) {
        constexpr int W = decltype(constant)::value;
        const int width = W ? W : given;
        const Index at = v * rank + column, ahead = std::min(v + kRowsAhead, end - 1) * rank + column;
        prefetch_row<W>(grad + ahead);
        prefetch_row<W>(state + ahead);
        T* const out = back.q_block(column) + v * width;
        const T *g = grad + at, *s = state + at;
        T overflow = 0;
#pragma omp simd reduction(max : overflow)
        for (int j = 0; j < width; ++j) {
          out[j] = g[j] * s[j];
          const T a = std::fabs(out[j]), size = std::fabs(g[j]);
          overflow = (a <= huge) & (size <= T(kLargestGrad)) ? overflow : T(1);  // NaN too
        }
        lost |= overflow > T(0);
        if (reach >= tiny) return;  // no factor is small enough to make underflow in q matter
        int64_t rounded_off = 0;
#pragma omp simd reduction(| : rounded_off)
        for (int j = 0; j < width; ++j) {
          const double a = std::fabs(double(g[j]) * double(s[j]));
          rounded_off |= int64_t((a < tiny) & (a >= reach) & (g[j] != T(0)) & (s[j] != T(0)));
        }
        lost |= rounded_off;
      };
      const auto clear = [&](Index column, auto, int width) {
        std::fill_n(back.q_block(column) + v * width, width, T(0));
      };
      for_each_block<T>(first, last, multiply);
      if (lost) for_each_block<T>(first, last, clear);
      if (lost) any_lost.store(true, std::memory_order_relaxed);
      back.wide.slot[v] = lost ? 0 : -1;
    }
  });
  if (!any_lost) return;
  for (Index v = 0; v < by_dst.groups; ++v)
    if (back.wide.slot[v] >= 0) back.wide.slot[v] = Node(back.wide.count++);
}

// Multiplies a product by the factors that are not zero, and counts those that are.
inline void multiply_nonzero(const double* f, int width, double* mantissa, int64_t* exponent, int64_t* zeros) {
  SIMD for (int j = 0; j < width; ++j) {
    double m = f[j] == 0.0 ? 1.0 : f[j];
    zeros[j] += f[j] == 0.0;
    int64_t e = exponent[j];
    scaled::normalize(m, e);
    m *= mantissa[j];
    scaled::normalize(m, e);
    mantissa[j] = m;
    exponent[j] = e;
  }
}

template <class T>
void form_wide_rows(const Inputs<T>& in, const CompressedEdges& by_dst, Index n_src, const T* grad, WideRows& wide) {
  if (!wide.count) return;
  const Index size = wide.count * wide.width, last = wide.column + wide.width;
  wide.mantissa.reset(new double[size]);
  wide.code.reset(new int32_t[size]);
  wide.has_source.reset(new std::atomic<bool>[n_src]());
  const auto form = [&](Index v) {
    const double q = power_of_row(in.exponent, by_dst.ptr[v + 1] - by_dst.ptr[v]);
    for (Index column = wide.column; column < last; column += kBlock) {
      const int width = int(std::min<Index>(kBlock, last - column));
      alignas(64) double mantissa[kBlock], f[kBlock];
      alignas(64) int64_t exponent[kBlock], zeros[kBlock];
      std::fill(mantissa, mantissa + width, 1.0);
      std::fill(exponent, exponent + width, 0);
      std::fill(zeros, zeros + width, 0);
      for (Index k = by_dst.ptr[v]; k < by_dst.ptr[v + 1]; ++k) {
        wide.has_source[by_dst.other[k]].store(true, std::memory_order_relaxed);
        in.factors(by_dst.other[k], by_dst.edge_at(k), column, width, f);
        multiply_nonzero(f, width, mantissa, exponent, zeros);
      }
      if (q != 1.0) signed_powers(q, width, mantissa, exponent);
      const Index at = wide.at(wide.slot[v], column);
      for (int j = 0; j < width; ++j) {
        double slope = 1.0, g = grad[v * in.rank + column + j];
        int64_t e = exponent[j];
        if (in.tanh) {
          const double p = scaled::join(mantissa[j], exponent[j]);
          scaled::slope_of_tanh(zeros[j] ? mantissa[j] * 0.0 : p, slope, e);  // times 0: NaN stays NaN
        }
        scaled::normalize(g, e);
        const bool vanishes = zeros[j] > 1 || (zeros[j] == 1 && q != 1.0);
        wide.mantissa[at + j] = mantissa[j] * g * slope * q * (vanishes ? 0.0 : 1.0);
        wide.code[at + j] = WideRows::encode(e, zeros[j] == 1);
      }
    }
  };
  for_ranges(by_dst, in.rank, [&](Index first, Index last) {
    for (Index v = first; v < last; ++v)
      if (wide.slot[v] >= 0) form(v);
  });
}

// Factors as mantissa and exponent, to divide by them; zero factors are replaced by 1.
struct Divisors {
  alignas(64) double mantissa[kBlock];
  alignas(64) int64_t exponent[kBlock];
  alignas(64) int64_t is_zero[kBlock];

  void set(const double* f, int width) {
    SIMD for (int j = 0; j < width; ++j) {
      double m = f[j] == 0.0 ? 1.0 : f[j];
      int64_t e = 0;
      scaled::normalize(m, e);
      mantissa[j] = m;
      exponent[j] = e;
      is_zero[j] = f[j] == 0.0;
    }
  }
};

// d loss / d f of one edge into a row, from the values of the row (see WideRows), finite.
inline void exact_slopes(const double* mantissa, const int32_t* code, const Divisors& by, int width, double* d) {
  SIMD for (int j = 0; j < width; ++j) {
    const int64_t c = code[j];
    const double m = (c & 1) == by.is_zero[j] ? mantissa[j] : mantissa[j] * 0.0;  // times 0: NaN stays NaN
    d[j] = scaled::saturate<double>(scaled::join(m / by.mantissa[j], ((c - (c & 1)) / 2) - by.exponent[j]));
  }
}

// A sum of finite numbers in which large ones of both signs do not give inf - inf.
struct FiniteSum {
  alignas(64) double plain[kBlock], scaled_down[kBlock];

  explicit FiniteSum(int width) {
    std::fill(plain, plain + width, 0.0);
    std::fill(scaled_down, scaled_down + width, 0.0);
  }
  void add(const double* x, int width) {
    SIMD for (int j = 0; j < width; ++j) plain[j] += x[j];
    SIMD for (int j = 0; j < width; ++j) scaled_down[j] += x[j] * 0x1p-64;
  }
  void finish(int width, double* sum) const {
    SIMD for (int j = 0; j < width; ++j)
      sum[j] += std::fabs(plain[j]) <= std::numeric_limits<double>::max()
                    ? plain[j]
                    : scaled::saturate<double>(scaled_down[j] * 0x1p64);
  }
};

// Adds the gradient of z_u through the wide rows that contain it as a factor.
template <class T>
void add_wide_sources(const Inputs<T>& in, const CompressedEdges& by_src, const WideRows& wide, Index u, Index column,
                      int width, double* sum) {
  alignas(64) double f[kBlock], d[kBlock];
  in.factors(u, 0, column, width, f);
  Divisors by;
  by.set(f, width);
  FiniteSum extra(width);
  for (Index k = by_src.ptr[u]; k < by_src.ptr[u + 1]; ++k) {
    const Index slot = wide.slot[by_src.other[k]];
    if (slot < 0) continue;
    const Index at = wide.at(slot, column);
    exact_slopes(wide.mantissa.get() + at, wide.code.get() + at, by, width, d);
    extra.add(d, width);
  }
  extra.finish(width, sum);
}

// Computes the gradient of a factor of at most six products in T. Returns false if the range of T is too small.
template <int W>
inline bool few_gradients(const SixRows<float>& rows, const float* z, bool tanh, int width, float* out) {
  constexpr float tiny = std::numeric_limits<float>::min(), huge = std::numeric_limits<float>::max();
  const int w = W ? W : width;
  const float *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3], *e = rows[4], *f = rows[5];
  const float scale = float(saved_scale<float>(tanh)), unscale = 1.0f / scale;
  alignas(64) float ratio[kBlock];
  float least = huge, beyond = 0;
#pragma omp simd reduction(min : least) reduction(max : beyond)
  for (int j = 0; j < w; ++j) {
    ratio[j] = (((a[j] + b[j]) + (c[j] + d[j])) + (e[j] + f[j])) / z[j];
    least = std::min(least, std::fabs(z[j]));
    beyond = std::fabs(ratio[j]) <= huge ? beyond : 1.0f;  // NaN too: inf - inf
  }
  if (!(least >= float(kSmallFactor)) || beyond > 0.0f) return false;
  SIMD for (int j = 0; j < w; ++j) ratio[j] = std::fabs(ratio[j]) < tiny * scale ? 0.0f : ratio[j];  // as store() does
  SIMD for (int j = 0; j < w; ++j) out[j] = ratio[j] * unscale;
  return true;
}

// Sum q over the edges out of u, then divide by z_u.
template <class T, int W>
void source_gradient(const Inputs<T>& in, const CompressedEdges& by_src, const Backward<T>& back, Index u, Index column,
                     int width, T* grad_z, bool bypass) {
  const int w = W ? W : width;
  const Index degree = by_src.ptr[u + 1] - by_src.ptr[u];
  if (!degree) return void(std::fill_n(grad_z + u * in.rank + column, w, T(0)));  // z_u can be NaN
  const bool has_wide = back.wide.contains(u);
  if constexpr (sizeof(T) == sizeof(float)) {
    if (degree <= kFew && !has_wide) {
      bool done = false;
      for_each_six_rows<W>(by_src, u, back.q_block(column), width, Filler<T>::rows().zeros,
                           [&](const SixRows<T>& rows, Index) {
                             const Index at = u * in.rank + column;
                             done = few_gradients<W>(rows, in.z + at, in.tanh, width, grad_z + at);
                           });
      if (done) return;
    }
    if constexpr (W % 16 == 0 && W > 0)
      if (!has_wide) {
        const Index at = u * in.rank + column;
        const double unscale = 1.0 / saved_scale<T>(in.tanh);
        return gradient_of_row<W>(by_src, u, back.q_block(column), in.z + at, unscale, grad_z + at, bypass);
      }
  }
  alignas(64) double sum[kBlock];
  bool empty = true;
  for_each_six_rows<W>(by_src, u, back.q_block(column), width, Filler<T>::rows().zeros,
                    [&](const SixRows<T>& rows, Index) {
                      const T *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3], *e = rows[4], *f = rows[5];
                      if (empty) {
                        SIMD for (int j = 0; j < w; ++j)
                          sum[j] = ((double(a[j]) + double(b[j])) + (double(c[j]) + double(d[j]))) +
                                   (double(e[j]) + double(f[j]));
                        empty = false;
                      } else {
                        SIMD for (int j = 0; j < w; ++j)
                          sum[j] += ((double(a[j]) + double(b[j])) + (double(c[j]) + double(d[j]))) +
                                    (double(e[j]) + double(f[j]));
                      }
                    });
  // sum / z. If z is 0, the sum is 0. The division is done in T; tiny z are scaled up to avoid overflow.
  constexpr T small = std::numeric_limits<T>::min() * T(1 << 30), up = T(1) / small;
  const double unscale = 1.0 / saved_scale<T>(in.tanh);
  const T* const z = in.z + u * in.rank + column;
  alignas(64) T inverse[kBlock], lift[kBlock];
  SIMD for (int j = 0; j < w; ++j) {
    const T divisor = z[j] == T(0) ? T(1) : z[j];
    lift[j] = std::fabs(divisor) < small ? up : T(1);
    inverse[j] = T(1) / (divisor * lift[j]);
  }
  SIMD for (int j = 0; j < w; ++j) sum[j] = sum[j] * unscale * double(inverse[j]) * double(lift[j]);
  if (has_wide) add_wide_sources(in, by_src, back.wide, u, column, width, sum);
  store<T, W>(sum, width, grad_z + u * in.rank + column);
}

// Computes q and the wide rows for some columns.
template <class T>
Backward<T> prepare_backward(const Inputs<T>& in, const CompressedEdges& by_dst, const T* grad, const T* state,
                             const T* least, Index n_src, Index column, Index width, const Scratch<T>& q) {
  Backward<T> back;
  back.q = q.get();
  back.n_dst = by_dst.groups;
  back.wide.slot.reset(new Node[by_dst.groups]);
  back.wide.column = column;
  back.wide.width = width;
  form_q(by_dst, in.rank, in.tanh, grad, state, least, back);
  form_wide_rows(in, by_dst, n_src, grad, back.wide);
  return back;
}

template <class T>
void backward(const Inputs<T>& in, const CompressedEdges& by_dst, const CompressedEdges& by_src, const T* grad,
              const T* state, const T* least, T* grad_z) {
  expect_to_fill(grad_z, by_src.groups * in.rank * Index(sizeof(T)));
  const bool narrow = prefers_narrow_blocks<T>(by_dst.groups);
  for_each_step(in.rank, narrow, [&](Index begin, Index end) {
    const Scratch<T> q(by_dst.groups * (end - begin));
    const Backward<T> back =
        prepare_backward(in, by_dst, grad, state, least, by_src.groups, begin, end - begin, q);
    for_ranges(by_src, in.rank, [&](Index first, Index last) {
      for_each_block<T>(begin, end, [&](Index column, auto constant, int width) {
        constexpr int W = decltype(constant)::value;
        for (Index u = first; u < last; ++u) {
          prefetch_row<W>(in.z + std::min(u + kRowsAhead, last - 1) * in.rank + column);
          source_gradient<T, W>(in, by_src, back, u, column, width, grad_z, narrow);
        }
      });
      finish_bypass();
    });
  });
}

}  // namespace
