// Rows of plain products of floats whose columns stay in registers. Most rows of most graphs are of this kind.
#pragma once

#include "factors.h"

namespace {

using Eight = Vector<double, 8>;
using Sixteen = Vector<float, 16>;

inline Eight eight_of(const float* row) {
  Vector<float, 8> x;
  std::memcpy(&x, row, sizeof x);
  return to_double<float, 8>(x);
}

inline Sixteen sixteen_of(const float* row) {
  Sixteen x;
  std::memcpy(&x, row, sizeof x);
  return x;
}

inline Sixteen rounded(const Eight& low, const Eight& high) {
#if defined(__AVX512F__)
  const __m512 half = _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)low));
  const __m256d other = _mm256_castps_pd(_mm512_cvtpd_ps((__m512d)high));
  return (Sixteen)_mm512_insertf64x4((__m512d)half, other, 1);
#else
  const Vector<float, 8> halves[2] = {to_float<8>(low), to_float<8>(high)};
  Sixteen x;
  std::memcpy(&x, halves, sizeof x);
  return x;
#endif
}

inline void widen(const Sixteen& x, Eight& low, Eight& high) {
#if defined(__AVX512F__)
  low = (Eight)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x));
  high = (Eight)_mm512_cvtps_pd((__m256)_mm512_extractf64x4_pd((__m512d)x, 1));
#else
  Vector<float, 8> halves[2];
  std::memcpy(halves, &x, sizeof x);
  low = to_double<float, 8>(halves[0]);
  high = to_double<float, 8>(halves[1]);
#endif
}

// If `bypass`, results are written past the caches: results that are larger than the caches would evict the rows that
// other results need. Call finish_bypass() before another thread reads them.
inline void write(const Sixteen& x, float* to, bool bypass) {
#if defined(__AVX512F__)
  if (bypass && uintptr_t(to) % 64 == 0) return _mm512_stream_ps(to, (__m512)x);
#endif
  std::memcpy(to, &x, sizeof x);
}

// Calls use(row) for the row of every edge of a group, in their order.
template <int W, class Use>
__attribute__((always_inline)) inline void for_each_row(const CompressedEdges& by, Index group, const float* table,
                                                        Index stride, const Use& use) {
  constexpr Index distance = rows_ahead<float>(W);
  const Index end = by.ptr[group + 1], last = by.ptr[by.groups] - 1;
  const auto row = [&](Index k) { return table + Index(by.other[k]) * stride; };
  for (Index k = by.ptr[group]; k < end; ++k) {
    prefetch_row<W>(row(std::min(k + distance, last)));
    use(row(k));
  }
}

// Computes W columns of tanh(P) and, if `state` is given, of S. The product neither overflows nor underflows in double.
// If `few`, the row has at most six factors, and its product is computed in float.
template <int W>
void tanh_of_row(const CompressedEdges& by_dst, Index v, const float* z, Index stride, bool few, float* out,
                 float* state, bool bypass) {
  if (few) {
    Sixteen p[W / 16];
    for (Sixteen& x : p) x = Sixteen{} + 1.0f;
    for_each_row<W>(by_dst, v, z, stride, [&](const float* row) {
      UNROLL for (int j = 0; j < W; j += 16) p[j / 16] *= sixteen_of(row + j);
    });
    UNROLL for (int j = 0; j < W; j += 16) {
      Sixteen value, slope;
      scaled::tanh_and_slope<float>(p[j / 16], value, slope);
      write(value, out + j, bypass);
      if (state) write(p[j / 16] * slope, state + j, bypass);
    }
    return;
  }
  Eight p[W / 8];
  for (Eight& x : p) x = Eight{} + 1.0;
  for_each_row<W>(by_dst, v, z, stride, [&](const float* row) {
    UNROLL for (int j = 0; j < W; j += 8) p[j / 8] *= eight_of(row + j);
  });
  UNROLL for (int j = 0; j < W; j += 16) {
    Sixteen value, slope;
    scaled::tanh_and_slope<float>(rounded(p[j / 8], p[j / 8 + 1]), value, slope);
    write(value, out + j, bypass);
    if (!state) continue;
    Eight low, high;
    widen(slope, low, high);
    write(rounded(p[j / 8] * low, p[j / 8 + 1] * high), state + j, bypass);
  }
}

// Computes W columns of the gradient of z_u, where no product with z_u is wide.
template <int W>
void gradient_of_row(const CompressedEdges& by_src, Index u, const float* q, const float* z, double unscale,
                     float* grad_z, bool bypass) {
  constexpr float tiny = std::numeric_limits<float>::min(), small = tiny * float(1 << 30), up = 1.0f / small;
  constexpr double huge = std::numeric_limits<float>::max();
  Eight sum[W / 8] = {};
  for_each_row<W>(by_src, u, q, W, [&](const float* row) {
    UNROLL for (int j = 0; j < W; j += 8) sum[j / 8] += eight_of(row + j);
  });
  UNROLL for (int j = 0; j < W; j += 16) {
    const Sixteen given = sixteen_of(z + j), divisor = given == 0.0f ? Sixteen{} + 1.0f : given;
    const Sixteen lift = scaled::absolute<float>(divisor) < small ? Sixteen{} + up : Sixteen{} + 1.0f;
    Eight d[2], by[2], lifted[2];
    widen(1.0f / (divisor * lift), by[0], by[1]);
    widen(lift, lifted[0], lifted[1]);
    for (int half = 0; half < 2; ++half) {
      d[half] = sum[j / 8 + half] * unscale * by[half] * lifted[half];
      d[half] = d[half] > huge ? Eight{} + huge : d[half];
      d[half] = d[half] < -huge ? Eight{} - huge : d[half];
      d[half] = scaled::absolute<double>(d[half]) < double(tiny) ? Eight{} : d[half];
    }
    write(rounded(d[0], d[1]), grad_z + j, bypass);
  }
}

}  // namespace
