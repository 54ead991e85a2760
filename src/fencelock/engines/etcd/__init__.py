"""Locks on etcd. A map of the files, from the contract down to the wire:

- `engine.py`: the operations of the contract. Most call a function of one of the next files.
  `park` is here, and what a URL may say.
- `entering.py`, `renewing.py`, `leaving.py`: what happens to a ticket, in this order.
  `listing.py`: inspect, names, evict. `notes.py`: remember, recall.
- `tickets.py`: all tickets of a client, and when those of others expire. `entry.py`: what a client knows
  about one of its own.
- `looking.py`: transactions that say where a ticket stands. `admission.py`: the rule for tickets that share.
- `markers.py`: how a new holder learns whether the last one released.
- `keys.py`, `values.py`: what is stored in etcd.
- `leases.py`: the leases on which tickets live.
- `watches.py`, `listener.py`: what waiting tickets are told, and the stream over which it comes.
- `cluster.py`: which server is asked. `node.py`: one server. `blocking.py`, `multiplexed.py`: its calls
  for threads and for asyncio.
- `wire.py`: etcd's methods, and the parts of transactions. `messages.proto`: etcd's messages.
- `errors.py`: what a failed call means. `diagnosis.py`: what the members say about themselves.
"""
