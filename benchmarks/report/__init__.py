"""The results of a run: Markdown and charts for people, JSON for programs."""
