// The factors of a product, and what its two passes share.
#pragma once

#include "rows.h"
#include "scaled.h"

namespace {

// A row of at most six factors, none of them beyond these bounds, needs no more than T itself: a product of six stays
// within 2^120, and is as exact as six roundings. Most rows of most graphs are such.
constexpr int kFew = 6;
constexpr double kSmallFactor = 0x1p-20, kLargeFactor = 0x1p20;

constexpr double kLargestGrad = 0x1p40;  // a row with a larger gradient is wide, so that no S need be kept for it

template <class T>
struct Inputs {
  const T* z;       // [N_src, rank]
  const T* addend;  // [E, rank] or null
  const T* weight;  // [E] or null
  Index rank;
  bool tanh;
};

// 2^shift such that S is saved as S * 2^shift.
template <class T>
double saved_scale(bool tanh) {
  return tanh ? scaled::power_of_two(scaled::Float<T>::kSlopeShift) : 1.0;
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

// Writes gradients: finite, and 0 where T has only a subnormal number, which would slow down whatever reads it a
// hundredfold. Separate loops: GCC vectorizes the choice and the conversion, but not both in one.
template <class T, int W>
inline void store(double* values, int width, T* out) {
  const int w = W ? W : width;
  SIMD for (int j = 0; j < w; ++j) values[j] = scaled::saturate<T>(values[j]);
  SIMD for (int j = 0; j < w; ++j) values[j] = std::fabs(values[j]) < std::numeric_limits<T>::min() ? 0.0 : values[j];
  SIMD for (int j = 0; j < w; ++j) out[j] = T(values[j]);
}

}  // namespace
