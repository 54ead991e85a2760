"""What a run found out: Markdown and charts for people, JSON for programs."""
