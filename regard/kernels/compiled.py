"""The kernels for few rows, in Python that Numba compiles; `small_batches.py` loads and calls them.

    y_ro = Σ_i x_ri w_oi + bias_o                      x, w in 32 bits
    y_ro = s_r s_o Σ_i x_ri w_oi + bias_o              x in 16 or 8 bits with scales s_r, w in 8

A decoding step multiplies every matrix with a few rows, so its time is that of reading the matrices
once. Threads take some rows of the matrix at a time from a counter, and read four of them at
once that are far apart in memory, which is faster than one after the other. Four rows of x are
multiplied while the weights are in registers.

The order of a sum is written out, with vectors (`simd.py`), not left to the compiler:
every row is summed in the same order, whatever else is in the batch, so its result is the same to
the last bit. Sums of integers are exact in any order. With x in 8 bits, a result is also the same
as that of PyTorch's product, which `int8.py` takes for many rows.

A kernel has one argument, a job: addresses and sizes as integers, at the indices named below. It
allocates no memory and raises no errors.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding
from numba import njit, types

from regard.kernels.simd import (
    Address,
    array_at,
    divide,
    fma,
    load,
    madd,
    max_abs,
    max_element,
    power_of_two,
    repeat,
    store,
    sum_elements,
    take,
    width,
    zeros,
)

TAKEN, THREADS, SPACE, X, Y, BIAS, ROWS = range(7)
"""The indices in a job that all kernels have. TAKEN, THREADS: how many outputs are done or being
done, and how many threads have begun. SPACE: memory that the threads share evenly."""
W, SCALE, INTO, OUT, OUTPUTS, LEVELS = range(7, 13)
"""Those of a product. OUTPUTS: how many outputs a thread takes at a time. LEVELS: for x in 8 bits,
the steps from 0 to the largest absolute value of a row; else 0."""
K, V, COUNTS, FACTOR, HEADS, GROUP, QUERIES, KEYS, DIM, CAUSAL, REACH = range(7, 18)
Q_ROW, Q_HEAD, Q_STRIDE, K_ROW, K_HEAD, K_STRIDE, V_ROW, V_HEAD, V_STRIDE = range(18, 27)
BIAS_ROW, BIAS_HEAD, BIAS_QUERY, BIAS_STRIDE = range(27, 31)
"""Those of attention. COUNTS: number of keys of the first query of each row; the next has CAUSAL
more. REACH: at most so many keys up to the last. GROUP: how many heads share keys and values. The
others are how far apart rows, heads and positions are in memory."""
BLOCK = 1024
"""Inputs that are summed at a time: so much of four rows of x stays in the nearest cache, and sums
of integers, in 32 bits until four of 64 are left, stay below 2³¹."""
ROUNDING_OFFSET = 1.5 * 2**23
"""Added to a small float and subtracted again, it leaves the nearest whole number, of two the even.
"""
ZERO_BYTE = 128
"""The byte that stands for 0 in PyTorch's product."""
STEPS = 32767
"""Steps from 0 to the largest absolute value of a row of x in 16 bits."""


