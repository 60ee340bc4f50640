"""Inner loops in LLVM's portable vector types, for use inside compiled functions.

Each `add_*` updates a run of independent sums, acc[j] += w[k, j] * x[k] for k in order, and holds
the sums in registers meanwhile. Products and sums are rounded separately (no fast-math flags), so
the bits are those of the plain loop, however wide the machine's vectors are. Arrays must be
C-contiguous; offsets and strides count elements, and nobody checks bounds here: the callers do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

_FLOAT = ir.FloatType()
_INT8 = ir.IntType(8)
_INT16 = ir.IntType(16)
_INT32 = ir.IntType(32)
_INT64 = ir.IntType(64)

Value = Any
"""An LLVM value; llvmlite has no type information."""


TILE = 64
"""Outputs that lie side by side in a tile of weights."""
BLOCK = 32
"""Weights along K that share a scale."""


def _intrinsic(typed: Callable[..., Any]) -> Any:
    """An intrinsic of numba's: callers leave out the typing context, which checkers cannot know."""
    return intrinsic(typed)


def _vector(lanes: int, element: Any = _FLOAT) -> Any:
    return ir.VectorType(element, lanes)


def _load(builder: Any, pointer: Value, at: Value, lanes: int, element: Any = _FLOAT) -> Value:
    address = builder.bitcast(builder.gep(pointer, [at]), _vector(lanes, element).as_pointer())
    return builder.load(address, align=4 if element is _FLOAT else element.width // 8)


def _store(builder: Any, value: Value, pointer: Value, at: Value) -> None:
    address = builder.bitcast(builder.gep(pointer, [at]), value.type.as_pointer())
    builder.store(value, address, align=4)


def _splat(builder: Any, scalar: Value, lanes: int) -> Value:
    """A vector with `scalar` in every lane."""
    undefined = ir.Constant(_vector(lanes, scalar.type), ir.Undefined)
    first = builder.insert_element(undefined, scalar, _INT32(0))
    zeros = ir.Constant(_vector(lanes, _INT32), [0] * lanes)
    return builder.shuffle_vector(first, undefined, zeros)


def _sum_over_k(
    builder: Any,
    count: Value,
    sums: list[list[Value]],
    weights_at: Callable[[Value], list[Value]],
    x_at: Callable[[int, Value], Value],
) -> list[list[Value]]:
    """`sums[row][part] += weights_at(k)[part] * x_at(row, k)` for k below `count`, in registers."""
    entry = builder.block
    loop, done = builder.append_basic_block("k"), builder.append_basic_block("k.done")
    builder.cbranch(builder.icmp_signed(">", count, _INT64(0)), loop, done)
    builder.position_at_end(loop)
    k = builder.phi(_INT64)
    k.add_incoming(_INT64(0), entry)
    running = [[builder.phi(part.type) for part in row] for row in sums]
    weights = weights_at(k)
    following = []
    for r, row in enumerate(running):
        x = _splat(builder, x_at(r, k), weights[0].type.count)
        following.append(
            [
                builder.fadd(part, builder.fmul(weight, x))
                for part, weight in zip(row, weights, strict=True)
            ]
        )
    increased = builder.add(k, _INT64(1))
    k.add_incoming(increased, loop)
    builder.cbranch(builder.icmp_signed("<", increased, count), loop, done)
    builder.position_at_end(done)
    results = []
    for old_row, row, new_row in zip(sums, running, following, strict=True):
        merged = []
        for old, part, new in zip(old_row, row, new_row, strict=True):
            part.add_incoming(old, entry)
            part.add_incoming(new, loop)
            result = builder.phi(part.type)
            result.add_incoming(old, entry)
            result.add_incoming(new, loop)
            merged.append(result)
        results.append(merged)
    return results


def _pointers(context: Any, builder: Any, signature: Any, arguments: Any) -> list[Value]:
    """Arguments with arrays replaced by the pointers to their data."""
    return [
        context.make_array(kind)(context, builder, value).data
        if isinstance(kind, types.Array)
        else value
        for kind, value in zip(signature.args, arguments, strict=True)
    ]


def _signature(elements: tuple[Any, ...], *arguments: Any) -> Any:
    """None from these arguments: arrays of these elements in turn, and int64.

    Raises:
        TypingError: An array has other elements or is not contiguous.
    """
    kinds = [kind if isinstance(kind, types.Array) else types.int64 for kind in arguments]
    arrays = [kind for kind in kinds if isinstance(kind, types.Array)]
    for array, element in zip(arrays, elements, strict=True):
        if array.dtype != element or array.layout != "C":
            raise TypingError(f"{array} is not a contiguous array of {element}")
    return types.none(*kinds)


def _add_float32(rows: int) -> Any:
    # Sixteen lanes for several rows and 64 for one fill the registers without spilling.
    widths = (TILE, 16) if rows == 1 else (16,)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Value:
        w, w_at, w_stride, x, x_at, x_stride, count, acc, acc_at, acc_stride, lanes = _pointers(
            context, builder, signature, arguments
        )
        start: Value = _INT64(0)
        for width in widths:
            strips = builder.sdiv(builder.sub(lanes, start), _INT64(width))
            with cgutils.for_range(builder, strips) as strip:
                lane = builder.add(start, builder.mul(strip.index, _INT64(width)))
                w_lane = builder.add(w_at, lane)
                places = [
                    builder.add(builder.add(acc_at, lane), builder.mul(acc_stride, _INT64(r)))
                    for r in range(rows)
                ]
                sums = _sum_over_k(
                    builder,
                    count,
                    [[_load(builder, acc, place, width)] for place in places],
                    lambda k, at=w_lane, n=width: [  # type: ignore[misc]
                        _load(builder, w, builder.add(at, builder.mul(k, w_stride)), n)
                    ],
                    lambda r, k: builder.load(
                        builder.gep(
                            x,
                            [builder.add(builder.add(x_at, k), builder.mul(x_stride, _INT64(r)))],
                        )
                    ),
                )
                for place, row in zip(places, sums, strict=True):
                    _store(builder, row[0], acc, place)
            start = builder.add(start, builder.mul(strips, _INT64(width)))
        return context.get_dummy_value()

    def typed(
        typing_context: Any,
        w: Any,
        w_at: Any,
        w_stride: Any,
        x: Any,
        x_at: Any,
        x_stride: Any,
        count: Any,
        acc: Any,
        acc_at: Any,
        acc_stride: Any,
        lanes: Any,
    ) -> Any:
        """acc[r, j] += w[k, j] * x[r, k]; float32 arrays; lanes a multiple of 16."""
        return _signature(
            (types.float32,) * 3,
            w,
            w_at,
            w_stride,
            x,
            x_at,
            x_stride,
            count,
            acc,
            acc_at,
            acc_stride,
            lanes,
        ), codegen

    return _intrinsic(typed)


add_float32_1 = _add_float32(1)
add_float32_2 = _add_float32(2)
add_float32_3 = _add_float32(3)
add_float32_4 = _add_float32(4)


def _one_row(builder: Any, x: Value, x_at: Value) -> Callable[[int, Value], Value]:
    return lambda _, k: builder.load(builder.gep(x, [builder.add(x_at, k)]))


@_intrinsic
def add_q4(
    typing_context: Any,
    values: Any,
    values_at: Any,
    scales: Any,
    minima: Any,
    scales_at: Any,
    x: Any,
    x_at: Any,
    acc: Any,
    acc_at: Any,
) -> Any:
    """One block of a tile, one row: acc[j] += (scale[j] * q[k, j] + minimum[j]) * x[k].

    Values are uint8 [32, 32] with output j in the low and j + 32 in the high half byte.
    """

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Value:
        q, q_at, d, m, d_at, inputs, input_at, sums, sums_at = _pointers(
            context, builder, signature, arguments
        )
        half, width = TILE // 2, 8  # more lanes spill sums to the stack
        for strip in range(0, half, width):
            offsets = [_INT64(strip), _INT64(strip + half)]
            factors = [_load(builder, d, builder.add(d_at, o), width) for o in offsets]
            addends = [_load(builder, m, builder.add(d_at, o), width) for o in offsets]
            places = [builder.add(sums_at, o) for o in offsets]

            def weights(
                k: Value,
                strip: int = strip,
                factors: list[Value] = factors,
                addends: list[Value] = addends,
            ) -> list[Value]:
                at = builder.add(builder.add(q_at, builder.mul(k, _INT64(half))), _INT64(strip))
                pairs = _load(builder, q, at, width, _INT8)
                wide = builder.zext(pairs, _vector(width, _INT32))
                low = builder.and_(wide, ir.Constant(wide.type, [15] * width))
                high = builder.lshr(wide, ir.Constant(wide.type, [4] * width))
                return [
                    builder.fadd(builder.fmul(factor, builder.sitofp(part, factor.type)), addend)
                    for part, factor, addend in zip((low, high), factors, addends, strict=True)
                ]

            (row,) = _sum_over_k(
                builder,
                _INT64(BLOCK),
                [[_load(builder, sums, place, width) for place in places]],
                weights,
                _one_row(builder, inputs, input_at),
            )
            for place, part in zip(places, row, strict=True):
                _store(builder, part, sums, place)
        return context.get_dummy_value()

    elements = (types.uint8, *(types.float32,) * 4)
    return _signature(
        elements, values, values_at, scales, minima, scales_at, x, x_at, acc, acc_at
    ), codegen


@_intrinsic
def add_q8(
    typing_context: Any,
    values: Any,
    values_at: Any,
    scales: Any,
    scales_at: Any,
    x: Any,
    x_at: Any,
    acc: Any,
    acc_at: Any,
) -> Any:
    """One block of a tile, one row: acc[j] += (scale[j] * q[k, j]) * x[k]; values int8 [32, 64]."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Value:
        q, q_at, d, d_at, inputs, input_at, sums, sums_at = _pointers(
            context, builder, signature, arguments
        )
        width = 32
        for strip in range(0, TILE, width):
            factor = _load(builder, d, builder.add(d_at, _INT64(strip)), width)

            def weights(k: Value, strip: int = strip, factor: Value = factor) -> list[Value]:
                at = builder.add(builder.add(q_at, builder.mul(k, _INT64(TILE))), _INT64(strip))
                signed = builder.sext(_load(builder, q, at, width, _INT8), _vector(width, _INT32))
                return [builder.fmul(factor, builder.sitofp(signed, _vector(width)))]

            place = builder.add(sums_at, _INT64(strip))
            ((part,),) = _sum_over_k(
                builder,
                _INT64(BLOCK),
                [[_load(builder, sums, place, width)]],
                weights,
                _one_row(builder, inputs, input_at),
            )
            _store(builder, part, sums, place)
        return context.get_dummy_value()

    elements = (types.int8, *(types.float32,) * 3)
    return _signature(elements, values, values_at, scales, scales_at, x, x_at, acc, acc_at), codegen


@_intrinsic
def add_bfloat16(
    typing_context: Any,
    values: Any,
    values_at: Any,
    x: Any,
    x_at: Any,
    count: Any,
    acc: Any,
    acc_at: Any,
) -> Any:
    """One tile, one row: acc[j] += w[k, j] * x[k]; values uint16 [count, 64], bfloat16 bits."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Value:
        bits, bits_at, inputs, input_at, length, sums, sums_at = _pointers(
            context, builder, signature, arguments
        )
        width = 32
        for strip in range(0, TILE, width):

            def weights(k: Value, strip: int = strip) -> list[Value]:
                at = builder.add(builder.add(bits_at, builder.mul(k, _INT64(TILE))), _INT64(strip))
                wide = builder.zext(_load(builder, bits, at, width, _INT16), _vector(width, _INT32))
                shifted = builder.shl(wide, ir.Constant(wide.type, [16] * width))
                return [builder.bitcast(shifted, _vector(width))]

            place = builder.add(sums_at, _INT64(strip))
            ((part,),) = _sum_over_k(
                builder,
                length,
                [[_load(builder, sums, place, width)]],
                weights,
                _one_row(builder, inputs, input_at),
            )
            _store(builder, part, sums, place)
        return context.get_dummy_value()

    elements = (types.uint16, *(types.float32,) * 2)
    return _signature(elements, values, values_at, x, x_at, count, acc, acc_at), codegen


@_intrinsic
def power_of_two(typing_context: Any, exponent: Any) -> Any:
    """2**n for a whole float32 n in -126..127, from the exponent bits; NaN gives 1."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Value:
        (n,) = arguments
        whole = builder.select(builder.fcmp_ordered("ord", n, n), n, ir.Constant(_FLOAT, 0.0))
        biased = builder.add(builder.fptosi(whole, _INT32), _INT32(127))
        return builder.bitcast(builder.shl(biased, _INT32(23)), _FLOAT)

    return types.float32(types.float32), codegen
