"""The grammars of snapdb's own statements, one .lark file per family; README.md lists every rule with an example."""
