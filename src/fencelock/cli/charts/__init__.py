"""Charts as SVG: for `fencelock plan`, and for the benchmark of this repository."""
