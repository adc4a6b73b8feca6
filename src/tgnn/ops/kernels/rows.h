// Compressed edges, and the loops over their rows that all kernels use.
#pragma once

#include <ATen/Parallel.h>
#ifdef TGNN_STD_THREADS
#include <thread>
#endif
#ifdef __linux__
#include <sys/mman.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

// The iterations of loops over columns are independent and the arrays do not overlap, so they can be vectorized.
#define SIMD _Pragma("omp simd")

namespace {

using Index = int64_t;
using Node = int32_t;

#ifdef TGNN_STD_THREADS  // for the thread sanitizer, which does not know the barriers of OpenMP
inline int num_threads() { return 4; }
template <class F>
void parallel_for(Index begin, Index end, Index grain, const F& f) {
  const Index count = std::max<Index>(1, std::min<Index>(num_threads(), (end - begin + grain - 1) / grain));
  const Index size = (end - begin + count - 1) / count;
  std::vector<std::thread> threads;
  for (Index first = begin; first < end; first += size)
    threads.emplace_back([&f, first, last = std::min(first + size, end)] { f(first, last); });
  for (std::thread& thread : threads) thread.join();
}
#else
using at::parallel_for;
inline int num_threads() { return at::get_num_threads(); }
#endif

constexpr int kBlock = 128;          // columns per block: their accumulators fit into the L1 cache
constexpr int kNarrowBlock = 32;
constexpr Index kAheadBytes = 16384;  // bytes that are prefetched ahead

// Edges grouped by one endpoint: group i has the positions ptr[i] .. ptr[i + 1]. `other` is the node at the other
// endpoint, `edge` the position of the edge in the caller's order (null: the same). In Python: index and perm.
struct CompressedEdges {
  const Index* ptr;
  const Node* other;
  const Index* edge;
  Index groups;

