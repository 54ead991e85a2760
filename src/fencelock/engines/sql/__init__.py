"""What the engines on SQL databases have in common; a database's own folder brings the rest."""
