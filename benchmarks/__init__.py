"""Benchmarks: Fencelock and its rivals, interleaved in one run.

A *scenario* (one function in `scenarios/`) measures some *contestants* in rounds, each round in a new random
order, and yields tables. A contestant is made from an *adapter* (one small class in `adapters/`): a lock
reduced to acquire and release. To add a contestant, write an adapter and name it in a scenario.
Most scenarios use `pairs.py` and `hand_offs.py`. `report/` makes the report and the charts.
"""
