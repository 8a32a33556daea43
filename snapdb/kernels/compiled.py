"""Compilation of kernels by numba, with a cache on disk, and machine instructions as intrinsics."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from llvmlite import ir
from numba import njit, types
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering
from numba.extending import intrinsic

from snapdb.kernels.compilation import CompileTimer

_F = TypeVar("_F", bound=Callable[..., Any])

_ROOT = Path(__file__).parents[2]
_IMPORTED = re.compile(rb"^from (snapdb\.kernels\.[\w.]+) import", re.MULTILINE)


@cache
def _source(module: str) -> bytes:
    return (_ROOT / f"{module.replace('.', '/')}.py").read_bytes()


@cache
def _state(module: str) -> str:
    """Return a digest of the source code of a kernel module and of all modules from which it imports kernels."""
    met, found = {module}, [module]
    for name in found:
        new = {word.decode() for word in _IMPORTED.findall(_source(name))} - met
        met |= new
        found += sorted(new)
    return sha256(b"".join(_source(name) for name in sorted(met))).hexdigest()[:12]


class _Cache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """An on-disk cache of machine code. The key includes the sources of a kernel and of the kernels that it calls.

    numba's own cache checks only the file of the kernel itself. This is not enough, because kernels are inlined into
    others, and a cache that refers to a class that no longer exists cannot even be read.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        base = f"{self._impl.filename_base}.{_state(function.__module__)}"
        self._cache_file = IndexDataCacheFile(self._cache_path, base, self._impl.locator.get_source_stamp())


def kernel(function: _F) -> _F:
    """Compile a function with numba on its first call, once for each tuple of argument types.

    The function must not allocate memory or return an array, because it is compiled without reference counts. The
    caller keeps the arrays alive. With the counts, which are atomic, passing a tuple of six arrays costs 23 ns, as much
    as five edges. Without them, it costs 0.4 ns, so kernels can pass tuples for each row.

    Kernels are never parallel, because threads run whole batches in parallel, and numba's cached parallel code breaks
    under fork. Without a writable cache directory, each process compiles the kernels again, which only costs seconds.
    """
    return _compiled(function, nrt=False)


def allocating_kernel(function: _F) -> _F:
    """Compile a kernel that allocates buffers or returns arrays, with reference counts."""
    return _compiled(function, nrt=True)


def _compiled(function: _F, nrt: bool) -> _F:
    compiled: Any = njit(nogil=True, no_cfunc_wrapper=True, _nrt=nrt)(function)
    if compiled is not function:  # under NUMBA_DISABLE_JIT, they are the same
        with suppress(RuntimeError):  # numba found no cache directory
            compiled._cache = _Cache(function)
        part = cache(lambda: _part(function, nrt))
        # One part serves all integers, because numba treats a literal argument as a type and would compile one part per
        # literal.
        compiled.get_call_template = lambda args, kws: part().get_call_template(tuple(map(types.unliteral, args)), kws)
        compiled.get_overload = lambda signature: part().get_overload(signature)
        compiled.compile = _uncollected(compiled.compile)
    return cast(_F, compiled)


def _uncollected(compile_: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with the garbage collector paused, because collection took 11 % of the compilation time."""

    def compile_uncollected(signature: Any) -> Any:
        collects = gc.isenabled()
        gc.disable()
        try:
            return compile_(signature)
        finally:
            if collects:
                gc.enable()

    return compile_uncollected


# numba compiles each callee of a kernel completely, with optimized machine code and wrappers for Python, but uses only
# its LLVM IR, which is linked into the kernel, inlined and optimized again. A part is a callee for which numba emits
# only the IR, which saves a third of the compilation time.
class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """The LLVM IR of a part."""

    def finalize(self) -> None:
        """Link as numba does, but leave optimization and code generation to the kernel that inlines the part."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


def _part(function: Callable[..., Any], nrt: bool) -> Any:
    part = njit(nogil=True, _nrt=nrt, pipeline_class=_PartCompiler)(function)
    part.add_overload = lambda result: part.overloads.update({tuple(result.signature.args): result})
    return part


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):  # type: ignore[misc]
    """Lowers a part to LLVM IR and registers it for its callers."""

    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        flags = state.flags
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        library = state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        super().run_pass(state)
        key = object()
        state["cr"] = state["cr"]._replace(cfunc=key)
        state.targetctx.insert_user_function(key, state["cr"].fndesc, [library])
        return True


