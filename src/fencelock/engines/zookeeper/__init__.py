"""Locks on ZooKeeper: an ephemeral sequential node for each ticket, which waits for the one ahead of it.

The files, from the contract down to the socket:

    engine.py          the operations of the contract; remembers an `Entry` for each of its tickets
    queueing.py        enter, renew, park: a ticket joins, is found again, learns where it stands
    leaving.py         leave, evict, and a ticket that joined only if free
    inspection.py      inspect and names, for people
    notes.py           remember and recall
    diagnosis.py       what the servers say about themselves, for the doctor
    queues.py          what these share: which tickets wait for which nodes, and which have expired
    admission.py       the rule: which tickets of a listing hold, and what the others wait for
    entry.py           what this client knows of a ticket of its own
    nodes.py           what the nodes are called, and what they contain
    requests.py        the requests that are sent
    urls.py            what the URL says
    transport.py       requests in, replies out, within a time limit
    batch.py           requests that are sent together, and how their replies are read
    kazoo_door.py      the connection, kazoo's with changes, and all uses of its private names
"""
