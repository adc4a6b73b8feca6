// Factors of the product, shared by the forward and the backward pass.
#pragma once

#include "vectors.h"

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
  double exponent;  // degree exponent

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

// The degree exponent: the product of a row is raised to this power.
inline double power_of_row(double exponent, Index degree) {
  return degree > 1 && exponent != 0.0 ? std::pow(double(degree), -exponent) : 1.0;
}

// sign(m) |m 2^e|^q for q > 0, in place. log2 of the mantissa is a series in (m - 1) / (m + 1).
inline void signed_powers(double q, int width, double* mantissa, int64_t* exponent) {
  SIMD for (int j = 0; j < width; ++j) {
    const double size = std::fabs(mantissa[j]);
    const bool upper = size > 1.4142135623730951;
    const double m = upper ? 0.5 * size : size, s = (m - 1.0) / (m + 1.0), t = s * s;
    double series = 1.0 / 23;
    series = series * t + 1.0 / 21;
    series = series * t + 1.0 / 19;
    series = series * t + 1.0 / 17;
    series = series * t + 1.0 / 15;
    series = series * t + 1.0 / 13;
    series = series * t + 1.0 / 11;
    series = series * t + 1.0 / 9;
    series = series * t + 1.0 / 7;
    series = series * t + 1.0 / 5;
    series = series * t + 1.0 / 3;
    const double log2 = 2.8853900817779268 * (s + s * t * series);
    const double power = q * (log2 + double(exponent[j] + int64_t(upper)));
    const double shifted = power + scaled::Float<double>::kShifter;
    const double whole = shifted - scaled::Float<double>::kShifter;
    const double value = 1.0 + scaled::expm1_series((power - whole) * 0.6931471805599453);
    uint64_t bits, origin;
    const double shifter = scaled::Float<double>::kShifter;
    std::memcpy(&bits, &shifted, sizeof bits);
    std::memcpy(&origin, &shifter, sizeof origin);
    const bool zero = mantissa[j] == 0.0;
    mantissa[j] = zero ? mantissa[j] : std::copysign(value, mantissa[j]);
    exponent[j] = zero ? 0 : int64_t(bits - origin);
  }
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
