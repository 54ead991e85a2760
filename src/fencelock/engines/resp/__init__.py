"""What the engines on Redis servers have in common: the wire protocol, links to servers, and advice."""
