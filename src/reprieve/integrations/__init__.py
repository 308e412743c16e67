"""Other systems that Reprieve works with, one module each. None of them imports the engine."""
