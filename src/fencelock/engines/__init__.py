"""The engines: each keeps a leased, ordered queue of tickets per name. `contract` is the specification."""
