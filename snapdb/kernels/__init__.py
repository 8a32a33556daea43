"""Arrays in, arrays out: serial machine code that runs without the GIL. Kernels know no graphs, files or SQL."""
