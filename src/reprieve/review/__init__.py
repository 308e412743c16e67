"""The review pipeline, `fetch -> llm -> notify`: a change is fetched, criticized by a model, and its people are told.

Built on the public face alone: `reprieve`, `reprieve.senders`, `reprieve.models`.

    settings.py   what can be set, from the environment or reprieve.toml
    changes.py    what is reviewed: a commit, a range, a patch or a pull request, and which version of what it is
    git.py        the git program, and nothing that a repository could make of it;  github.py  pull requests
    diffs.py      the diff, without what nobody reads;  patterns.py, owners.py, recipients.py  whom it concerns
    asking.py     the questions to the model, and one review out of its answers
    messages.py   what people get to read
    pipeline.py   the three stages;  parts.py  what they are made with, picked by the settings
"""
