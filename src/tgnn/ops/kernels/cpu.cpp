// The neighborhood product on the CPU: one thread per output row, no atomics, no E x R message matrix.
//
// The factor of edge e = (u, v) is
//
//     f = w_e * (z_u + y_e) + (1 - w_e)        with w_e = 1 and y_e = 0 by default,
//
// and row v of the result is act(P), P = prod f over the edges into v. The result is exact because (docs/numerics.md):
//  * P is stored as mantissa * 2^exponent in double. It neither overflows nor underflows, and the mantissa is zero only
//    if a factor is zero.
//  * The forward pass saves S = act'(P) * P, so that d loss / d f = g * S / f. Without edge terms the backward pass
//    is one sum of q = g * S over the transposed graph, then one division by z.
//  * With tanh, |S| is below 1, so a float is saved times 2^96 to avoid underflow. A row whose S still does not fit (a
//    zero or tiny factor, or an overflowing product without tanh) is "wide": the backward pass computes its product
//    again, with an exponent.
//  * Zero factors: the gradient of the only zero of a row is the product of the other factors. With two or more zeros
//    all gradients of the row are 0. See WideRows in backward.h.

#include "backward.h"
#include "forward.h"
#include "group.h"
#include "sample.h"
#include "sum.h"

namespace {

// Returns 0 on success and 1 if out of memory. The caller is not C++, so no exception may leave this library.
template <class F>
int guarded(const F& f) {
  try {
    f();
    return 0;
  } catch (const std::bad_alloc&) {
    return 1;
  } catch (const std::length_error&) {  // a size beyond any memory
    return 1;
  }
}

}  // namespace

#define TGNN_PRODUCT(T, NAME)                                                                                       \
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

#define TGNN_SUM(T, NAME)                                                                                           \
  extern "C" int tgnn_sum_##NAME(const T* x, const T* weight, Index rank, Index groups, const Index* ptr,           \
                                 const Node* other, const Index* edge, T* out) {                                    \
    return guarded([&] { weighted_sum<T>(x, weight, rank, {ptr, other, edge, groups}, out); });                     \
  }

#define TGNN_SAMPLE(I, NAME)                                                                                        \
  extern "C" int tgnn_sample_##NAME(const Index* ptr, const I* source, const Index* edge, Index nodes, Index edges, \
                                    const Index* seeds, Index count, const Index* fan_out, Index hops,              \
                                    uint64_t key, int replace, int fill_up, int by_node, Index* report) {           \
    return guarded([&] {                                                                                            \
      sample<I>({ptr, source, edge, nodes, edges}, seeds, count, fan_out, hops,                                     \
                {key, replace != 0, fill_up != 0, by_node != 0}, report);                                           \
    });                                                                                                             \
  }

// Compiled as two parts in parallel: TGNN_PART is 0 or 1.
#if TGNN_PART == 0
TGNN_PRODUCT(float, f32)
#else
TGNN_PRODUCT(double, f64)
TGNN_SUM(float, f32)
TGNN_SUM(double, f64)

extern "C" int tgnn_group_i64(const int64_t* key, const int64_t* other, Index edges, Index groups, Index* ptr,
                              Node* sorted, Index* edge) {
  return guarded([&] { group<int64_t>(key, other, edges, groups, ptr, sorted, edge); });
}

extern "C" int tgnn_group_i32(const int32_t* key, const int32_t* other, Index edges, Index groups, Index* ptr,
                              Node* sorted, Index* edge) {
  return guarded([&] { group<int32_t>(key, other, edges, groups, ptr, sorted, edge); });
}

TGNN_SAMPLE(int64_t, i64)
TGNN_SAMPLE(int32_t, i32)

extern "C" int tgnn_sample_take(Index* node, Index* row, Index* col, Index* edge) {
  return guarded([&] { take_sample(node, row, col, edge); });
}
#endif
