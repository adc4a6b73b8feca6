// Group edges by one endpoint (CSR or CSC).
#pragma once

#include "rows.h"

namespace {

// Stable counting sort.
template <class I>
void group(const I* key, const I* other, Index edges, Index groups, Index* ptr, Node* sorted, Index* edge) {
  std::fill(ptr, ptr + groups + 1, 0);
  for (Index e = 0; e < edges; ++e) ++ptr[key[e] + 1];
  for (Index i = 0; i < groups; ++i) ptr[i + 1] += ptr[i];
  std::unique_ptr<Index[]> next(new Index[groups]);
  std::copy(ptr, ptr + groups, next.get());
  for (Index e = 0; e < edges; ++e) {
    const Index place = next[key[e]]++;
    sorted[place] = other ? Node(other[e]) : Node(e);
    if (edge) edge[place] = e;
  }
}

}  // namespace
