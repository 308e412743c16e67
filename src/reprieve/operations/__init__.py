"""What an operator can see and do, for every face: one module of typed functions per noun."""
