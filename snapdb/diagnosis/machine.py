"""Processors, GPUs, memory and temporary space that this process can use."""

import locale
import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from snapdb.diagnosis.finding import Finding, Section, in_bytes
from snapdb.memory import available_memory, memory_limit
from snapdb.storage.array_files import has_huge_pages

_LITTLE_MEMORY = 1 << 30
_LITTLE_SPACE = 1 << 30


def machine_findings() -> Iterator[Finding]:
    """Yield the resources and limits of this process."""
    yield Finding("machine", "CPUs", f"{_usable_cpus()} usable of {os.cpu_count()}")
    yield from _gpus()
    yield from _memory()
    yield _huge_pages()
    yield free_space("machine", "temporary directory", Path(tempfile.gettempdir()), "set TMPDIR to a larger disk")
    yield Finding("machine", "text encoding", locale.getencoding())


def free_space(section: Section, item: str, folder: Path, remedy: str) -> Finding:
    """Return a directory and the free space on its disk. Less than 1 GiB is a note."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding(section, item, f"{folder}: {error.strerror}", "problem", remedy)
    value = f"{folder}, {in_bytes(free)} free"
    return Finding(section, item, value) if free >= _LITTLE_SPACE else Finding(section, item, value, "note", remedy)


def _usable_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _gpus() -> Iterator[Finding]:
    """Yield one finding per CUDA device, or nothing if torch cannot be imported, which is reported elsewhere."""
    try:
        cuda = import_module("torch").cuda
        devices = [cuda.get_device_properties(i) for i in range(cuda.device_count())] if cuda.is_available() else []
    except Exception as error:  # torch is missing, or the driver does not match
        yield Finding("machine", "CUDA devices", f"unknown: {' '.join(str(error).split())}")
        return
    if not devices:
        yield Finding("machine", "CUDA devices", "none")
    for number, device in enumerate(devices):
        yield Finding("machine", f"CUDA device {number}", f"{device.name}, {in_bytes(device.total_memory)}")


def _memory() -> Iterator[Finding]:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    available, limit = available_memory(), memory_limit()
    yield Finding("machine", "memory", in_bytes(total))
    if available < _LITTLE_MEMORY:
        advice = "close other programs, or raise the memory limit of the container"
        yield Finding("machine", "available memory", in_bytes(available), "note", advice)
    else:
        yield Finding("machine", "available memory", in_bytes(available))
    limited = limit is not None and limit < total  # cgroups v1 report 2^63 if there is no limit
    yield Finding("machine", "memory limit", in_bytes(limit) if limit is not None and limited else "none")


def _huge_pages() -> Finding:
    """Return whether the kernel supports huge pages for memory maps of files that request them."""
    if has_huge_pages():
        return Finding("machine", "huge pages", "yes")
    advice = (
        "random reads of large snapshots are slower; as root: "
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, if the kernel has this file"
    )
    return Finding("machine", "huge pages", "no", "note", advice)
