// The neighborhood product on the CPU: one thread per output row, no atomics, no E x R message matrix.
//
// The factor of edge (u, v) is f = z_u in a plain product. weighted.h and edge_factors.h describe factors of edges.
// Row v of the result is act(P), P = prod f over the edges into v. The result is exact because (docs/numerics.md):
//  * P is stored as mantissa * 2^exponent in double. It neither overflows nor underflows, and the mantissa is zero only
//    if a factor is zero.
//  * The forward pass saves S = act'(P) * P, so that d loss / d f = g * S / f. The backward pass of a
//    plain product is one sum of q = g * S over the transposed graph, then one division by z.
//  * With tanh, |S| is below 1, so a float is saved times 2^96 to avoid underflow. A row whose S still does not fit (a
//    zero or tiny factor, or an overflowing product without tanh) is "wide": the backward pass computes its product
//    again, with an exponent.
//  * Zero factors: the gradient of the only zero of a row is the product of the other factors. With two or more zeros
//    all gradients of the row are 0. See WideRows in backward.h.

#include "backward.h"
#include "forward.h"
#include "gated_sum.h"
#include "group.h"
#include "sample.h"
#include "selection.h"
#include "sum.h"
#include "weighted.h"

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
  extern "C" int tgnn_forward_##NAME(const T* z, Index rank, int tanh, double exponent, Index n_dst, const Index* ptr,               \
                                     const Node* other, const Index* edge, Index n_src, T* out, T* state,           \
                                     T* least) {                                                                    \
    return guarded([&] {                                                                                            \
      forward<T>({z, nullptr, rank, tanh != 0, exponent}, {ptr, other, edge, n_dst}, n_src, out, state, least);               \
    });                                                                                                             \
  }                                                                                                                 \
  extern "C" int tgnn_backward_##NAME(const T* z, Index rank, int tanh, double exponent, Index n_dst, const Index* ptr,              \
                                      const Node* other, const Index* edge, Index n_src, const Index* ptr_src,      \
                                      const Node* other_src, const Index* edge_src, const T* grad, const T* state,  \
                                      const T* least, T* grad_z) {                                                  \
    return guarded([&] {                                                                                            \
      backward<T>({z, nullptr, rank, tanh != 0, exponent}, {ptr, other, edge, n_dst},                                         \
                  {ptr_src, other_src, edge_src, n_src}, grad, state, least, grad_z);                               \
    });                                                                                                             \
  }

