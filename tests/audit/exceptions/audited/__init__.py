"""Real exceptions of real libraries, each with the verdict that the specifications ask for."""
