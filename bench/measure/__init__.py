"""One measurement a file: NAME, TITLE and measure(bench, report)."""
