"""The demo: real processes take turns on one lock, one is stopped, one is killed, and all goes on."""
