// Forward pass: act(P), and S = act'(P) * P for the backward pass.
#pragma once

#include "plain.h"

namespace {

// Smallest and largest |z| of a source row. They determine the precision that products with this row need.
template <class T>
struct Extent {
  T least = std::numeric_limits<T>::max(), most = 0;

  void include(const Extent& other) {
    least = std::min(least, other.least);
    most = std::max(most, other.most);
  }
};

template <class T>
void extents_of_rows(const Inputs<T>& in, Index rows, Extent<T>* extents) {
  parallel_for(0, rows, std::max<Index>(1, 32768 / in.rank), [&](Index begin, Index end) {
    for (Index u = begin; u < end; ++u) {
      const T* const z = in.z + u * in.rank;
      T least = std::numeric_limits<T>::max(), most = 0;
#pragma omp simd reduction(min : least) reduction(max : most)
      for (Index j = 0; j < in.rank; ++j) {
        least = std::min(least, std::fabs(z[j]));
        most = std::max(most, std::fabs(z[j]));
      }
      extents[u] = {least, most};
    }
  });
}

// Copies the columns begin .. end of z, so that they are contiguous.
template <class T>
void copy_columns(const Inputs<T>& in, Index rows, Index begin, Index end, T* out) {
  parallel_for(0, rows, 1024, [&](Index first, Index last) {
    for (Index u = first; u < last; ++u) {
      const T* const row = in.z + u * in.rank;
      prefetch_row<kNarrowBlock>(row + std::min(last - 1 - u, 2 * kRowsAhead) * in.rank + begin);
      std::copy(row + begin, row + end, out + u * (end - begin));
    }
  });
}

// Computes act(P) and S of a row in T.
template <int W>
inline void few_factors(const SixRows<float>& rows, bool tanh, int width, float* out, float* state) {
  const int w = W ? W : width;
  const float *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3], *e = rows[4], *f = rows[5];
  alignas(64) float product[kBlock], slope[kBlock];
  SIMD for (int j = 0; j < w; ++j) product[j] = ((a[j] * b[j]) * (c[j] * d[j])) * (e[j] * f[j]);
  if (!tanh) {
    std::copy(product, product + w, out);
    if (state) std::copy(product, product + w, state);
    return;
  }
  SIMD for (int j = 0; j < w; ++j) {
    float value;
    scaled::tanh_and_slope<float>(product[j], value, slope[j]);
    out[j] = value;
  }
  if (state) SIMD for (int j = 0; j < w; ++j) state[j] = product[j] * slope[j];
}

struct Product {
  alignas(64) double mantissa[kBlock];
  alignas(64) int64_t exponent[kBlock];
  bool empty = true;          // no factor yet, arrays not initialized
  bool has_exponent = false;  // if false, all exponents are 0 and not initialized

  // Multiplies by six rows of floats, whose product cannot leave the range of double. If `stays_in_range`, the exponent
  // need not be extracted, because no further factors follow or all of them are moderate.
  template <int W>
  void times(int width, const SixRows<float>& rows, bool stays_in_range) {
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
    if (!stays_in_range) extract_exponent(w);
  }

  // Multiplies by one row of any factors.
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

  void extract_exponent(int width) {
    set_exponent(width);
    SIMD for (int j = 0; j < width; ++j) scaled::normalize(mantissa[j], exponent[j]);
  }

