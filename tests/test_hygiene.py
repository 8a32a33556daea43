"""The sources keep the rules of the house: exports, docstrings, sizes, imports, the error tree, the wheel."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

from snapdb import errors
from snapdb.plan import Plan
from tests.support.inside.execute import _operator_of
from tests.support.inside.plan import plan_kinds
from tests.support.places import ROOT
from tests.support.waiting import PATIENCE

PACKAGES = {"snapdb": ROOT, "snapdb_cli": ROOT / "cli", "snapdb_ui": ROOT / "ui", "snapdb_grammar": ROOT / "grammar"}
"""Package → the directory that is its root."""
SOURCES = sorted(path for package, root in PACKAGES.items() for path in (root / package).rglob("*.py"))
HEAVY = ("torch", "numba", "duckdb", "pyarrow")
LAZY = {"snapdb/__init__.py", "cli/snapdb_cli/main.py"}
"""The only modules that may import in functions: they keep `import snapdb` and `snapdb --help` light."""
IMPORTERS = {
    "cli/snapdb_cli/commands/arguments.py",
    "cli/snapdb_cli/commands/declarations.py",
    "cli/snapdb_cli/commands/metrics.py",
    "cli/snapdb_cli/commands/schedule_declarations.py",
    "cli/snapdb_cli/commands/ui.py",
    "snapdb/diagnosis/installation.py",
    "snapdb/diagnosis/machine.py",
    "snapdb/execute/results.py",
    "snapdb/execute/session.py",
    "snapdb/graph/conversion.py",
    "snapdb/lightning.py",
    "snapdb/loading/adapters.py",
    "snapdb/loading/device_transfer.py",
    "snapdb/on_first_use.py",
    "snapdb/plan/planner.py",
    "snapdb/ray.py",
    "snapdb/remote/files.py",
    "snapdb/remote/stores.py",
    "snapdb/sampling/backends.py",
    "snapdb/sampling/checks.py",
    "snapdb/sampling/walker.py",
    "snapdb/sql/parser.py",
}
"""The only modules that import by name: for names of a package, operators, optional libraries, subcommands."""


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def installed_path(path: Path) -> Path:
    """Where a source is installed, relative to site-packages."""
    (root,) = (root for package, root in PACKAGES.items() if path.is_relative_to(root / package))
    return path.relative_to(root)


def module_name(path: Path) -> str:
    return ".".join(part for part in installed_path(path).with_suffix("").parts if part != "__init__")


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def definitions(tree: ast.Module) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """The public functions and classes at the top of a module."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node


def test_every_module_says_its_one_idea() -> None:
    assert [relative(path) for path in SOURCES if not ast.get_docstring(tree_of(path))] == []


def test_packages_name_what_they_export_and_modules_need_not() -> None:
    modules = [importlib.import_module(module_name(path)) for path in SOURCES]
    exporting = {m.__name__: m.__all__ for m in modules if hasattr(m, "__all__")}
    assert set(exporting) - {m.__name__ for m in modules if hasattr(m, "__path__")} == set()
    assert [
        f"{m}.{name}" for m, names in exporting.items() for name in names if not hasattr(sys.modules[m], name)
    ] == []


def test_public_functions_and_classes_have_docstrings() -> None:
    silent = [
        f"{relative(path)}:{node.lineno} {node.name}"
        for path in SOURCES
        for node in definitions(tree_of(path))
        if not ast.get_docstring(node)
    ]
    assert silent == []


def test_no_module_is_longer_than_700_lines() -> None:
    """A family's module that outgrows it becomes a package of that name."""
    assert [relative(path) for path in SOURCES if len(path.read_text().splitlines()) > 700] == []


