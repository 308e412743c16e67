"""Pure decisions: values in, values out; no clock, chance, environment, logging or I/O."""
