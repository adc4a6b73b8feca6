// The neighborhood product on the CPU: one owner per output row, no atomics, no E x R message matrix.
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

#include "backward.h"
#include "forward.h"
#include "group.h"
#include "sample.h"
#include "sum.h"

namespace {

// 0: done; 1: out of memory. An exception must not reach the caller, which is not C++.
template <class F>
int guarded(const F& f) {
  try {
    f();
    return 0;
  } catch (const std::bad_alloc&) {
    return 1;
  } catch (const std::length_error&) {  // more than any memory holds
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

// Compiled in two parts at once: TGNN_PART is 0 or 1.
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
