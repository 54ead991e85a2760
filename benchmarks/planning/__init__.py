"""How right the model of `fencelock plan` is: against real engines, and against a simulation."""