// Operators whose operands belong to edges. The edges into each destination and out of each source are passed as
// n, ptr, other, edge.
#define TGNN_EDGES Index n_dst, const Index *ptr, const Node *other, const Index *edge
#define TGNN_OUT_EDGES Index n_src, const Index *ptr_src, const Node *other_src, const Index *edge_src
#define TGNN_EDGE_OPERATORS(T, NAME)                                                                                \
  extern "C" int tgnn_edge_product_##NAME(const EdgeProduct<T>* op, TGNN_EDGES, T* out) {                           \
    return guarded([&] { product_of_edges<T>(*op, {ptr, other, edge, n_dst}, out); });                                  \
  }                                                                                                                 \
  extern "C" int tgnn_edge_product_backward_##NAME(const EdgeProduct<T>* op, TGNN_EDGES, TGNN_OUT_EDGES,            \
                                                   const T* grad, const EdgeGradients<T>* out) {                    \
    return guarded([&] {                                                                                            \
      product_of_edges_backward<T>(*op, {ptr, other, edge, n_dst}, {ptr_src, other_src, edge_src, n_src}, grad, *out);  \
    });                                                                                                             \
  }                                                                                                                 \
  extern "C" int tgnn_exclusive_product_##NAME(const EdgeProduct<T>* op, TGNN_EDGES, T* out) {                      \
    return guarded([&] { product_of_other_edges<T>(*op, {ptr, other, edge, n_dst}, out); });                             \
  }                                                                                                                 \
  extern "C" int tgnn_exclusive_product_backward_##NAME(const EdgeProduct<T>* op, TGNN_EDGES, TGNN_OUT_EDGES,       \
                                                        const T* grad, const EdgeGradients<T>* out) {               \
    return guarded([&] {                                                                                            \
      product_of_other_edges_backward<T>(*op, {ptr, other, edge, n_dst}, {ptr_src, other_src, edge_src, n_src}, grad,    \
                                    *out);                                                                          \
    });                                                                                                             \
  }                                                                                                                 \
  extern "C" int tgnn_exclusive_sum_##NAME(const T* x, Index rank, TGNN_EDGES, T* out) {                            \
    return guarded([&] { exclusive_sum<T>(x, rank, {ptr, other, edge, n_dst}, out); });                             \
  }                                                                                                                 \
  extern "C" int tgnn_gated_sum_##NAME(const GatedSum<T>* op, TGNN_EDGES, T* out, T* total) {                       \
    return guarded([&] { gated_sum<T>(*op, {ptr, other, edge, n_dst}, out, total); });                              \
  }                                                                                                                 \
  extern "C" int tgnn_gated_sum_backward_##NAME(const GatedSum<T>* op, TGNN_EDGES, TGNN_OUT_EDGES, const T* grad,   \
                                                const T* result, const T* total, const GatedGradients<T>* out) {    \
    return guarded([&] {                                                                                            \
      gated_sum_backward<T>(*op, {ptr, other, edge, n_dst}, {ptr_src, other_src, edge_src, n_src}, grad, result,    \
                            total, *out);                                                                           \
    });                                                                                                             \
  }                                                                                                                 \
  extern "C" int tgnn_edge_rows_##NAME(const EdgeTerms<T>* terms, TGNN_EDGES, T* out) {                             \
    return guarded([&] { edge_rows<T>(*terms, {ptr, other, edge, n_dst}, out); });                                  \
  }                                                                                                                 \
  extern "C" int tgnn_edge_rows_backward_##NAME(const EdgeTerms<T>* terms, TGNN_EDGES, TGNN_OUT_EDGES,              \
                                                const T* grad, T* src, T* dst, T* of_edge) {                        \
    return guarded([&] {                                                                                            \
      edge_rows_backward<T>(*terms, {ptr, other, edge, n_dst}, {ptr_src, other_src, edge_src, n_src}, grad, src,    \
                            dst, of_edge);                                                                          \
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

// Compiled as four parts in parallel: TGNN_PART is 0, 1, 2 or 3.
#if TGNN_PART == 0
TGNN_PRODUCT(float, f32)

extern "C" int tgnn_weighted_forward_f32(const float* z, const float* weight, Index rank, int tanh, double exponent, TGNN_EDGES,
                                         float* out, float* state, float* least) {
  return guarded([&] {
    weighted_forward({z, weight, rank, tanh != 0, exponent}, {ptr, other, edge, n_dst}, out, state, least);
  });
}

extern "C" int tgnn_weighted_backward_f32(const float* z, const float* weight, Index rank, int tanh, double exponent, TGNN_EDGES,
                                          TGNN_OUT_EDGES, const float* grad, const float* state, const float* least,
                                          float* grad_z, float* grad_weight) {
  return guarded([&] {
    weighted_backward({z, weight, rank, tanh != 0, exponent}, {ptr, other, edge, n_dst}, {ptr_src, other_src, edge_src, n_src},
                      grad, state, least, grad_z, grad_weight);
  });
}
#elif TGNN_PART == 1
TGNN_EDGE_OPERATORS(float, f32)
#elif TGNN_PART == 2
TGNN_EDGE_OPERATORS(double, f64)
#else
TGNN_PRODUCT(double, f64)
TGNN_SUM(float, f32)
TGNN_SUM(double, f64)

extern "C" int tgnn_group_i64(const int64_t* key, const int64_t* other, Index edges, Index groups, Index* ptr,
                              Node* sorted, Index* edge) {
  return guarded([&] { group<int64_t>(key, other, edges, groups, ptr, sorted, edge); });
}

extern "C" int tgnn_group_both_i64(const int64_t* edge_index, Index edges, Index n_src, Index n_dst, Index* ptr_dst,
                                   Node* other_dst, Index* edge_dst, Index* ptr_src, Node* other_src, Index* edge_src,
                                   Index* found) {
  return guarded([&] {
    group_both<int64_t>(edge_index, edges, n_src, n_dst, ptr_dst, other_dst, edge_dst, ptr_src, other_src, edge_src,
                        found);
  });
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
