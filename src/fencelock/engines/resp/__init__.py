"""What the engines on Redis servers share.

- `packing`: commands as bytes. `wire`: the greeting, and how replies are read. `script`: Lua scripts.
- `link`: a connection (`Link`) and the connections to one server (`Node`). `blocking` and `multiplexed` are
  the two kinds: a socket per thread, or one connection for all tasks; the latter awaits a `reply`.
- `advice`: what an error means and what to do about it. `facts`: what a server says about itself.
"""
