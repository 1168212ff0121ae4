"""The least that does the same kind of thing: what the wizard and the engine are measured against."""
