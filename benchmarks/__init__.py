"""Benchmarks: Fencelock and its rivals, interleaved in one run.

A *scenario* (one function in `scenarios/`) measures some *contestants* in rounds, in another random
order in each, and yields tables. A contestant is made from an *adapter* (one small class in
`adapters/`): a lock reduced to acquire and release. To add one, write that and name it in a scenario.
`pairs.py` and `hand_offs.py` are what most scenarios do; `report/` makes something to look at of it.
"""