@njit
def dot_tail(a: Any, at: int, b: Any, b_at: int, count: int) -> Any:
    """Σ_i a[at + i] b[b_at + i] over the last of `count` numbers, too few for two vectors."""
    result = sum_elements(zeros(a), zeros(a))
    for i in range(count // (2 * width(a)) * (2 * width(a)), count):
        result += a[at + i] * b[b_at + i]
    return result


@njit
def add_to_four_sums(sums: Any, a: Any, at: int, stride: int, v: Any) -> Any:
    """Adds the products of a vector with four rows of an array to four vectors of sums."""
    p, q, r, s = sums
    p, q = madd(load(a, at), v, p), madd(load(a, at + stride), v, q)
    return p, q, madd(load(a, at + 2 * stride), v, r), madd(load(a, at + 3 * stride), v, s)


@njit
def dots(a: Any, at: int, stride: int, b: Any, b_at: int, count: int) -> Any:
    """Σ_i a[at + k · stride + i] b[b_at + i] over `count` numbers, for k = 0 … 3."""
    start, step = (zeros(a), zeros(a), zeros(a), zeros(a)), width(a)
    even, odd = start, start
    for i in range(0, count // (2 * step) * (2 * step), 2 * step):
        even = add_to_four_sums(even, a, at + i, stride, load(b, b_at + i))
        odd = add_to_four_sums(odd, a, at + i + step, stride, load(b, b_at + i + step))
    p, q = sum_elements(even[0], odd[0]), sum_elements(even[1], odd[1])
    r, s = sum_elements(even[2], odd[2]), sum_elements(even[3], odd[3])
    if count % (2 * step):
        p += dot_tail(a, at, b, b_at, count)
        q += dot_tail(a, at + stride, b, b_at, count)
        r += dot_tail(a, at + 2 * stride, b, b_at, count)
        s += dot_tail(a, at + 3 * stride, b, b_at, count)
    return p, q, r, s


@njit
def dot(a: Any, at: int, b: Any, b_at: int, count: int) -> Any:
    """Σ_i a[at + i] b[b_at + i] over `count` numbers, in the order of `dots`."""
    even, odd, step = zeros(a), zeros(a), width(a)
    for i in range(0, count // (2 * step) * (2 * step), 2 * step):
        even = madd(load(a, at + i), load(b, b_at + i), even)
        odd = madd(load(a, at + i + step), load(b, b_at + i + step), odd)
    result = sum_elements(even, odd)
    return result + dot_tail(a, at, b, b_at, count) if count % (2 * step) else result


@njit
def tile(x: Any, at: int, stride: int, w: Any, w_at: int, apart: int, count: int) -> Any:
    """`dots` of four rows of x with two outputs that are `apart` numbers apart: four sums each."""
    start, step = (zeros(x), zeros(x), zeros(x), zeros(x)), width(x)
    even, odd, even_2, odd_2 = start, start, start, start
    for i in range(0, count // (2 * step) * (2 * step), 2 * step):
        here, there = w_at + i, w_at + i + apart
        even = add_to_four_sums(even, x, at + i, stride, load(w, here))
        even_2 = add_to_four_sums(even_2, x, at + i, stride, load(w, there))
        odd = add_to_four_sums(odd, x, at + i + step, stride, load(w, here + step))
        odd_2 = add_to_four_sums(odd_2, x, at + i + step, stride, load(w, there + step))
    p, q = sum_elements(even[0], odd[0]), sum_elements(even[1], odd[1])
    r, s = sum_elements(even[2], odd[2]), sum_elements(even[3], odd[3])
    t, u = sum_elements(even_2[0], odd_2[0]), sum_elements(even_2[1], odd_2[1])
    v, z = sum_elements(even_2[2], odd_2[2]), sum_elements(even_2[3], odd_2[3])
    return (p, q, r, s), (t, u, v, z)


@njit
def add_block(target: Any, sizes: Any, row: int, output: int, start: int, block_sum: Any) -> None:
    """Adds the sum of the block that begins at input `start` to y[row, output].

    After the last block it also multiplies by the scales and adds the bias. `target` is (y, scales
    of the rows, address of the outputs' scales, address of the bias, levels, address of y), `sizes`
    is (rows, inputs, outputs).
    """
    (y, scales, scale, bias, levels, _), (_, into, out) = target, sizes
    index = row * out + output
    if levels:
        add_block_8_bits(target, index, (row, output), (start, start + BLOCK >= into), block_sum)
        return
    value = types.float32(block_sum)
    if start:
        value += y[index]
    if start + BLOCK >= into:
        if scale:
            value *= scales[row] * array_at(scale, types.float32(0))[output]
        if bias:
            value += array_at(bias, types.float32(0))[output]
    y[index] = value


@njit
def add_block_8_bits(target: Any, index: int, cell: Any, block: Any, block_sum: Any) -> None:
    """`add_block` for x in 8 bits: sums are integers; the last one is finished as in PyTorch."""
    (y, scales, scale, bias, levels, address), (row, output), (start, last) = target, cell, block
    sums = array_at(address, types.int32(0))
    total_so_far = types.int32(block_sum)
    if start:
        total_so_far += sums[index]
    if not last:
        sums[index] = total_so_far
        return
    step = types.float32(1) / types.float32(levels)
    value = types.float32(total_so_far) * (step * array_at(scale, types.float32(0))[output])
    if bias:
        y[index] = fma(value, scales[row], array_at(bias, types.float32(0))[output])
    else:
        y[index] = value * scales[row]


@njit
def compute_outputs(
    x: Any, w: Any, target: Any, sizes: Any, output: int, apart: int, row: int
) -> None:
    """Four outputs that are `apart` apart, or one if that is 0, for the rows from `row` on."""
    rows, into, _ = sizes
    for r in range(row, rows):
        for start in range(0, into, BLOCK):
            count, at, w_at = min(BLOCK, into - start), r * into + start, output * into + start
            if apart:
                sums = dots(w, w_at, apart * into, x, at, count)
                for k in range(4):
                    add_block(target, sizes, r, output + k * apart, start, sums[k])
            else:
                add_block(target, sizes, r, output, start, dot(w, w_at, x, at, count))


@njit
def compute_two_outputs(x: Any, w: Any, target: Any, sizes: Any, output: int, apart: int) -> None:
    """Two outputs that are `apart` apart, four rows at a time as far as possible."""
    rows, into, _ = sizes
    fours = rows // 4 * 4
    for start in range(0, into, BLOCK):
        count, w_at = min(BLOCK, into - start), output * into + start
        for r in range(0, fours, 4):
            at = r * into + start
            first, second = tile(x, at, into, w, w_at, apart * into, count)
            for k in range(4):
                a, b = first[k], second[k]
                if count % (2 * width(x)):
                    a += dot_tail(w, w_at, x, at + k * into, count)
                    b += dot_tail(w, w_at + apart * into, x, at + k * into, count)
                add_block(target, sizes, r + k, output, start, a)
                add_block(target, sizes, r + k, output + apart, start, b)
    compute_outputs(x, w, target, sizes, output, 0, fours)
    compute_outputs(x, w, target, sizes, output + apart, 0, fours)


@njit
def compute_product(job: Any, x: Any, scales: Any, w: Any) -> None:
    """Takes outputs and computes them, until none are left; several threads may share a job."""
    y = array_at(job[Y], types.float32(0))
    target = y, scales, job[SCALE], job[BIAS], job[LEVELS], job[Y]
    sizes = job[ROWS], job[INTO], job[OUT]
    rows, _, out = sizes
    while True:
        first = take(job, TAKEN, job[OUTPUTS])
        if first >= out:
            return
        count = min(job[OUTPUTS], out - first)
        outputs_at_once = 4 if rows < 4 else 2
        apart = count // outputs_at_once
        for output in range(first, first + apart):
            if rows < 4:
                compute_outputs(x, w, target, sizes, output, apart, 0)
            else:
                compute_two_outputs(x, w, target, sizes, output, apart)
        for output in range(first + outputs_at_once * apart, first + count):
            compute_outputs(x, w, target, sizes, output, 0, 0)


@njit
def largest_of(x: Any, first: int, vectors_end: int, last: int) -> Any:
    """The largest absolute value of x[first:last], and 0, or NaN if not all are finite.

    Up to `vectors_end` there are vectors of 16.
    """
    maxima, zeros_or_nan, nothing = zeros(x), zeros(x), repeat(types.float32(0))
    for i in range(first, vectors_end, 16):
        maxima, zeros_or_nan = max_abs(maxima, load(x, i)), madd(load(x, i), nothing, zeros_or_nan)
    top, check = max_element(maxima), sum_elements(zeros_or_nan, nothing)
    for i in range(vectors_end, last):
        top, check = max(top, abs(x[i])), check + x[i] * types.float32(0)
    return top, check


@njit
def quantise_to_16_bits(x: Any, rows: int, into: int, shorts: Any, scales: Any) -> None:
    """x ≈ scales · shorts: each row in 16 bits with a scale, which is NaN if not all are finite."""
    for row in range(rows):
        first, last = row * into, (row + 1) * into
        vectors_end = first + into // 16 * 16
        top, check = largest_of(x, first, vectors_end, last)
        factor = types.float32(STEPS) / top if top > 0 else types.float32(0)
        for i in range(first, vectors_end, 16):
            store(shorts, i, load(x, i), repeat(factor))
        for i in range(vectors_end, last):
            half = types.float32(0.5 if x[i] > 0 else -0.5)
            shorts[i] = types.int16(types.int32(x[i] * factor + half))
        scales[row] = top / types.float32(STEPS) + check


@njit
def quantise_to_levels(x: Any, rows: int, into: int, levels: int, shorts: Any, scales: Any) -> None:
    """Quantises x: each row to whole numbers from -levels to levels, x ≈ scales / levels · shorts.

    The scale of a row is its largest absolute value, NaN if not all are finite. Numbers are rounded
    as PyTorch does: they get its offset, and `ROUNDING_OFFSET` is added and subtracted again.
    """
    factor = types.float32(1) / (types.float32(1) / types.float32(levels))
    offset = types.float32(ZERO_BYTE)
    for row in range(rows):
        first, last = row * into, (row + 1) * into
        vectors_end = first + into // 16 * 16
        top, check = largest_of(x, first, vectors_end, last)
        scales[row] = top + check
        divisor = top if top > 0 else types.float32(1)
        unit, add = types.float32(1), types.float32(ROUNDING_OFFSET)
        undo = types.float32(-ROUNDING_OFFSET - ZERO_BYTE)
        for i in range(first, vectors_end, 16):
            shifted = madd(divide(load(x, i), repeat(divisor)), repeat(factor), repeat(offset))
            rounded = madd(madd(shifted, repeat(unit), repeat(add)), repeat(unit), repeat(undo))
            store(shorts, i, rounded, repeat(unit))
        for i in range(vectors_end, last):
            number = fma(x[i] / divisor, factor, offset) + add + undo
            shorts[i] = types.int16(types.int32(number))


@njit
def exponential(x: Any) -> Any:
    """e^x of a float of at most 0, to 2e-7 of it: 2ⁿ e^r with x = n ln 2 + r, |r| at most ln 2 / 2.

    e^r is a polynomial (Cephes' expf). Below -87 it is 0.
    """
    n = types.int32(x * types.float32(1.44269504) - types.float32(0.5))
    n = max(n, types.int32(-126))
    r = x - types.float32(n) * types.float32(0.693359375)
    r -= types.float32(n) * types.float32(-2.12194440e-4)
    p = types.float32(1.9875691500e-4)
    p = p * r + types.float32(1.3981999507e-3)
    p = p * r + types.float32(8.3334519073e-3)
    p = p * r + types.float32(4.1665795894e-2)
    p = p * r + types.float32(1.6666665459e-1)
    p = p * r + types.float32(5.0000001201e-1)
    power = (p * r * r + r + types.float32(1)) * power_of_two(n)
    return power if x > types.float32(-87) else types.float32(0)


@njit
def score_keys(job: Any, q: Any, at: int, keys: int, bias: int, count: int, scores: Any) -> None:
    """scores[j] = q·k_j · scale + bias_j for `count` keys, the first of them at `keys`."""
    k, dim, stride = array_at(job[K], types.float32(0)), job[DIM], job[K_STRIDE]
    scale, fours = array_at(job[FACTOR], types.float32(0))[0], count // 4 * 4
    for j in range(0, fours, 4):
        a, b, c, d = dots(k, keys + j * stride, stride, q, at, dim)
        scores[j], scores[j + 1], scores[j + 2], scores[j + 3] = (
            a * scale, b * scale, c * scale, d * scale
        )  # fmt: skip
    for j in range(fours, count):
        scores[j] = dot(k, keys + j * stride, q, at, dim) * scale
    if job[BIAS]:
        biases = array_at(job[BIAS], types.float32(0))
        for j in range(count):
            scores[j] += biases[bias + j * job[BIAS_STRIDE]]


@njit
def softmax(scores: Any, count: int) -> Any:
    """Replaces scores by e^(score - largest), and returns 1 / their sum."""
    top, sums = scores[0], types.float32(0)
    for j in range(1, count):
        top = max(top, scores[j])
    for j in range(count):
        scores[j] = exponential(scores[j] - top)
    for j in range(count):
        sums += scores[j]
    return types.float32(1) / sums


@njit
def weighted_sum(job: Any, scores: Any, factor: Any, values: int, count: int, y_at: int) -> None:
    """y = factor · Σ_j scores[j] v_j, from the values at `values`, written at `y_at`."""
    v, y = array_at(job[V], types.float32(0)), array_at(job[Y], types.float32(0))
    dim, stride = job[DIM], job[V_STRIDE]
    for d in range(0, dim // 32 * 32, 32):
        even, odd = zeros(v), zeros(v)
        for j in range(count):
            share, at = repeat(scores[j]), values + j * stride + d
            even, odd = madd(load(v, at), share, even), madd(load(v, at + 16), share, odd)
        store(y, y_at + d, even, repeat(factor))
        store(y, y_at + d + 16, odd, repeat(factor))
    for d in range(dim // 32 * 32, dim):
        result = types.float32(0)
        for j in range(count):
            result += scores[j] * v[values + j * stride + d]
        y[y_at + d] = result * factor


def attend(job: Any) -> None:
    """softmax(q kᵀ · scale + bias) v for each query, over its own keys only, head by head."""
    q, heads, queries = array_at(job[X], types.float32(0)), job[HEADS], job[QUERIES]
    counts = array_at(job[COUNTS], types.int64(0))
    space = job[SPACE] + take(job, THREADS, 1) * 4 * job[KEYS]
    scores = array_at(space, types.float32(0))
    while True:
        task = take(job, TAKEN, 1)
        if task >= job[ROWS] * heads:
            return
        row, head = task // heads, task % heads
        group = head // job[GROUP]
        for i in range(queries):
            last = min(counts[row] + i * job[CAUSAL], job[KEYS])
            first = max(0, last - job[REACH])
            y_at = (row * queries + i) * heads * job[DIM] + head * job[DIM]
            at = row * job[Q_ROW] + head * job[Q_HEAD] + i * job[Q_STRIDE]
            keys = row * job[K_ROW] + group * job[K_HEAD] + first * job[K_STRIDE]
            values = row * job[V_ROW] + group * job[V_HEAD] + first * job[V_STRIDE]
            bias = row * job[BIAS_ROW] + head * job[BIAS_HEAD] + i * job[BIAS_QUERY]
            bias += first * job[BIAS_STRIDE]
            factor = types.float32(0)
            if last > first:
                score_keys(job, q, at, keys, bias, last - first, scores)
                factor = softmax(scores, last - first)
            weighted_sum(job, scores, factor, values, last - first, y_at)


def product_fp32(job: Any) -> None:
    """The product with a matrix in 32 bits."""
    x, w = array_at(job[X], types.float32(0)), array_at(job[W], types.float32(0))
    compute_product(job, x, x, w)


def product_int8(job: Any) -> None:
    """The product with a matrix in 8 bits. Each thread writes x in integers for itself."""
    rows, into = job[ROWS], job[INTO]
    numbers = rows * into
    space = job[SPACE] + take(job, THREADS, 1) * 4 * (rows + (numbers + 1) // 2)
    scales = array_at(space, types.float32(0))
    x = array_at(space + 4 * rows, types.int16(0))
    values = array_at(job[X], types.float32(0))
    if job[LEVELS]:
        quantise_to_levels(values, rows, into, job[LEVELS], x, scales)
    else:
        quantise_to_16_bits(values, rows, into, x, scales)
    compute_product(job, x, scales, array_at(job[W], types.int8(0)))


KERNELS = (product_fp32, product_int8, attend)
"""The functions that `small_batches.py` calls, each with a job."""


def compile_kernels(machine: Any) -> bytes:
    """The machine code of `KERNELS`: an object file with a C function `void name(int64 *job)` each.

    It needs nothing of Numba to run, so that only llvmlite is imported to load it, which takes a
    tenth of the time.

    Args:
        machine: llvmlite's description of the processor.
    """
    texts, signature = [], types.void(Address(types.int64))
    for kernel in KERNELS:
        compiled = njit(signature, no_cpython_wrapper=True, no_cfunc_wrapper=True)(kernel)
        [code] = compiled.inspect_llvm().values()
        texts.append(_as_c_function(code, kernel.__name__))
    module = binding.parse_assembly(texts[0])
    for text in texts[1:]:
        module.link_in(binding.parse_assembly(text))
    module.verify()
    return machine.emit_object(module)


def _as_c_function(code: str, name: str) -> str:
    """Adds a C function to the code of a kernel, and makes everything else private to it.

    Numba's own functions take two more pointers, to a result and to an error, and return 0.
    """
    module = binding.parse_assembly(code)
    [inner] = [symbol.name for symbol in module.functions if f"{len(name)}{name}B" in symbol.name]
    for symbol in (*module.functions, *module.global_variables):
        if not symbol.is_declaration:
            symbol.linkage = "internal"
    return f"""{module}
    define void @{name}(ptr %job) {{
        %result = alloca ptr
        %error = alloca ptr
        %status = call i32 @{inner}(ptr %result, ptr %error, ptr %job)
        ret void
    }}"""
