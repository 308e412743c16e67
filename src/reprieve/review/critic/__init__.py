"""The critic: finds facts about a change with rules, and can ask a model for its opinion.

    critic.py            Critic: the rules, a model, or both;  review.py  its result, and the report that people read
    facts.py             runs the checks;  registry.py  all checks;  rules.py  CriticRule and CriticCheck
    findings.py          Finding, Severity, folding;  summary.py  sentences about a change
    change_set.py        the changed files in both versions;  git_changes.py  reads them from git
    suppression.py       `[critic]` settings, and comments that allow a finding
    parsing.py           parses files in a child process;  parser_child.py  the child
    model.py             asks a model

One module for each kind of check: line_checks, file_checks, changed_tests, dependencies, workflows, permissions,
migrations, ruff, failure_handling (failure_patterns, python_mistakes and python_tree in the child; comparison tells new
problems from old ones), and names (module_index, broken_uses, source_text; python_source, python_scopes, python_uses,
python_names, python_signatures; javascript_names, commonjs_names; go_names).

A rule is added in one way: define a `CriticRule`, yield its findings from a function, and list both in `CHECKS` of
the module of its kind.
"""
