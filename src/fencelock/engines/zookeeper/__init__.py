"""Locks on ZooKeeper: an ephemeral sequential node for each ticket, which waits for the one ahead of it.

The files, from the contract down to the socket:

    engine.py          the operations of the contract; remembers an `Entry` for each of its tickets
    joining.py         enter: create a ticket, or find it again after a lost answer
    looking.py         enter again, renew, park: where does a ticket stand?
    leaving.py         leave, evict, and a ticket that joined only if free
    inspection.py      inspect and names, for people
    notes.py           remember and recall
    queues.py          what these share, and how expired tickets are taken out
    admission.py       the rule: which tickets of a listing hold, and what the others wait for
    entry.py           what this client knows of a ticket of its own
    watches.py         which tickets wait for which nodes, and until when those can't have expired
    nodes.py           what the nodes are called, and what they contain
    requests.py        the requests that are sent;  replies.py: how their replies are read
    urls.py            what the URL says
    transport.py       requests in, replies out, within a time limit
    batch.py           requests that are sent together
    connection.py      sends batches, in the caller's thread if possible
    kazoo_door.py      kazoo's connection, and all uses of its private names;  sockets.py: its sockets
"""
