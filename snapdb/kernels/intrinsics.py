"""Machine instructions that numba has no name for: prefetch, stores past the caches, the high half of a product, and
loads, stores and fences in an order that other threads see."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


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


@intrinsic
def load_first(typing: Any, array: Any, index: Any) -> Any:
    """A contiguous array's element, read whole and before all that is read after it (an acquire)."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature.args[0], args[0], args[1])
        return builder.load_atomic(address, "acquire", array.dtype.bitwidth // 8)

    return array.dtype(array, types.int64), emit


@intrinsic
def store_last(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Writes a contiguous array's element whole, and after all that was written before it (a release)."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature.args[0], args[0], args[1])
        builder.store_atomic(args[2], address, "release", array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, array.dtype), emit


@intrinsic
def fence_loads(typing: Any) -> Any:
    """What is read before is read before all that comes after."""
    return types.void(), _fence("acquire")


@intrinsic
def fence_stores(typing: Any) -> Any:
    """What is written before is seen before all that is written after."""
    return types.void(), _fence("release")


def _fence(order: str) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence(order)
        return context.get_dummy_value()

    return emit


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
