"""Load, ask core, persist, emit."""
