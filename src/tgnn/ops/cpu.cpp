// The neighbourhood product on the CPU: one owner per output row, no atomics, no E x R message matrix.
//
// The factor of edge e = (u, v) is
//
//     f = w_e * (z_u + y_e) + (1 - w_e)        with w_e = 1 and y_e = 0 where absent,
//
// and row v of the result is act(P), P = prod f over the edges into v. How it stays exact (docs/numerics.md):
//  * P is carried as mantissa * 2^exponent in double: nothing overflows or underflows on the way, and the mantissa
//    is zero only if a factor is.
//  * The forward pass saves S = act'(P) * P, so that d loss / d f = g * S / f. Without edge terms the backward pass
//    is one sum of q = g * S over the transposed graph, then one division by z.
//  * S with tanh is below 1, so it is saved times 2^96 (float): ordinary rows lose nothing to underflow. A row that
//    does not fit (a zero or a minute factor; an overflowing product without tanh) is "wide": the backward pass forms
//    its product again and keeps it with an exponent.

#include <ATen/Parallel.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include <algorithm>
#include <array>
#include <memory>
#include <new>

#include "scaled.h"

// Loops over columns are independent and touch distinct arrays: let the compiler vectorise them.
#define SIMD _Pragma("omp simd")

namespace {

using Index = int64_t;
using Node = int32_t;

constexpr int kBlock = 128;   // columns worked on at a time: their accumulators stay in the first-level cache
constexpr double kLargestGrad = 0x1p40;  // a row with a larger gradient is wide, so that no S need be kept for it
constexpr Index kAhead = 8;   // how many edges ahead rows are prefetched

// Edges grouped by one end: group i holds positions ptr[i] .. ptr[i + 1]. `other` is the node at the far end,
// `edge` the edge's place in the caller's order (null: the same place).
struct Grouping {
  const Index* ptr;
  const Node* other;
  const Index* edge;
  Index groups;