def test_imports_stand_at_the_top() -> None:
    hidden = {
        f"{relative(path)}:{node.lineno}"
        for path in SOURCES
        if relative(path) not in LAZY
        for outer in ast.walk(tree_of(path))
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(outer)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert hidden == set()


def imports_by_name(tree: ast.Module) -> bool:
    """Whether a module calls `import_module`."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(ast.unparse(function).rpartition(".")[2] in {"import_module", "__import__"} for function in calls)


def test_few_modules_import_by_name() -> None:
    """Operators and the names of a package have one place each that does it; the others are optional packages."""
    assert {relative(path) for path in SOURCES if imports_by_name(tree_of(path))} == IMPORTERS


def test_every_plan_has_an_operator() -> None:
    run = {plan.__name__ for plan in plan_kinds() if _operator_of(plan)}  # it imports every family of plans
    plans = {plan.__name__ for plan in Plan.__subclasses__()}  # dataclasses with slots are there twice
    assert run == plans


def drawn_tree(docstring: str) -> set[tuple[str, str]]:
    """(class, its parent) of each line of a tree drawn with box characters."""
    found: set[tuple[str, str]] = set()
    above: list[tuple[int, str]] = []
    for line in docstring.splitlines():
        match = re.match(r"^    ([│├└─ ]*)([A-Z]\w+)(\s{2,}|$)", line)
        if match is None:
            continue
        depth = len(match[1])
        above = [(d, name) for d, name in above if d < depth]
        if above:
            found.add((match[2], above[-1][1]))
        above.append((depth, match[2]))
    return found


def test_the_drawn_tree_of_errors_is_the_tree_of_classes() -> None:
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.SnapdbError)]
    real = {(c.__name__, c.__mro__[1].__name__) for c in classes if c is not errors.SnapdbError}
    assert drawn_tree(errors.__doc__ or "") == real


def test_every_error_has_a_code_of_its_own() -> None:
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.SnapdbError)]
    assert len({c.code for c in classes}) == len(classes)


LIGHT = {
    "import": "import snapdb",
    "help": """
from snapdb_cli.main import main
sys.argv = ["snapdb", "--help"]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
""",
    "statement refused by the command line": """
from snapdb_cli.main import main
sys.argv = ["snapdb", "-c", "CREATE SNAPSHOT OF"]
try:
    main()
except SystemExit as stop:
    assert stop.code == 1, stop.code
""",
    "a statement of the command line that reads no snapshot": """
from snapdb_cli.main import main
sys.argv = ["snapdb", "-c", "SELECT 1"]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
assert "pandas" not in sys.modules
for name in ("duckdb", "pyarrow"):
    sys.modules.pop(name)  # a query needs these
""",
    "the daemon, which has workers for what is heavy": "import snapdb.daemon",
    "statement refused by the grammar": """
import snapdb.errors, snapdb.sql
try:
    list(snapdb.sql.parse("CREATE SNAPSHOT OF"))
except snapdb.errors.ParseError:
    pass
else:
    raise AssertionError("parsed")
""",
}


@pytest.mark.parametrize("code", LIGHT.values(), ids=LIGHT.keys())
def test_light_work_loads_no_heavy_library(
    code: str, fresh_process: Callable[[str], subprocess.CompletedProcess[str]]
) -> None:
    ended = fresh_process(
        f"import sys\n{code}\nprint('loaded:', *(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)"
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.splitlines()[-1].split() == ["loaded:"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built from a copy of the sources alone."""
    copy = tmp_path_factory.mktemp("sources")
    for folder in ("snapdb", "cli", "ui", "grammar", "docs/language"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", "."]
    ended = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    (built,) = (copy / "dist").glob("*.whl")
    return zipfile.ZipFile(built)


def test_the_wheel_holds_every_module_grammar_and_data_file(wheel: zipfile.ZipFile) -> None:
    wanted = {
        installed_path(path).as_posix()
        for path in [
            *SOURCES,
            *(ROOT / "grammar").rglob("*.lark"),
            *(ROOT / "snapdb" / name for name in ("errors.toml", "py.typed")),
        ]
    }
    wanted |= {f"snapdb_grammar/pages/{page.name}" for page in (ROOT / "docs" / "language").glob("*.md")}
    assert wanted - set(wheel.namelist()) == set()


def test_the_wheel_holds_no_tests_and_no_builds(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)


REPOSITORY = re.compile(
    r"https://(?:github|raw\.githubusercontent)\.com/snapdb/snapdb/(?:(?:blob|tree)/)?main/([^)#\"\s]+)"
)
"""The path of a URL that leads into the repository."""


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    """The METADATA of the wheel."""
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_string(wheel.read(name).decode())


def test_the_metadata_has_urls_and_classifiers(metadata: Message) -> None:
    urls = dict(url.split(", ", 1) for url in metadata.get_all("Project-URL", []))
    assert set(urls) == {"Homepage", "Documentation", "Source", "Changelog", "Issues"}
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_every_link_of_the_wheel_into_the_repository_leads_to_a_file(metadata: Message) -> None:
    text = str(metadata.get_payload())
    assert re.findall(r"\]\((?!\w+:|#)[^)]+\)|src(?:set)?=\"(?!\w+:)[^\"]+\"", text) == [], "relative links"
    urls = REPOSITORY.findall("\n".join([text, *metadata.get_all("Project-URL", [])]))
    assert urls
    assert [path for path in urls if not (ROOT / path).exists()] == []


def test_a_script_beside_a_clone_imports_the_package_and_not_the_clone(tmp_path: Path) -> None:
    (tmp_path / "snapdb").symlink_to(ROOT)
    script = tmp_path / "script.py"
    script.write_text("import snapdb, snapdb_cli, snapdb_grammar\nprint(snapdb.connect.__name__)\n")
    ended = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "connect\n"), ended.stderr


TESTS = sorted((ROOT / "tests").rglob("*.py"))


def imported_modules(path: Path) -> Iterator[str]:
    """The modules that a source imports, or names of which."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            exported = node.module in sys.modules and getattr(sys.modules[node.module], "__all__", ())
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name not in (exported or ()))


def test_no_test_file_imports_another() -> None:
    tests = [path for path in TESTS if not {"frozen", "support"} & set(path.parts)]
    files = {relative(path).removesuffix(".py").replace("/", ".") for path in tests if path.name != "__init__.py"}
    assert [f"{relative(path)}: {name}" for path in tests for name in imported_modules(path) if name in files] == []


PUBLIC = {"snapdb.dbapi", "snapdb.errors", "snapdb.lightning", "snapdb.ray"}
"""The modules that users import by name."""


def test_tests_reach_the_inside_by_doors() -> None:
    modules = {module_name(path) for path in SOURCES if path.name != "__init__.py"} - PUBLIC
    named = sorted(modules & {name for path in TESTS for name in imported_modules(path)})
    assert len(named) <= 65, f"import from the package, or by a door of tests/support/inside: {named}"
