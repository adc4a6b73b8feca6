// Vectors of columns in registers. GCC and Clang compile their arithmetic, comparisons and selections to vector
// instructions, without the control flow that keeps loops over columns from being vectorized well.
#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "rows.h"
#include "scaled.h"

namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <class T, int L>
struct VectorType {
  typedef T type __attribute__((vector_size(L * sizeof(T))));
};
template <class T, int L>
using Vector = typename VectorType<T, L>::type;

#define UNROLL _Pragma("GCC unroll 8")

// Conversions. GCC splits __builtin_convertvector() between vectors of different sizes into several instructions.
template <class T, int L>
inline Vector<double, L> to_double(const Vector<T, L>& x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == sizeof(float) && L == 8) return (Vector<double, L>)_mm512_cvtps_pd((__m256)x);
#endif
  return __builtin_convertvector(x, Vector<double, L>);
}

template <int L>
inline Vector<float, L> to_float(const Vector<double, L>& x) {
#if defined(__AVX512F__)
  if constexpr (L == 8) return (Vector<float, L>)_mm512_cvtpd_ps((__m512d)x);
#endif
  return __builtin_convertvector(x, Vector<float, L>);
}

// Lets other threads see what was written past the caches.
inline void finish_bypass() {
#if defined(__AVX512F__)
  _mm_sfence();
#endif
}

// C vectors with L lanes each: a group of columns. `kPartial` marks the last columns of a row, fewer than L.
template <class T, int L_, int C_, bool kPartial_ = false>
struct Columns {
  static constexpr int L = L_, C = C_;
  static constexpr bool kPartial = kPartial_;
  using V = Vector<T, L>;
  Index first;  // first column
  int count;    // number of columns

  V load(const T* row, int c) const {
    V x = {};
    if constexpr (kPartial)
      for (int j = 0; j < count; ++j) x[j] = row[j];
    else
      std::memcpy(&x, row + c * L, sizeof x);
    return x;
  }

  template <class U>
  void store(const Vector<U, L>& x, U* row, int c) const {
    if constexpr (kPartial)
      for (int j = 0; j < count; ++j) row[j] = x[j];
    else
      std::memcpy(row + c * L, &x, sizeof x);
  }

  // Requests a row that is used later. It must be inlined early: GCC drops calls of functions that only prefetch.
  __attribute__((always_inline)) void prefetch(const T* row) const {
    for (int j = 0; j < L * C; j += 64 / int(sizeof(T))) __builtin_prefetch(row + j);
  }
  __attribute__((always_inline)) void prefetch_to_write(T* row) const {
    for (int j = 0; j < L * C; j += 64 / int(sizeof(T))) __builtin_prefetch(row + j, 1);
  }
};

// Calls f(Columns) for groups of the columns begin .. end, with vectors of at most `kLanes` lanes.
template <class T, int kLanes, class F>
inline void for_each_columns(Index begin, Index end, const F& f) {
  constexpr int kSmall = kLanes > 8 ? 8 : kLanes;
  Index column = begin;
  for (; column + 4 * kLanes <= end; column += 4 * kLanes) f(Columns<T, kLanes, 4>{column, 4 * kLanes});
  for (; column + 2 * kLanes <= end; column += 2 * kLanes) f(Columns<T, kLanes, 2>{column, 2 * kLanes});
  for (; column + kLanes <= end; column += kLanes) f(Columns<T, kLanes, 1>{column, kLanes});
  if constexpr (kSmall < kLanes)
    for (; column + kSmall <= end; column += kSmall) f(Columns<T, kSmall, 1>{column, kSmall});
  if (column < end) f(Columns<T, kSmall, 1, true>{column, int(end - column)});
}

// Rows of a matrix from one column on. The rows of an absent matrix are zeros.
template <class T>
struct Rows {
  static constexpr T kZeros[kBlock] = {};
  const T* data;
  Index stride;

  Rows(const T* matrix, Index rank, Index column)
      : data(matrix ? matrix + column : kZeros), stride(matrix ? rank : 0) {}
  const T* operator[](Index row) const { return data + row * stride; }
};

// Position of the edge that is prefetched at position k.
inline Index ahead(const CompressedEdges& by, Index k) { return std::min(k + 24, by.ptr[by.groups] - 1); }

// exp(y) for |y| <= 87 in float and |y| <= 700 in double. NaN stays NaN. The relative error is below 1e-7 in float and
// 1e-15 in double, or 1e-12 if `kShort`.
template <class T, int L, bool kShort = false>
inline Vector<T, L> exp_of(Vector<T, L> y) {
  using V = Vector<T, L>;
  using F = scaled::Float<T>;
  using I = Vector<typename F::Bits, L>;
  const V shifted = y * T(1.4426950408889634) + F::kShifter;
  const V k = shifted - F::kShifter;
  const V r = (y - k * F::kLn2High) - k * F::kLn2Low;
  V p = {};  // the Taylor series: to r^7 in float, r^10 or r^13 in double
  if constexpr (sizeof(T) == sizeof(double)) {
    if constexpr (!kShort) p = ((T(1.0 / 6227020800) * r + T(1.0 / 479001600)) * r + T(1.0 / 39916800)) * r;
    p = (((p + T(1.0 / 3628800)) * r + T(1.0 / 362880)) * r + T(1.0 / 40320)) * r;
  }
  p = (p + T(1.0 / 5040)) * r + T(1.0 / 720);
  p = ((p * r + T(1.0 / 120)) * r + T(1.0 / 24)) * r + T(1.0 / 6);
  p = ((p * r + T(1.0 / 2)) * r + T(1)) * r + T(1);
  const I power = ((I)shifted + typename F::Bits(F::kBias)) << F::kMantissaBits;  // 2^k, k is in the low bits
  return (V)power * p;
}

}  // namespace
