"""What people and machines see: parse, call, render; no decisions of its own."""
