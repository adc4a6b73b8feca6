// Numbers with a separate exponent, and tanh. All functions are branch-free, so that loops over columns vectorize.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace scaled {

constexpr int64_t kMaxShift = 1000;

inline double power_of_two(int64_t e) {  // -1022 <= e <= 1023
  const uint64_t bits = uint64_t(1023 + e) << 52;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Exponent of x, in a valid range also for zero, inf and NaN, which do not change when multiplied by a power of two.
inline int64_t exponent_of(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const int64_t e = int64_t((bits >> 52) & 0x7ff) - 1023;  // -1023 .. 1024
  return e > kMaxShift ? kMaxShift : e;
}

// Moves the exponent of `mantissa` into `exponent`; the value mantissa * 2^exponent does not change.
inline void normalize(double& mantissa, int64_t& exponent) {
  const int64_t e = exponent_of(mantissa);
  mantissa *= power_of_two(-e);
  exponent += e;
}

inline double join(double mantissa, int64_t e) {
  e = e > 2 * kMaxShift ? 2 * kMaxShift : (e < -2 * kMaxShift ? -2 * kMaxShift : e);
  const int64_t half = e / 2;
  return mantissa * power_of_two(half) * power_of_two(e - half);
}

// Clamps x to the finite range of T; NaN stays NaN.
template <class T>
inline double saturate(double x) {
  constexpr double max = std::numeric_limits<T>::max();
  return x > max ? max : (x < -max ? -max : x);
}

template <class T>
struct Float;
template <>
struct Float<float> {
  using Bits = uint32_t;
  static constexpr int kMantissaBits = 23, kBias = 127;
  static constexpr float kShifter = 0x1.8p23f;  // adding it rounds to an integer, held in the low bits
  static constexpr float kLn2High = 0x1.62e400p-1f, kLn2Low = 0x1.7f7d1cp-20f;
  static constexpr int kSlopeShift = 96;     // slopes of tanh are at most 1, so they can be scaled by 2^96
  static constexpr float kSaturated = 76.f;  // exp(-2 * 76) * 2^96 is still a normal number
};
template <>
struct Float<double> {
  using Bits = uint64_t;
  static constexpr int kMantissaBits = 52, kBias = 1023;
  static constexpr double kShifter = 0x1.8p52;
  static constexpr double kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;
  static constexpr int kSlopeShift = 0;
  static constexpr double kSaturated = 350.0;
};

// Unsigned integers of the size of V, a number or a vector of numbers.
template <class T, class V>
struct BitsOf {
  typedef typename Float<T>::Bits type __attribute__((vector_size(sizeof(V))));
};
template <class T>
struct BitsOf<T, T> {
  using type = typename Float<T>::Bits;
};

template <class To, class From>
inline To bit_cast(const From& x) {
  To y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}

// |x| of numbers of type T.
template <class T, class V>
inline V absolute(const V& x) {
  using Bits = typename BitsOf<T, V>::type;
  return bit_cast<V, Bits>((bit_cast<Bits>(x) << 1) >> 1);
}

// 2^(k + shift), where k is the integer in the low bits of k + kShifter. Callers ensure that it is not subnormal,
// because operations on subnormal numbers take a hundred times as long.
template <class T, class V>
inline V exp2_of_shifted(V shifted, int shift) {
  using F = Float<T>;
  using Bits = typename BitsOf<T, V>::type;
  return bit_cast<V, Bits>((bit_cast<Bits>(shifted) + (F::kBias + shift)) << F::kMantissaBits);
}

// Computes tanh(x), and 2^kSlopeShift times its slope 1 - tanh(x)^2, of a number or a vector V of numbers of type T.
// Both use exp(-2|x|) and have no cancellation. The slope is 0 beyond kSaturated.
template <class T, class V>
inline void tanh_and_slope(V x, V& value, V& slope) {
  using F = Float<T>;
  using Bits = typename BitsOf<T, V>::type;
  const V a = absolute<T>(x);
  const V y = a > F::kSaturated ? V{} + T(-2) * F::kSaturated : T(-2) * a;
  const V shifted = y * T(1.4426950408889634) + F::kShifter;
  const V k = shifted - F::kShifter;
  const V r = (y - k * F::kLn2High) - k * F::kLn2Low;  // |r| <= ln(2) / 2
  V p = {};                                            // exp(r) - 1, the Taylor series: to r^13 in double, r^8 in float
  if (sizeof(T) == sizeof(double)) p = (T(1.0 / 6227020800) * r + T(1.0 / 479001600)) * r + T(1.0 / 39916800);
  if (sizeof(T) == sizeof(double)) p = ((p * r + T(1.0 / 3628800)) * r + T(1.0 / 362880)) * r;
  p = (((p + T(1.0 / 40320)) * r + T(1.0 / 5040)) * r + T(1.0 / 720)) * r + T(1.0 / 120);
  p = ((p * r + T(1.0 / 24)) * r + T(1.0 / 6)) * r + T(1.0 / 2);
  p = p * r * r + r;
  const V scale = exp2_of_shifted<T>((k < T(-64) ? V{} + T(-64) : k) + F::kShifter, 0);  // 2^k, at least 2^-64
  const V shifted_scale = exp2_of_shifted<T>(shifted, F::kSlopeShift);                    // 2^(k + kSlopeShift)
  const V em1 = scale * p + (scale - T(1));                                               // exp(-2|x|) - 1
  const V inverse = T(1) / (em1 + T(2));
  const V exp_shifted = shifted_scale + shifted_scale * p;
  const Bits sign = ~((~Bits{} << 1) >> 1);
  value = bit_cast<V, Bits>(bit_cast<Bits>(absolute<T>(em1 * inverse)) | (bit_cast<Bits>(x) & sign));
  slope = a > F::kSaturated ? V{} : T(4) * exp_shifted * (inverse * inverse);
}

// exp(r) - 1 by its Taylor series to r^13, |r| <= ln(2) / 2.
inline double expm1_series(double r) {
  double p = (1.0 / 6227020800 * r + 1.0 / 479001600) * r + 1.0 / 39916800;
  p = ((p * r + 1.0 / 3628800) * r + 1.0 / 362880) * r;
  p = (((p + 1.0 / 40320) * r + 1.0 / 5040) * r + 1.0 / 720) * r + 1.0 / 120;
  p = ((p * r + 1.0 / 24) * r + 1.0 / 6) * r + 1.0 / 2;
  return p * r * r + r;
}

// Splits exp(y) into (1 + p) * 2^k for -2200 <= y <= 0. NaN gives p = NaN.
inline void split_exp(double y, double& p, int64_t& k) {
  using F = Float<double>;
  const double shifted = y * 1.4426950408889634 + F::kShifter;
  const double whole = shifted - F::kShifter;
  p = expm1_series((y - whole * F::kLn2High) - whole * F::kLn2Low);
  uint64_t bits, origin;
  const double shifter = F::kShifter;
  std::memcpy(&bits, &shifted, sizeof bits);
  std::memcpy(&origin, &shifter, sizeof origin);
  k = int64_t(bits - origin);
  k = k < -4000 ? -4000 : (k > 0 ? 0 : k);  // NaN has an arbitrary k
}

// The slope 1 - tanh(x)^2 as slope * 2^exponent, added to `exponent`: it does not underflow. NaN stays NaN.
inline void slope_of_tanh(double x, double& slope, int64_t& exponent) {
  const double a = std::fabs(x);
  double p;
  int64_t k;
  split_exp(a > 1100.0 ? -2200.0 : -2.0 * a, p, k);
  const double decay = join(1.0 + p, k);
  slope = a > 1100.0 ? 0.0 : 4.0 * (1.0 + p) / ((1.0 + decay) * (1.0 + decay));  // further out, gradients are 0
  exponent += k;
}

}  // namespace scaled
