"""The demo: processes take turns on one lock. One holder is stopped, one is killed, and the others go on."""
