"""Locks on etcd. Read the files in this order:

- `engine.py`: the operations of the contract. Each calls one of the next five files.
- `tickets.py`: enter, look and leave. `renewing.py`: renew. `parking.py`: park.
  `listing.py`: inspect, names, evict. `notes.py`: remember, recall.
- `entry.py`: what a client knows about one of its own tickets.
- `admission.py`: the rule that says which tickets a ticket must wait for, if it shares.
- `keys.py`, `values.py`: what is stored in etcd. `markers.py`: how a holder learns how the last
  one ended.
- `joining.py`, `looking.py`, `removing.py`: the transactions, and how their answers are read.
- `leases.py`, `expiry.py`: how long tickets live, by etcd's leases and by our own count.
- `watches.py`, `listener.py`: what waiting tickets are told, and the stream over which it comes.
- `cluster.py`: which server is asked. `node.py`: one server. `blocking.py` and `multiplexed.py` (asyncio):
  how we call it.
- `wire.py`: etcd's methods and the parts of transactions. `messages.proto`: etcd's messages.
- `errors.py`: what a failed call means. `urls.py`: login and TLS.
"""