class _PartCompiler(CompilerBase):  # type: ignore[misc]
    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(_PartLowering if each is NativeLowering else each, what) for each, what in passes.passes]
        passes._finalized = False
        passes.finalize()
        return [passes]


class _Listener(event.Listener):  # type: ignore[misc]
    """Measures the time that numba takes to compile functions.

    Loading a function from the cache triggers no such event.
    """

    def __init__(self) -> None:
        self._timer = CompileTimer()

    def on_start(self, _: object) -> None:
        self._timer.start()

    def on_end(self, _: object) -> None:
        self._timer.end()


event.register("numba:compile", _Listener())


# A forked child inherits a lock that another thread holds at that moment, and nothing in the child releases it. If it
# is numba's compiler lock, the child deadlocks on its first kernel.
@cache
def await_compiling() -> None:
    """Make future forks of this process wait until no other thread is compiling or loading a kernel."""
    if hasattr(os, "register_at_fork"):
        lock = global_compiler_lock
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


# Machine instructions that numba does not expose: the high half of a product, prefetches, non-temporal stores (which
# bypass the caches), and the fences of a seqlock.
@intrinsic
def multiply_high(typing: Any, left: Any, right: Any) -> Any:
    """floor(left * right / 2^64) of two uint64, computed exactly."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), emit


@intrinsic
def prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of an element in a contiguous array. Any index is safe because nothing is read."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        address = builder.bitcast(_address(context, builder, signature.args[0], args[0], args[1]), byte)
        word = ir.IntType(32)
        function = _declared(builder, "llvm.prefetch.p0i8", [byte, word, word, word])
        builder.call(function, [address, word(0), word(3), word(1)])  # for a read of data, into all cache levels
        return context.get_dummy_value()

    return types.void(array, types.int64), emit


@intrinsic
def copy_line(typing: Any, to: Any, at: Any, source: Any, here: Any) -> Any:
    """to[at : at + 64] = source[here : here + 64] for byte arrays."""
    return types.void(to, types.int64, source, types.int64), _move_line(past_caches=False)


@intrinsic
def stream_line(typing: Any, to: Any, at: Any, source: Any, here: Any) -> Any:
    """`copy_line` as a non-temporal store, which bypasses the caches.

    to[at] must be 64-byte aligned. See `fence_streams`.
    """
    return types.void(to, types.int64, source, types.int64), _move_line(past_caches=True)


@intrinsic
def fence_streams(typing: Any) -> Any:
    """Order non-temporal stores before all later stores, including for other threads (sfence). x86-64 only."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.call(_declared(builder, "llvm.x86.sse.sfence", []), [])
        return context.get_dummy_value()

    return types.void(), emit


@intrinsic
def load_first(typing: Any, array: Any, index: Any) -> Any:
    """An atomic acquire load of an element in a contiguous array. No later read moves before it."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature.args[0], args[0], args[1])
        return builder.load_atomic(address, "acquire", array.dtype.bitwidth // 8)

    return array.dtype(array, types.int64), emit


@intrinsic
def store_last(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """An atomic release store to an element in a contiguous array. No earlier write moves after it."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature.args[0], args[0], args[1])
        builder.store_atomic(args[2], address, "release", array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, array.dtype), emit


@intrinsic
def fence_loads(typing: Any) -> Any:
    """An acquire fence. No later read or write moves before an earlier read."""
    return types.void(), _fence("acquire")


@intrinsic
def fence_stores(typing: Any) -> Any:
    """A release fence. No earlier read or write moves after a later write."""
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