  Index edge_at(Index k) const { return edge ? edge[k] : k; }
};

// Requests huge pages before the first access to memory: one page fault instead of 512.
void expect_to_fill(void* memory, Index bytes) {
#ifdef __linux__
  constexpr uintptr_t page = uintptr_t(1) << 21;
  const uintptr_t begin = (uintptr_t(memory) + page - 1) / page * page;
  const uintptr_t end = (uintptr_t(memory) + uintptr_t(bytes)) / page * page;
  if (memory && begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // only a hint
#endif
}

// Memory for temporary results, aligned to cache lines. One buffer of at most 32 MiB is kept for the next call, because
// the system takes longer to provide new memory than the kernels take to fill it.
template <class T>
class Scratch {
 public:
  explicit Scratch(Index size) : buffer_(spare().exchange(nullptr)) {
    const Index bytes = size * Index(sizeof(T));
    if (buffer_ && buffer_->bytes >= bytes) return;
    buffer_.reset();
    buffer_.reset(new Buffer(bytes));
    expect_to_fill(get(), bytes);
  }
  Scratch(const Scratch&) = delete;
  ~Scratch() {
    if (buffer_->bytes <= Index(32) << 20) buffer_.reset(spare().exchange(buffer_.release()));
  }
  T* get() const { return reinterpret_cast<T*>((uintptr_t(buffer_->memory.get()) + 63) / 64 * 64); }

 private:
  struct Buffer {
    explicit Buffer(Index bytes) : bytes(bytes), memory(new char[bytes + 64]) {}
    const Index bytes;
    const std::unique_ptr<char[]> memory;
  };
  static std::atomic<Buffer*>& spare() {
    static std::atomic<Buffer*> buffer{nullptr};
    return buffer;
  }
  std::unique_ptr<Buffer> buffer_;
};

// Calls f(first, last) for ranges of groups, split so that each thread gets about the same number of edges.
template <class F>
void for_ranges(const CompressedEdges& by, Index rank, const F& f) {
  const Index work = by.ptr[by.groups] + by.groups;
  const Index threads = work * rank < 32768 ? 1 : num_threads();
  const auto first_of = [&](Index thread) {
    Index low = 0, high = by.groups;
    while (low < high) {
      const Index middle = (low + high) / 2;
      if (by.ptr[middle] + middle < work / threads * thread)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  };
  parallel_for(0, threads, 1, [&](Index begin, Index end) {
    const Index last = end == threads ? by.groups : first_of(end);
    f(first_of(begin), last);
  });
}

// Calls f(first column, integral_constant W, width) for blocks of the columns begin .. end. W is the width if it is
// known at compile time: 128, or for float also 32 and 8 (each width takes a second to compile). W = 0 marks the rest.
// This is the outer loop, because one block of columns of all rows often fits into the L2 cache when whole rows do not.
template <int W, class F>
inline Index whole_blocks(Index column, Index end, const F& f) {
  for (; column + W <= end; column += W) f(column, std::integral_constant<int, W>(), W);
  return column;
}

template <class T, class F>
void for_each_block(Index begin, Index end, const F& f) {
  Index column = whole_blocks<kBlock>(begin, end, f);
  if constexpr (sizeof(T) == sizeof(float)) {
    column = whole_blocks<kNarrowBlock>(column, end, f);
    column = whole_blocks<8>(column, end, f);
  }
  if (column < end) f(column, std::integral_constant<int, 0>(), int(end - column));
}

// Returns whether a table of floats is better stored in contiguous blocks of 32 columns, one after the other. This is so
// if they fit into the L3 cache of most machines, and blocks of 128 columns do not.
template <class T>
bool prefers_narrow_blocks(Index rows) {
  constexpr Index size = sizeof(float), megabyte = Index(1) << 20;
  return sizeof(T) == sizeof(float) && rows * kBlock * size > 8 * megabyte &&
         rows * kNarrowBlock * size <= 32 * megabyte;
}

constexpr Index kRowsAhead = 8;  // distance of the prefetch of rows that are read in their order

// Distance of the prefetch of rows at the other endpoints of edges.
template <class T>
constexpr Index rows_ahead(int width) {
  return std::max<Index>(8, std::min<Index>(64, kAheadBytes / (width * Index(sizeof(T)))));
}

template <int W, class T>
__attribute__((always_inline)) inline void prefetch_row(const T* row) {
  for (int j = 0; j < (W ? W : 8); j += 64 / sizeof(T)) __builtin_prefetch(row + j);
}
// Calls f(begin, end) for steps of columns: narrow blocks, or all columns.
template <class F>
void for_each_step(Index rank, bool narrow, const F& f) {
  const Index step = narrow ? kNarrowBlock : rank;
  for (Index begin = 0; begin < rank; begin += step) f(begin, std::min(begin + step, rank));
}

// Calls f(rows, k) with the rows of `table` at the other endpoints of the six edges from position k on. If fewer than
// six edges remain, the missing rows are `filler`.
template <class T>
using SixRows = std::array<const T*, 6>;

template <int W, class T, class F>
inline void for_each_six_rows(const CompressedEdges& by, Index group, const T* table, Index rank, const T* filler,
                              const F& f) {
  constexpr int line = 64 / sizeof(T), width = W ? W : 8;
  constexpr Index distance = rows_ahead<T>(width);
  const Index end = by.ptr[group + 1], last = by.ptr[by.groups] - 1;
  const auto row = [&](Index k) { return table + Index(by.other[k]) * rank; };
  for (Index k = by.ptr[group]; k < end; k += 6) {
    SixRows<T> rows;
    for (int i = 0; i < 6; ++i) rows[i] = k + i < end ? row(k + i) : filler;
    for (int i = 0; i < 6; ++i) {  // constant bounds, because GCC drops prefetches in loops that it cannot unroll
      const T* const ahead = row(std::min(k + distance + i, last));
      for (int j = 0; j < width; j += line) __builtin_prefetch(ahead + j);
    }
    f(rows, k);
  }
}

template <class T>
struct Filler {
  T ones[kBlock], zeros[kBlock] = {};
  Filler() { std::fill(ones, ones + kBlock, T(1)); }
  static const Filler& rows() {
    static const Filler filler;
    return filler;
  }
};

}  // namespace
