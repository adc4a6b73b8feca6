// Factors of the product, shared by the forward and the backward pass.
#pragma once

#include "rows.h"
#include "scaled.h"

namespace {

// A row of at most six factors within these bounds is computed in T itself: a product of six stays within 2^120 and has
// at most six rounding errors. Most rows of most graphs are of this kind.
constexpr int kFew = 6;
constexpr double kSmallFactor = 0x1p-20, kLargeFactor = 0x1p20;

constexpr double kLargestGrad = 0x1p40;  // rows with a larger gradient are wide

template <class T>
struct Inputs {
  const T* z;       // [N_src, rank]
  const T* weight;  // [E], or null: all are 1
  Index rank;
  bool tanh;

  // Computes the factors of an edge with source u for some columns.
  void factors(Index u, Index edge, Index column, int width, double* f) const {
    const T* const row = z + u * rank + column;
    const double w = weight ? double(weight[edge]) : 1.0, rest = 1.0 - w;
    SIMD for (int j = 0; j < width; ++j) f[j] = w * double(row[j]) + rest;
  }
};

// Returns the factor by which S is scaled before it is saved.
template <class T>
double saved_scale(bool tanh) {
  return tanh ? scaled::power_of_two(scaled::Float<T>::kSlopeShift) : 1.0;
}

// Writes gradients, clamped to finite values. Subnormal values are replaced by 0, because they would slow down later
// operations by a factor of 100. The loops are separate because GCC does not vectorize them as one loop.
template <class T, int W>
inline void store(double* values, int width, T* out) {
  const int w = W ? W : width;
  SIMD for (int j = 0; j < w; ++j) values[j] = scaled::saturate<T>(values[j]);
  SIMD for (int j = 0; j < w; ++j) values[j] = std::fabs(values[j]) < std::numeric_limits<T>::min() ? 0.0 : values[j];
  SIMD for (int j = 0; j < w; ++j) out[j] = T(values[j]);
}

}  // namespace
