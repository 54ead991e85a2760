"""The live page: who holds and who waits, in a browser, as it happens.

    engine ◄── poller ──► rows ──► stream ──► page/
                 ▲                   ▲
      what this replica saw ──► history, figures ◄── peers

- `routes`: what is served under which path. `wire`: the JSON of it.
- `rows`: the board of all names. `poller`: asks the engine, within its `budget`. `touched`: names that
  something has just happened to. `circles`: transactions that wait for one another.
- `stream`: the pages that are open, and what each is told.
- `history`: what this replica saw happen to names. `figures`: the last hour in numbers. `peers`: the same
  of the other replicas.
- `static`: serves the files in `page/`.
"""