  // The empty product is 1.
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

// Returns whether no S of tanh can be lost, because no factor is tiny. Beyond kSaturated, slope * P is below 2^-211 in
// float: it matters for a gradient up to kLargestGrad if a factor is below 2^-45.
template <class T>
bool nothing_lost(double least) {
  return least * saved_scale<T>(true) >= kLargestGrad * 0x1p12;
}

// Computes act(y) and S = act'(y) q y with y = sign(P) |P|^q for the columns of one row; overwrites the product. Returns
// whether some S does not fit into T although S / f may fit, so that the row is wide.
template <class T, int W>
bool activate(Product& product, double q, bool tanh, int width, double least, T* out, T* state) {
  constexpr double tiny = std::numeric_limits<T>::min(), huge = std::numeric_limits<T>::max();
  const int w = W ? W : width;
  alignas(64) T slope[kBlock];
  double* const p = product.mantissa;
  if (q != 1.0) {
    product.extract_exponent(w);
    signed_powers(q, w, p, product.exponent);
  }
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
  if (q != 1.0) SIMD for (int j = 0; j < w; ++j) p[j] *= q;
  SIMD for (int j = 0; j < w; ++j) state[j] = T(p[j]);
  if (tanh && nothing_lost<T>(least)) return false;
  const double reach = sizeof(T) == sizeof(double) ? 0.0 : tiny * least * saved_scale<T>(tanh) / kLargestGrad;
  int64_t lost = 0;
#pragma omp simd reduction(| : lost)
  for (int j = 0; j < w; ++j) {
    const double a = std::fabs(p[j]);
    lost |= int64_t((a < tiny) & (a >= reach)) | int64_t(a > huge);
  }
  if (tanh)  // the slope underflowed to 0
    for (int j = 0; j < w; ++j) lost |= slope[j] == T(0);
  return lost;
}

// How the product of a row is computed. Only kGeneral needs an exponent. kSafe is kInRange if no S can be lost.
enum class Method : char { kGeneral, kInRange, kSafe, kFew };

// Chooses the method of a row from its degree and the sizes of its factors.
template <class T>
Method method_of(Index degree, const Extent<T>& extent, bool few) {
  if (sizeof(T) != sizeof(float) || degree == 0 || !(extent.least > T(0)) || !(extent.most <= T(0x1p100)))
    return Method::kGeneral;
  if (few && degree <= kFew && extent.least >= kSmallFactor && extent.most <= kLargeFactor) return Method::kFew;
  const int64_t bits = std::max({int64_t(1), scaled::exponent_of(extent.most) + 1, -scaled::exponent_of(extent.least)});
  if (degree * bits > scaled::kMaxShift) return Method::kGeneral;
  return nothing_lost<T>(extent.least) ? Method::kSafe : Method::kInRange;
}

// Computes a block of columns of one row of the result. The factors of these columns are in the rows of `z`.
template <class T, int W>
void product_of_row(const Inputs<T>& in, const CompressedEdges& by_dst, const T* z, Index stride, Method method,
                    Index v, int width, T* out, T* state, T* least) {
  const T* const ones = Filler<T>::rows().ones;
  if constexpr (sizeof(T) == sizeof(float))
    if (method == Method::kFew) {
      for_each_six_rows<W>(by_dst, v, z, stride, ones, [&](const SixRows<T>& rows, Index) {
        few_factors<W>(rows, in.tanh, width, out, state);
      });
      return;
    }
  Product product;
  const double smallest = state ? double(*least) : 1.0;
  for_each_six_rows<W>(by_dst, v, z, stride, ones, [&](const SixRows<T>& rows, Index k) {
    const bool is_last = k + 6 >= by_dst.ptr[v + 1];
    product.template times<W>(width, rows, is_last || method != Method::kGeneral);
  });
  product.finish(width);
  const double q = power_of_row(in.exponent, by_dst.ptr[v + 1] - by_dst.ptr[v]);
  const bool lost = activate<T, W>(product, q, in.tanh, width, smallest, out, state);
  if (state) *least = lost ? T(0) : T(smallest);  // 0: the row is wide
}

template <class T>
void forward(const Inputs<T>& in, const CompressedEdges& by_dst, Index n_src, T* out, T* state, T* least) {
  const Index bytes = by_dst.groups * in.rank * Index(sizeof(T));
  expect_to_fill(out, bytes);
  expect_to_fill(state, bytes);
  std::unique_ptr<Extent<T>[]> of_source(new Extent<T>[n_src]);
  std::unique_ptr<Method[]> method(new Method[by_dst.groups]);
  extents_of_rows(in, n_src, of_source.get());
  for_ranges(by_dst, in.rank, [&](Index first, Index last) {
    for (Index v = first; v < last; ++v) {
      Extent<T> extent;
      const Index begin = by_dst.ptr[v], end = by_dst.ptr[v + 1];
      for (Index k = begin; k < end; ++k) extent.include(of_source[by_dst.other[k]]);
      if (state) least[v] = extent.least;
      method[v] = method_of(end - begin, extent, in.exponent == 0.0);
    }
  });
  const bool narrow = prefers_narrow_blocks<T>(n_src), in_registers = in.tanh && in.exponent == 0.0;
  for_each_step(in.rank, narrow, [&](Index begin, Index end) {
    const Scratch<T> copied(narrow ? n_src * (end - begin) : 0);
    if (narrow) copy_columns(in, n_src, begin, end, copied.get());
    for_ranges(by_dst, in.rank, [&](Index first, Index last) {
      for_each_block<T>(begin, end, [&](Index column, auto constant, int width) {
        constexpr int W = decltype(constant)::value;
        const T* const z = narrow ? copied.get() + (column - begin) : in.z + column;
        const Index stride = narrow ? end - begin : in.rank;
        for (Index v = first; v < last; ++v) {
          T *const out_at = out + v * in.rank + column, *const state_at = state ? state + (out_at - out) : nullptr;
          if constexpr (sizeof(T) == sizeof(float) && W % 16 == 0 && W > 0)
            if (in_registers && method[v] >= Method::kSafe) {
              const bool few = method[v] == Method::kFew;
              tanh_of_row<W>(by_dst, v, z, stride, few, out_at, state_at, narrow);
              continue;
            }
          T* const least_at = state ? least + v : nullptr;
          product_of_row<T, W>(in, by_dst, z, stride, method[v], v, width, out_at, state_at, least_at);
        }
      });
      finish_bypass();
    });
  });
}

}  // namespace
