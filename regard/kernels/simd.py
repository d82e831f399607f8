"""Vectors of 16 floats or 32 integers for kernels that Numba compiles, as LLVM's instructions.

A loop over vectors has the order of its sums written out, on every processor: LLVM makes one
instruction of AVX-512 of each operation here, or several of a narrower set. Numba's own way, to let
the compiler reorder a sum, gives sums whose order depends on the code around them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

FLOAT, SHORT = ir.VectorType(ir.FloatType(), 16), ir.VectorType(ir.IntType(16), 32)
INT = ir.VectorType(ir.IntType(32), 16)
"""Vectors as wide as a register of AVX-512, or as two of AVX2."""


class VectorType(types.Type):
    """Numba's name for a vector of LLVM."""

    def __init__(self, name: str, kind: ir.VectorType) -> None:
        self.kind = kind
        super().__init__(name)


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.kind)


Floats, Shorts, Ints = (
    VectorType(name, kind) for name, kind in (("floats", FLOAT), ("shorts", SHORT), ("ints", INT))
)
Address = types.CPointer
SUMS = {types.float32: Floats, types.int16: Ints, types.int8: Ints}
"""Type of the numbers of an array -> type of a vector of sums of their products."""


@intrinsic
def array_at(_: Any, address: Any, like: Any) -> Any:
    """The array at an address; `like` is a number of the type of its elements."""

    def build(context: Any, builder: Any, __: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(Address(like)))

    return Address(like)(address, like), build


@intrinsic
def width(_: Any, array: Any) -> Any:
    """How many numbers of an array are loaded at a time: 16 floats, or 32 integers."""
    count = 16 if array.dtype == types.float32 else 32
    return types.int64(array), lambda *_: ir.IntType(64)(count)


@intrinsic
def zeros(_: Any, array: Any) -> Any:
    """Sums of nothing, for products of the numbers of an array."""
    kind = SUMS[array.dtype]
    return kind(array), lambda *_: ir.Constant(kind.kind, None)


