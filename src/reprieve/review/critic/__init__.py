"""The critic: finds facts about a change with rules, and can ask a model for its opinion.

    findings.py        Finding, Severity, folding of equal findings
    rules.py           CriticRule and CriticCheck;  registry.py  all checks
    change_set.py      the changed files with both versions, and the trees they stand in
    parsing.py         the parser child, seen from the parent;  parser_child.py  the child;  python_source.py  what it reads of Python
    line_checks.py file_checks.py ruff.py failure_handling.py names.py changed_tests.py project_files.py    one module per kind of check
    suppression.py     `[critic]` settings and comments that allow a finding, both read from the base
    facts.py           FactsCritic: runs the checks;  summary.py  the summary;  model.py  asks a model

A rule is added in one way: define a `CriticRule`, yield its findings from a function, and list both in `CHECKS` of the
module of its kind.
"""
