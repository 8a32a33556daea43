"""Two machine instructions that numba has no name for: prefetch, and the high half of a 64 x 64-bit product."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["multiply_high", "prefetch"]


@intrinsic
def multiply_high(typing: Any, left: Any, right: Any) -> Any:
    """floor(left * right / 2^64) of two uint64, exactly."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), emit


@intrinsic
def prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Asks for the cache line of a contiguous array's element; any index is safe, for nothing is read."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte = ir.IntType(8).as_pointer()
        address = builder.bitcast(builder.gep(data, [args[1]]), byte)
        word = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        name = "llvm.prefetch.p0i8"
        function = builder.module.globals.get(name) or ir.Function(builder.module, shape, name)
        builder.call(function, [address, word(0), word(3), word(1)])  # for reading, into all levels, data
        return context.get_dummy_value()

    return types.void(array, types.int64), emit
