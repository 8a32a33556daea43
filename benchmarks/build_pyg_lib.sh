#!/bin/bash
# build_pyg_lib.sh VENV SOURCE PHMAP [WORK]: compiles pyg-lib's CPU sampler into the site-packages of VENV, without CUDA, METIS and CMake.
# SOURCE and PHMAP are checkouts of pyg-team/pyg-lib and greg7mdp/parallel-hashmap; VENV has torch, torch-geometric and numpy. What is left
# out, which the loaders do not call, PyG takes as absent. About 12 minutes of processor time with g++ 12.
set -eu
venv=$(realpath "$1") source=$(realpath "$2") phmap=$(realpath "$3") work=${4:-$(mktemp -d)}
checkout() {  # a git directory or a checkout, to a folder
  mkdir -p "$2"
  if git -C "$1" rev-parse -q --git-dir >/dev/null 2>&1; then git -C "$1" archive HEAD | tar -x -C "$2"; else cp -a "$1/." "$2"; fi
}
checkout "$source" "$work/src"
checkout "$phmap" "$work/src/third_party/parallel-hashmap"
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
include=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
abi=$("$venv/bin/python" -c 'import torch; print(int(torch._C._GLIBCXX_USE_CXX11_ABI))')
cd "$work/src"
csrc=pyg_lib/csrc
files="sampler/cpu/neighbor_kernel sampler/neighbor random/cpu/biased_sampling utils/check utils/convert library sampler/subgraph sampler/cpu/subgraph_kernel ops/index_sort ops/cpu/index_sort_kernel"
flags="-std=c++20 -O3 -DNDEBUG -fPIC -fopenmp -D_GLIBCXX_USE_CXX11_ABI=$abi -DIDXTYPEWIDTH=64 -DREALTYPEWIDTH=32 -I. -Ithird_party/parallel-hashmap \
 -isystem $site/torch/include -isystem $site/torch/include/torch/csrc/api/include -I$include"
sed -e 's/@WITH_MKL_BLAS@/0/' -e 's/@NO_METIS@/1/' $csrc/config.h.in >$csrc/config.h
mkdir -p obj
for f in $files; do echo "$f"; done | xargs -P "${MAX_JOBS:-2}" -I{} sh -c 'o=obj/$(echo {} | tr / _).o; [ -s "$o" ] || g++ '"$flags"' -c '"$csrc"'/{}.cpp -o "$o" || { rm -f "$o"; exit 255; }'
rm -rf "$site/pyg_lib"
cp -a pyg_lib "$site/pyg_lib"
rm -rf "$site/pyg_lib/csrc" "$site/pyg_lib/partition" "$site/pyg_lib/ops/scatter_reduce.py"
# what is not compiled is not imported: partition, and of the operators all but index_sort
sed -i '/import pyg_lib.partition/d' "$site/pyg_lib/__init__.py"
"$venv/bin/python" - "$site/pyg_lib/ops/__init__.py" <<'PYTHON'
import ast, sys
text = open(sys.argv[1]).read()
keep = [n for n in ast.parse(text).body if (isinstance(n, (ast.Import, ast.ImportFrom)) and "scatter" not in ast.unparse(n)) or getattr(n, "name", "") == "index_sort"]
open(sys.argv[1], "w").write("\n\n".join(ast.unparse(n) for n in keep) + "\n\n__all__ = ['index_sort']\n")
PYTHON
g++ -shared -o "$site/pyg_lib/libpyg.so" obj/*.o -fopenmp -L"$site/torch/lib" -ltorch -ltorch_cpu -lc10 -Wl,-rpath,"$site/torch/lib"
cd / && "$venv/bin/python" -c 'import torch_geometric.typing as t; assert t.WITH_PYG_LIB, "PyG does not see pyg-lib"; print("pyg-lib is there")'
