"""The lock service: the engine contract over HTTP and WebSocket, with identity, limits and eyes.

    clients ──► replicas of this service ──► engine ──► storage that checks the fence

A replica keeps no state that matters. The client makes the ticket's id, renews, and repeats what got no
answer, at any replica. The files of this folder:

- `app`: the routes, the start and the end of a replica.
- `line`: one WebSocket line of a client of ours. `acts`: what it may ask for, carried out at the engine.
- `rest`: the face for curl and other languages. `forms`: what it takes and answers. `operations`: from a
  request to a form. `waits`: its requests that wait. `openapi`: the document that describes it all.
- `answers`: JSON and problem+json over HTTP.
- `problems`: every way to fail, with its status code.
- `principals`: who asks, and what it may do.
- `watching`: health, readiness, metrics, events. `counters`: the metrics. `events`: the stream of events.
  `sightings`: what a replica sees of tickets. `health`: the answer of `/v1/health`.
- `serving`: the start, the signals and the end of a replica. `settings`: one table of settings.
- `connections`: accepts connections within the limits, cuts slow clients; TLS. `addresses`: where it listens.
- `app`: the routes, and what all requests have in common.
- `line`: one WebSocket line of a client of ours. `acts`: what a client may ask for, at the engine;
  limits and the audit log are applied there, whatever way an act came.
- `principals`: who asks, and what it may do. `tokens`: the file with tokens and rights. `identity`: from a
  request to its principal.
- `limits`, `ledger`, `audit`: what is too much, what this replica knows, and what it writes down.
- `problems`: every way to fail, with its status code.
"""