@intrinsic
def load(_: Any, array: Any, index: Any) -> Any:
    """`width` numbers of an array from an index on; integers as 16 bits."""
    is_float = array.dtype == types.float32

    def build(_: Any, builder: Any, __: Any, args: Any) -> Any:
        stored = FLOAT if is_float else ir.VectorType(ir.IntType(array.dtype.bitwidth), 32)
        pointer = builder.bitcast(builder.gep(args[0], [args[1]]), stored.as_pointer())
        vector = builder.load(pointer, align=array.dtype.bitwidth // 8)
        return builder.sext(vector, SHORT) if array.dtype == types.int8 else vector

    return (Floats if is_float else Shorts)(array, types.int64), build


@intrinsic
def madd(_: Any, a: Any, b: Any, sums: Any) -> Any:
    """Adds the products of two vectors to sums: of floats one by one, of integers in pairs."""

    def build(_: Any, builder: Any, __: Any, args: Any) -> Any:
        if a == Floats:
            return _call_llvm(builder, "fma", *args)  # rounded once
        products_type = ir.VectorType(ir.IntType(32), 32)
        products = builder.mul(*(builder.sext(vector, products_type) for vector in args[:2]))
        even, odd = (_select(builder, products, first, 16, step=2) for first in (0, 1))
        pairs = builder.add(even, odd)
        return builder.add(pairs, args[2])  # with all this, one instruction of AVX-512

    return sums(a, b, sums), build


@intrinsic
def sum_elements(_: Any, a: Any, b: Any) -> Any:
    """The sum of all numbers of two vectors of sums: a + b, then half and half, four times.

    Integers are added in 64 bits once four are left.
    """

    def build(_: Any, builder: Any, __: Any, args: Any) -> Any:
        add = builder.fadd if a == Floats else builder.add
        partial, count = add(*args), 16
        while count > 1:
            count //= 2
            halves = (_select(builder, partial, first, count) for first in (0, count))
            partial = add(*halves)
            if a != Floats and count == 4:
                partial = builder.sext(partial, ir.VectorType(ir.IntType(64), 4))
        return builder.extract_element(partial, ir.IntType(32)(0))

    return (types.float32 if a == Floats else types.int64)(a, b), build


def _call_llvm(builder: Any, name: str, *args: Any) -> Any:
    """Calls one of LLVM's functions of vectors of floats."""
    kind = ir.FunctionType(FLOAT, [FLOAT] * len(args))
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v16f32")
    return builder.call(function, args)


def _select(builder: Any, vector: Any, first: int, count: int, step: int = 1) -> Any:
    """The numbers first, first + step, … of a vector, `count` in all."""
    kind = ir.VectorType(ir.IntType(32), count)
    indices = ir.Constant(kind, [first + step * i for i in range(count)])
    return builder.shuffle_vector(vector, vector, indices)


@intrinsic
def repeat(_: Any, number: Any) -> Any:
    """A vector of 16 times the same float."""

    def build(_: Any, builder: Any, __: Any, args: Any) -> Any:
        vector = builder.insert_element(ir.Constant(FLOAT, None), args[0], ir.IntType(32)(0))
        return _select(builder, vector, 0, 16, step=0)

    return Floats(types.float32), build


@intrinsic
def divide(_: Any, a: Any, b: Any) -> Any:
    """a / b, for each number of two vectors of floats."""
    return Floats(a, b), lambda _, builder, __, args: builder.fdiv(*args)


@intrinsic
def fma(_: Any, a: Any, b: Any, c: Any) -> Any:
    """a · b + c of three floats, rounded once."""

    def build(_: Any, builder: Any, __: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.FloatType(), [ir.FloatType()] * 3)
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.fma.f32")
        return builder.call(function, args)

    return types.float32(types.float32, types.float32, types.float32), build


@intrinsic
def max_abs(_: Any, a: Any, b: Any) -> Any:
    """The larger of a and |b|, for each number of two vectors of floats."""

    def build(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return _call_llvm(builder, "maxnum", args[0], _call_llvm(builder, "fabs", args[1]))

    return Floats(a, b), build


@intrinsic
def max_element(_: Any, a: Any) -> Any:
    """The largest number of a vector of floats."""

    def build(_: Any, builder: Any, __: Any, args: Any) -> Any:
        partial = args[0]
        for shift in (8, 4, 2, 1):  # each number and the one so many on
            indices = [(i + shift) % 16 for i in range(16)]
            kind = ir.VectorType(ir.IntType(32), 16)
            rotated = builder.shuffle_vector(partial, partial, ir.Constant(kind, indices))
            partial = _call_llvm(builder, "maxnum", partial, rotated)
        return builder.extract_element(partial, ir.IntType(32)(0))

    return types.float32(a), build


@intrinsic
def store(_: Any, array: Any, index: Any, vector: Any, factor: Any) -> Any:
    """Writes a vector of floats times a factor into an array, rounded if it holds integers."""
    is_float = array.dtype == types.float32

    def build(context: Any, builder: Any, __: Any, args: Any) -> Any:
        values = builder.fmul(args[2], args[3])
        if not is_float:
            integers = builder.fptosi(_call_llvm(builder, "roundeven", values), INT)
            values = builder.trunc(integers, ir.VectorType(ir.IntType(16), 16))
        pointer = builder.gep(args[0], [args[1]])
        builder.store(values, builder.bitcast(pointer, values.type.as_pointer()), align=2)
        return context.get_dummy_value()

    return types.void(array, types.int64, vector, factor), build


@intrinsic
def power_of_two(_: Any, exponent: Any) -> Any:
    """2ⁿ as a float, from an integer n of -126 … 127."""

    def build(_: Any, builder: Any, __: Any, args: Any) -> Any:
        int32 = ir.IntType(32)
        bits = builder.shl(builder.add(args[0], int32(127)), int32(23))
        return builder.bitcast(bits, ir.FloatType())

    return types.float32(types.int32), build


@intrinsic
def take(_: Any, job: Any, index: Any, count: Any) -> Any:
    """Adds `count` to a number of the job, and returns what it was; safe between threads."""

    def build(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", builder.gep(args[0], [args[1]]), args[2], "monotonic")

    return types.int64(job, types.int64, types.int64), build
