"""Machine instructions that numba has no name for: prefetch, stores past the caches, the high half of a product."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["copy_line", "fence_streams", "multiply_high", "prefetch", "stream_line"]


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
        byte = ir.IntType(8).as_pointer()
        address = builder.bitcast(_address(context, builder, signature.args[0], args[0], args[1]), byte)
        word = ir.IntType(32)
        function = _declared(builder, "llvm.prefetch.p0i8", [byte, word, word, word])
        builder.call(function, [address, word(0), word(3), word(1)])  # for reading, into all levels, data
        return context.get_dummy_value()

    return types.void(array, types.int64), emit


@intrinsic
def copy_line(typing: Any, to: Any, at: Any, source: Any, here: Any) -> Any:
    """to[at : at + 64] = source[here : here + 64] of arrays of bytes."""
    return types.void(to, types.int64, source, types.int64), _move_line(past_caches=False)


@intrinsic
def stream_line(typing: Any, to: Any, at: Any, source: Any, here: Any) -> Any:
    """The same past the caches: to[at] must stand at a multiple of 64 in memory. `fence_streams` ends such stores."""
    return types.void(to, types.int64, source, types.int64), _move_line(past_caches=True)


@intrinsic
def fence_streams(typing: Any) -> Any:
    """All stores before are seen before any after it, also by other threads; of x86-64 only."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.call(_declared(builder, "llvm.x86.sse.sfence", []), [])
        return context.get_dummy_value()

    return types.void(), emit


def _move_line(past_caches: bool) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        line = ir.VectorType(ir.IntType(64), 8).as_pointer()
        to = builder.bitcast(_address(context, builder, signature.args[0], args[0], args[1]), line)
        source = builder.bitcast(_address(context, builder, signature.args[2], args[2], args[3]), line)
        store = builder.store(builder.load(source, align=1), to, align=64 if past_caches else 1)
        if past_caches:
            store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        return context.get_dummy_value()

    return emit


def _address(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [index])


def _declared(builder: Any, name: str, parameters: list[Any]) -> Any:
    shape = ir.FunctionType(ir.VoidType(), parameters)
    return builder.module.globals.get(name) or ir.Function(builder.module, shape, name)