  Index edge_at(Index k) const { return edge ? edge[k] : k; }
};

template <class T>
struct Inputs {
  const T* z;       // [N_src, rank]
  const T* addend;  // [E, rank] or null
  const T* weight;  // [E] or null
  Index rank;
  bool tanh;
};

// Asks for large pages before memory is first touched: one page fault instead of 512.
void expect_to_fill(void* memory, Index bytes) {
#ifdef __linux__
  constexpr uintptr_t page = uintptr_t(1) << 21;
  const uintptr_t begin = (uintptr_t(memory) + page - 1) / page * page;
  const uintptr_t end = (uintptr_t(memory) + uintptr_t(bytes)) / page * page;
  if (memory && begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // only a hint
#endif
}

// Calls f(first, last) for ranges of groups, shared out so that each thread gets the same number of edges.
template <class F>
void for_ranges(const Grouping& by, Index rank, const F& f) {
  const Index work = by.ptr[by.groups] + by.groups;
  const Index threads = work * rank < 32768 ? 1 : at::get_num_threads();
  const auto first_of = [&](Index thread) {
    Index low = 0, high = by.groups;
    while (low < high) {
      const Index middle = (low + high) / 2;
      if (by.ptr[middle] + middle < work / threads * thread)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  };
  at::parallel_for(0, threads, 1, [&](Index begin, Index end) {
    const Index last = end == threads ? by.groups : first_of(end);
    f(first_of(begin), last);
  });
}

// Calls f(first column, integral_constant W, width) for blocks of columns: W = kBlock, or 0 for a ragged rest. This is
// the outer loop: a block's columns of all rows often fit the second-level cache where whole rows do not.
template <class F>
void for_each_block(Index rank, const F& f) {
  Index column = 0;
  for (; column + kBlock <= rank; column += kBlock) f(column, std::integral_constant<int, kBlock>(), kBlock);
  if (column < rank) f(column, std::integral_constant<int, 0>(), int(rank - column));
}

// Calls f(rows, last) with the rows of `table` at the far end of six edges at a time, `filler` where fewer remain.
template <class T>
using SixRows = std::array<const T*, 6>;

template <class T, class F>
inline void for_each_six_rows(const Grouping& by, Index group, const T* table, Index rank, int width, const T* filler,
                              const F& f) {
  constexpr int line = 64 / sizeof(T);
  const Index end = by.ptr[group + 1], last = by.ptr[by.groups] - 1;
  const auto row = [&](Index k) { return table + Index(by.other[k]) * rank; };
  for (Index k = by.ptr[group]; k < end; k += 6) {
    SixRows<T> rows;
    for (int i = 0; i < 6; ++i) rows[i] = k + i < end ? row(k + i) : filler;
    for (int i = 0; i < 6; ++i) {  // constant bounds: GCC drops a prefetch from a loop that it cannot unroll
      const T* const ahead = row(std::min(k + kAhead + i, last));
      for (int j = 0; j < kBlock; j += line)
        if (j < width) __builtin_prefetch(ahead + j);
    }
    f(rows, k + 6 >= end);
  }
}

// The factors of the edge at place k (source u), for `width` columns: z's own row, or computed into `buffer`.
template <class T>
inline const double* edge_factors(const Inputs<T>& in, Index u, Index edge, Index column, int width, double* buffer) {
  const T* const z = in.z + u * in.rank + column;
  const T* const y = in.addend ? in.addend + edge * in.rank + column : nullptr;
  const double w = in.weight ? double(in.weight[edge]) : 1.0;
  if (y)
    SIMD for (int j = 0; j < width; ++j) buffer[j] = w * (double(z[j]) + double(y[j])) + (1.0 - w);
  else
    SIMD for (int j = 0; j < width; ++j) buffer[j] = w * double(z[j]) + (1.0 - w);
  return buffer;
}

// Writes finite values. Two loops: GCC vectorises the choice and the conversion, but not both in one.
template <class T, int W>
inline void store(double* values, int width, T* out) {
  const int w = W ? W : width;
  SIMD for (int j = 0; j < w; ++j) values[j] = scaled::saturate<T>(values[j]);
  SIMD for (int j = 0; j < w; ++j) out[j] = T(values[j]);
}

// Smallest |z| of every source row: what decides whether a product of that row may need more than T holds.
template <class T>
void least_of_rows(const Inputs<T>& in, Index rows, T* least) {
  at::parallel_for(0, rows, std::max<Index>(1, 32768 / in.rank), [&](Index begin, Index end) {
    for (Index u = begin; u < end; ++u) {
      const T* const z = in.z + u * in.rank;
      T smallest = std::numeric_limits<T>::max();
#pragma omp simd reduction(min : smallest)
      for (Index j = 0; j < in.rank; ++j) smallest = std::min(smallest, std::fabs(z[j]));
      least[u] = smallest;
    }
  });
}

// ---- forward -----------------------------------------------------------------------------------------------

struct Product {
  alignas(64) double mantissa[kBlock];
  alignas(64) int64_t exponent[kBlock];
  bool empty = true;          // no factor yet: the arrays are not set
  bool has_exponent = false;  // false: every exponent is 0, and not set

  // Six rows of floats: together they cannot leave the range of double. After the last the exponent may stay.
  template <int W>
  void times(int width, const SixRows<float>& rows, bool last) {
    const int w = W ? W : width;
    const float *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3], *e = rows[4], *f = rows[5];
    if (empty) {
      SIMD for (int j = 0; j < w; ++j)
        mantissa[j] = ((double(a[j]) * double(b[j])) * (double(c[j]) * double(d[j]))) * (double(e[j]) * double(f[j]));
      empty = false;
    } else {
      SIMD for (int j = 0; j < w; ++j)
        mantissa[j] *= ((double(a[j]) * double(b[j])) * (double(c[j]) * double(d[j]))) * (double(e[j]) * double(f[j]));
    }
    if (last) return;
    set_exponent(w);
    SIMD for (int j = 0; j < w; ++j) scaled::normalize(mantissa[j], exponent[j]);
  }

  // One row of any factors.
  template <int W>
  void times_any(int width, const double* row) {
    const int w = W ? W : width;
    if (empty) finish(w);
    set_exponent(w);
    SIMD for (int j = 0; j < w; ++j) {
      double f = row[j];
      int64_t e = exponent[j];
      scaled::normalize(f, e);
      double m = mantissa[j] * f;
      scaled::normalize(m, e);
      mantissa[j] = m;
      exponent[j] = e;
    }
  }

  template <int W>
  void times(int width, const SixRows<double>& rows, bool) {
    for (const double* row : rows) times_any<W>(width, row);
  }

  // The product of nothing is 1.
  void finish(int width) {
    if (empty) std::fill(mantissa, mantissa + width, 1.0);
    empty = false;
  }

 private:
  void set_exponent(int width) {
    if (!has_exponent) std::fill(exponent, exponent + width, 0);
    has_exponent = true;
  }
};

template <class T>
struct Filler {
  T ones[kBlock], zeros[kBlock] = {};
  Filler() { std::fill(ones, ones + kBlock, T(1)); }
  static const Filler& rows() {
    static const Filler filler;
    return filler;
  }
};

// With edge terms. Returns the smallest |factor|.
template <class T>
double multiply_edges(const Inputs<T>& in, const Grouping& by_dst, Index v, Index column, int width,
                      Product& product) {
  alignas(64) double f[kBlock];
  double least = std::numeric_limits<T>::max();
  for (Index k = by_dst.ptr[v]; k < by_dst.ptr[v + 1]; ++k) {
    edge_factors(in, by_dst.other[k], by_dst.edge_at(k), column, width, f);
    product.times_any<0>(width, f);
#pragma omp simd reduction(min : least)
    for (int j = 0; j < width; ++j) least = std::min(least, std::fabs(f[j]));
  }
  return least;
}

// 2^shift such that S is saved as S * 2^shift.
template <class T>
double saved_scale(bool tanh) {
  return tanh ? scaled::power_of_two(scaled::Float<T>::kSlopeShift) : 1.0;
}

// act(P) and S for the columns of one row; the product is used up. Returns whether some S is lost in T although S / f
// may not be.
template <class T, int W>
bool activate(Product& product, bool tanh, int width, double least, T* out, T* state) {
  constexpr double tiny = std::numeric_limits<T>::min(), huge = std::numeric_limits<T>::max();
  const int w = W ? W : width;
  alignas(64) T slope[kBlock];
  double* const p = product.mantissa;
  if (product.has_exponent) {
    SIMD for (int j = 0; j < w; ++j) p[j] = scaled::join(p[j], product.exponent[j]);
  }
  SIMD for (int j = 0; j < w; ++j) out[j] = T(p[j]);
  if (tanh) {
    SIMD for (int j = 0; j < w; ++j) {
      T value;
      scaled::tanh_and_slope<T>(out[j], value, slope[j]);
      out[j] = value;
    }
    SIMD for (int j = 0; j < w; ++j) p[j] = scaled::saturate<double>(p[j]) * double(slope[j]);
  }
  if (!state) return false;
  SIMD for (int j = 0; j < w; ++j) state[j] = T(p[j]);
  if (tanh && least * saved_scale<T>(true) >= kLargestGrad) return false;
  const double reach = sizeof(T) == sizeof(double) ? 0.0 : tiny * least * saved_scale<T>(tanh) / kLargestGrad;
  int64_t lost = 0;
#pragma omp simd reduction(| : lost)
  for (int j = 0; j < w; ++j) {
    const double a = std::fabs(p[j]);
    lost |= int64_t((a < tiny) & (a >= reach)) | int64_t(a > huge);
  }
  if (tanh)  // a saturated slope was set to 0
    for (int j = 0; j < w; ++j) lost |= slope[j] == T(0);
  return lost;
}

template <class T>
void forward(const Inputs<T>& in, const Grouping& by_dst, Index n_src, T* out, T* state, T* least) {
  const bool edges = in.addend || in.weight;
  const Index bytes = by_dst.groups * in.rank * Index(sizeof(T));
  expect_to_fill(out, bytes);
  expect_to_fill(state, bytes);
  std::unique_ptr<T[]> least_z(state && !edges ? new T[n_src] : nullptr);
  if (least_z) least_of_rows(in, n_src, least_z.get());
  for_ranges(by_dst, in.rank, [&](Index first, Index last) {
    if (state)
      for (Index v = first; v < last; ++v) {
        T smallest = std::numeric_limits<T>::max();
        if (least_z)
          for (Index k = by_dst.ptr[v]; k < by_dst.ptr[v + 1]; ++k)
            smallest = std::min(smallest, least_z[by_dst.other[k]]);
        least[v] = smallest;
      }
    for_each_block(in.rank, [&](Index column, auto constant, int width) {
      constexpr int W = decltype(constant)::value;
      for (Index v = first; v < last; ++v) {
        Product product;
        double smallest = state ? double(least[v]) : 1.0;
        if (edges)
          smallest = std::min(smallest, multiply_edges(in, by_dst, v, column, width, product));
        else
          for_each_six_rows(by_dst, v, in.z + column, in.rank, width, Filler<T>::rows().ones,
                            [&](const SixRows<T>& rows, bool last) { product.template times<W>(width, rows, last); });
        product.finish(width);
        const Index at = v * in.rank + column;
        const bool lost = activate<T, W>(product, in.tanh, width, smallest, out + at, state ? state + at : nullptr);
        if (state) least[v] = lost ? T(0) : T(smallest);  // 0: the row is wide
      }
    });
  });
}

// ---- backward ----------------------------------------------------------------------------------------------

// d loss / d f in the rows that need more than q: value = mantissa * 2^exponent, where
//   f != 0:  value / f if no factor of that row and column is zero, else 0
//   f == 0:  value if it is the only zero, else 0
struct WideRows {
  std::unique_ptr<Node[]> slot;  // of every destination; -1: not wide
  Index count = 0;
  std::unique_ptr<double[]> mantissa;
  std::unique_ptr<int32_t[]> code;  // 2 * exponent, + 1 where the value is for the zero factor

  static int32_t encode(int64_t exponent, bool for_zero) {
    exponent = std::max<int64_t>(-100000, std::min<int64_t>(100000, exponent));  // far beyond what join() keeps
    return int32_t(2 * exponent + for_zero);
  }
};

// q = g * S, 0 in wide rows: block of columns after block of columns, [N_dst, width] each, so that the rows of a block
// lie together. (Apart by a power of two, they would compete for the same places in the cache.)
template <class T>
struct Backward {
  const T* q;
  Index n_dst;
  WideRows wide;

  const T* q_block(Index column) const { return q + column * n_dst; }
};

// q = g * S row by row; marks the rows where q does not hold all that is needed.
template <class T>
void form_q(const Grouping& by_dst, Index rank, bool tanh, const T* grad, const T* state, const T* least, T* q,
            Node* slot) {
  constexpr double tiny = std::numeric_limits<T>::min();
  constexpr T huge = std::numeric_limits<T>::max();
  at::parallel_for(0, by_dst.groups, std::max<Index>(1, 32768 / rank), [&](Index begin, Index end) {
    for (Index v = begin; v < end; ++v) {
      const double reach = sizeof(T) == sizeof(double) ? 0.0 : tiny * double(least[v]) * saved_scale<T>(tanh);
      int64_t lost = least[v] == T(0);
      const auto block_of_row = [&](Index column, Index width) { return q + column * by_dst.groups + v * width; };
      for (Index column = 0; column < rank; column += kBlock) {
        const Index width = std::min<Index>(kBlock, rank - column);
        T* const out = block_of_row(column, width);
        const T *g = grad + v * rank + column, *s = state + v * rank + column;
        T overflow = 0;
#pragma omp simd reduction(max : overflow)
        for (Index j = 0; j < width; ++j) {
          out[j] = g[j] * s[j];
          const T a = std::fabs(out[j]), size = std::fabs(g[j]);
          overflow = (a <= huge) & (size <= T(kLargestGrad)) ? overflow : T(1);  // NaN too
        }
        lost |= overflow > T(0);
        if (reach >= tiny) continue;  // no factor is so small that dividing by it would bring back what T rounds off
        int64_t rounded_off = 0;
#pragma omp simd reduction(| : rounded_off)
        for (Index j = 0; j < width; ++j) {
          const double a = std::fabs(double(g[j]) * double(s[j]));
          rounded_off |= int64_t((a < tiny) & (a >= reach) & (g[j] != T(0)) & (s[j] != T(0)));
        }
        lost |= rounded_off;
      }
      if (lost)
        for (Index column = 0; column < rank; column += kBlock) {
          const Index width = std::min<Index>(kBlock, rank - column);
          std::fill_n(block_of_row(column, width), width, T(0));
        }
      slot[v] = lost ? 0 : -1;
    }
  });
}

template <class T>
void form_wide_rows(const Inputs<T>& in, const Grouping& by_dst, const T* grad, WideRows& wide) {
  for (Index v = 0; v < by_dst.groups; ++v)
    if (wide.slot[v] >= 0) wide.slot[v] = Node(wide.count++);
  if (!wide.count) return;
  const Index size = wide.count * in.rank;
  wide.mantissa.reset(new double[size]);
  wide.code.reset(new int32_t[size]);
  const auto form = [&](Index v) {
    for (Index column = 0; column < in.rank; column += kBlock) {
      const int width = int(std::min<Index>(kBlock, in.rank - column));
      alignas(64) double mantissa[kBlock], f[kBlock];
      alignas(64) int64_t exponent[kBlock], zeros[kBlock];
      std::fill(mantissa, mantissa + width, 1.0);
      std::fill(exponent, exponent + width, 0);
      std::fill(zeros, zeros + width, 0);
      for (Index k = by_dst.ptr[v]; k < by_dst.ptr[v + 1]; ++k) {
        edge_factors(in, by_dst.other[k], by_dst.edge_at(k), column, width, f);
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
      const Index at = wide.slot[v] * in.rank + column;
      for (int j = 0; j < width; ++j) {
        double value, slope = 1.0, g = grad[v * in.rank + column + j];
        if (in.tanh) scaled::tanh_and_slope(zeros[j] ? 0.0 : scaled::join(mantissa[j], exponent[j]), value, slope);
        int64_t e = exponent[j];
        scaled::normalize(g, e);
        scaled::normalize(slope, e);
        wide.mantissa[at + j] = zeros[j] > 1 ? 0.0 : mantissa[j] * g * slope;
        wide.code[at + j] = WideRows::encode(e, zeros[j] == 1);
      }
    }
  };
  for_ranges(by_dst, in.rank, [&](Index first, Index last) {
    for (Index v = first; v < last; ++v)
      if (wide.slot[v] >= 0) form(v);
  });
}

// Factors split for dividing by them: 1 where the factor is zero.
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

// Adds d loss / d f of one edge into a wide row, still to be divided by the factors' mantissas.
inline void add_wide_slopes(const WideRows& wide, Index at, const Divisors& by, int width, double* sum) {
  const double* const mantissa = wide.mantissa.get() + at;
  const int32_t* const code = wide.code.get() + at;
  SIMD for (int j = 0; j < width; ++j) {
    const int64_t c = code[j];
    const double m = (c & 1) == by.is_zero[j] ? mantissa[j] : 0.0;
    sum[j] += scaled::saturate<double>(scaled::join(m, ((c - (c & 1)) / 2) - by.exponent[j]));
  }
}

// Adds the gradient of z_u through the wide rows that it has a factor in.
template <class T>
void add_wide_sources(const Inputs<T>& in, const Grouping& by_src, const WideRows& wide, Index u, Index column,
                      int width, double* sum) {
  alignas(64) double f[kBlock], extra[kBlock];
  Divisors by;
  by.set(edge_factors(in, u, 0, column, width, f), width);
  std::fill(extra, extra + width, 0.0);
  for (Index k = by_src.ptr[u]; k < by_src.ptr[u + 1]; ++k) {
    const Index slot = wide.slot[by_src.other[k]];
    if (slot >= 0) add_wide_slopes(wide, slot * in.rank + column, by, width, extra);
  }
  SIMD for (int j = 0; j < width; ++j) sum[j] += extra[j] / by.mantissa[j];
}

// No edge terms: sum q over the edges out of u, then divide by z_u.
template <class T, int W>
void source_gradient(const Inputs<T>& in, const Grouping& by_src, const Backward<T>& back, Index u, Index column,
                     int width, T* grad_z) {
  const int w = W ? W : width;
  alignas(64) double sum[kBlock];
  bool empty = true;
  for_each_six_rows(by_src, u, back.q_block(column), width, width, Filler<T>::rows().zeros,
                    [&](const SixRows<T>& rows, bool) {
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
  if (empty) std::fill(sum, sum + w, 0.0);
  // sum / z; where z is 0, so is the sum. The division is done in T, kept in range by moving tiny z up.
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
  if (back.wide.count) add_wide_sources(in, by_src, back.wide, u, column, width, sum);
  store<T, W>(sum, width, grad_z + u * in.rank + column);
}

// With edge terms every edge has its own factor; it is visited once, by its source, so each output has one owner.
template <class T>
void source_and_edge_gradients(const Inputs<T>& in, const Grouping& by_src, const Backward<T>& back, Index u,
                               Index column, int width, T* grad_z, T* grad_addend, double* grad_weight) {
  const double unscale = 1.0 / saved_scale<T>(in.tanh);
  const T* const z = in.z + u * in.rank + column;
  alignas(64) double sum[kBlock], f[kBlock], d[kBlock];
  Divisors by;
  std::fill(sum, sum + width, 0.0);
  for (Index k = by_src.ptr[u]; k < by_src.ptr[u + 1]; ++k) {
    const Index v = by_src.other[k], edge = by_src.edge_at(k), slot = back.wide.slot[v];
    edge_factors(in, u, edge, column, width, f);
    if (slot >= 0) {
      by.set(f, width);
      std::fill(d, d + width, 0.0);
      add_wide_slopes(back.wide, slot * in.rank + column, by, width, d);
      SIMD for (int j = 0; j < width; ++j) d[j] /= by.mantissa[j];
    } else {
      const T* const q = back.q_block(column) + v * width;
      SIMD for (int j = 0; j < width; ++j)
        d[j] = scaled::saturate<double>(double(q[j]) * unscale / (f[j] == 0.0 ? 1.0 : f[j]));  // f = 0: q = 0
    }
    const double w = in.weight ? double(in.weight[edge]) : 1.0;
    const T* const y = in.addend ? in.addend + edge * in.rank + column : nullptr;
    if (grad_weight) {
      double total = column ? grad_weight[edge] : 0.0;
#pragma omp simd reduction(+ : total)
      for (int j = 0; j < width; ++j)
        total += scaled::saturate<double>(d[j] * (double(z[j]) + (y ? double(y[j]) : 0.0) - 1.0));
      grad_weight[edge] = total;
    }
    SIMD for (int j = 0; j < width; ++j) d[j] *= w;
    SIMD for (int j = 0; j < width; ++j) sum[j] += d[j];
    if (grad_addend) store<T, 0>(d, width, grad_addend + edge * in.rank + column);
  }
  if (grad_z) store<T, 0>(sum, width, grad_z + u * in.rank + column);
}

template <class T>
void backward(const Inputs<T>& in, const Grouping& by_dst, const Grouping& by_src, const T* grad, const T* state,
              const T* least, T* q, T* grad_z, T* grad_addend, double* grad_weight) {
  Backward<T> back;
  expect_to_fill(q, by_dst.groups * in.rank * Index(sizeof(T)));
  expect_to_fill(grad_z, by_src.groups * in.rank * Index(sizeof(T)));
  back.q = q;
  back.n_dst = by_dst.groups;
  back.wide.slot.reset(new Node[by_dst.groups]);
  form_q(by_dst, in.rank, in.tanh, grad, state, least, q, back.wide.slot.get());
  form_wide_rows(in, by_dst, grad, back.wide);
  for_ranges(by_src, in.rank, [&](Index first, Index last) {
    for_each_block(in.rank, [&](Index column, auto constant, int width) {
      constexpr int W = decltype(constant)::value;
      for (Index u = first; u < last; ++u)
        if (in.addend || in.weight)
          source_and_edge_gradients(in, by_src, back, u, column, width, grad_z, grad_addend, grad_weight);
        else
          source_gradient<T, W>(in, by_src, back, u, column, width, grad_z);
    });
  });
}

// ---- grouping edges by one end: a stable counting sort -------------------------------------------------------

template <class I>
void group(const I* key, const I* other, Index edges, Index groups, Index* ptr, Node* sorted, Index* edge) {
  std::fill(ptr, ptr + groups + 1, 0);
  for (Index e = 0; e < edges; ++e) ++ptr[key[e] + 1];
  for (Index i = 0; i < groups; ++i) ptr[i + 1] += ptr[i];
  std::unique_ptr<Index[]> next(new Index[groups]);
  std::copy(ptr, ptr + groups, next.get());
  for (Index e = 0; e < edges; ++e) {
    const Index place = next[key[e]]++;
    sorted[place] = other ? Node(other[e]) : Node(e);
    if (edge) edge[place] = e;
  }
}

// 0: done; 1: out of memory. An exception must not reach the caller, which is not C++.
template <class F>
int guarded(const F& f) {
  try {
    f();
    return 0;
  } catch (const std::bad_alloc&) {
    return 1;
  }
}

}  // namespace

#define TGNN_EXPORT(T, NAME)                                                                                        \
  extern "C" int tgnn_forward_##NAME(const T* z, const T* addend, const T* weight, Index rank, int tanh,            \
                                     Index n_dst, const Index* ptr, const Node* other, const Index* edge,           \
                                     Index n_src, T* out, T* state, T* least) {                                     \
    return guarded([&] {                                                                                            \
      forward<T>({z, addend, weight, rank, tanh != 0}, {ptr, other, edge, n_dst}, n_src, out, state, least);        \
    });                                                                                                             \
  }                                                                                                                 \
  extern "C" int tgnn_backward_##NAME(                                                                              \
      const T* z, const T* addend, const T* weight, Index rank, int tanh, Index n_dst, const Index* ptr,            \
      const Node* other, const Index* edge, Index n_src, const Index* ptr_src, const Node* other_src,               \
      const Index* edge_src, const T* grad, const T* state, const T* least, T* q, T* grad_z, T* grad_addend,        \
      double* grad_weight) {                                                                                        \
    return guarded([&] {                                                                                            \
      backward<T>({z, addend, weight, rank, tanh != 0}, {ptr, other, edge, n_dst},                                  \
                  {ptr_src, other_src, edge_src, n_src}, grad, state, least, q, grad_z, grad_addend, grad_weight);  \
    });                                                                                                             \
  }

TGNN_EXPORT(float, f32)
TGNN_EXPORT(double, f64)

extern "C" int tgnn_group_i64(const int64_t* key, const int64_t* other, Index edges, Index groups, Index* ptr,
                              Node* sorted, Index* edge) {
  return guarded([&] { group<int64_t>(key, other, edges, groups, ptr, sorted, edge); });
}

extern "C" int tgnn_group_i32(const int32_t* key, const int32_t* other, Index edges, Index groups, Index* ptr,
                              Node* sorted, Index* edge) {
  return guarded([&] { group<int32_t>(key, other, edges, groups, ptr, sorted, edge); });
}
