"""Makes the documentation's site from the pages of this repository; `./site` runs it.

The pages are written for GitHub, where their links work as they are. `pages` copies them to a folder and
leads the links that leave `docs/` to their place on the site. `navigation` reads the order of the pages from
`docs/index.md`. `reference` writes more pages, from docstrings. Zensical makes HTML of all that. `examine`
reads the HTML and finds what is broken.
"""
