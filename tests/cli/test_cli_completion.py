"""Tab completion of the command line: what is offered, and that real shells offer it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from snapdb_cli.main import main
from tests.support.waiting import PATIENCE

COMMANDS = [
    "backup",
    "bench",
    "check",
    "completion",
    "demo",
    "doctor",
    "draw",
    "export",
    "help",
    "import",
    "plot",
    "publish",
    "replay",
    "schedule",
    "ui",
    "upgrade",
    "wait",
]


def offered(*words: str) -> list[str]:
    """What is offered for the last word; `file` and `dir` where the shell looks itself."""
    completing = ShellComplete(main, {}, "snapdb", "_SNAPDB_COMPLETE")
    items = completing.get_completions(list(words[:-1]), words[-1])
    return [item.value if item.type == "plain" else item.type for item in items]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two databases, one of them below."""
    for name in ("shop.snapdb", "old/bank.snapdb"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "catalog.sqlite").touch()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_commands_and_databases_are_offered_first(folder: Path) -> None:
    assert offered("") == [*COMMANDS, "shop.snapdb"]
    assert offered("sh") == ["shop.snapdb"]
    assert offered("ch") == ["check"]
    assert offered("old/") == ["old/bank.snapdb"]
    assert offered("oth") == ["dir"]
    assert offered("check", "") == ["shop.snapdb"]
    assert offered("-q", "sh") == ["shop.snapdb"]
    assert offered(f"{folder}/o") == ["dir"]


def test_options_and_their_values_are_offered(folder: Path) -> None:
    assert offered("--fo") == ["--format", "--folder"]
    assert offered("--form") == ["--format"]
    assert offered("--format", "") == ["table", "csv", "tsv", "json", "jsonl", "markdown", "parquet", "arrow", "xlsx"]
    assert offered("shop.snapdb", "--format", "js") == ["json", "jsonl"]
    assert offered("shop.snapdb", "-f", "") == ["file"]
    assert offered("shop.snapdb", "-o", "") == ["file"]
    assert offered("--on-error", "") == ["stop", "continue"]
    assert offered("completion", "") == ["bash", "zsh", "fish"]
    assert "--against" in offered("bench", "--")


@pytest.fixture
def scripts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the scripts of all shells, where `snapdb` is on the path."""
    for shell in ("bash", "zsh", "fish"):
        done = CliRunner().invoke(main, ["completion", shell])
        assert (done.exit_code, done.stderr) == (0, "")
        (folder / f"complete.{shell}").write_text(done.stdout)
    program = folder / "bin" / "snapdb"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m snapdb_cli "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return folder


def shell(*words: str, start: str) -> Iterator[pexpect.spawn]:
    """A shell at its prompt, after `start`."""
    environment = os.environ | {"TERM": "dumb", "HOME": os.getcwd(), "INPUTRC": os.devnull}
    child = pexpect.spawn(
        words[0], list(words[1:]), env=environment, encoding="utf-8", timeout=PATIENCE, dimensions=(50, 200)
    )
    child.sendline(start)
    child.expect("ready-now")
    yield child
    child.close(force=True)


def test_bash_completes(scripts: Path) -> None:
    start = "bind 'set enable-bracketed-paste off'; PS1='> '; source complete.bash; echo ready-'now'"
    for child in shell("bash", "--norc", "--noprofile", "-i", start=start):
        child.send("snapdb sh\t")
        child.expect("snapdb shop.snapdb ")
        child.send("--form\tjsonl\t")
        child.expect("--format jsonl ")
        child.sendcontrol("u")  # a signal would race with what is typed after it
        child.send("snapdb comp\tfi\t")
        child.expect("snapdb completion fish ")
        child.sendcontrol("u")
        child.send("snapdb -f complete.z\t")
        child.expect("snapdb -f complete.zsh")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes(scripts: Path) -> None:
    start = "PS1='> '; autoload -Uz compinit; compinit -u -D; source ./complete.zsh; echo ready-'now'"
    for child in shell("zsh", "-f", "-i", start=start):
        child.send("snapdb sh\t")
        child.expect("shop.snapdb")
        child.send("--on-e\tcontin\t")
        child.expect("continue")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(scripts: Path) -> None:
    asked = ["snapdb sh", "snapdb --form", "snapdb completion "]
    program = "; ".join(["source complete.fish", *(f"complete -C '{text}'" for text in asked)])
    done = subprocess.run(
        ["fish", "--no-config", "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    found = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert found == ["shop.snapdb", "--format", "bash", "fish", "zsh"], done.stderr
