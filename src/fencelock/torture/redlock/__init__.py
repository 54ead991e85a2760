"""The fenced Redlock: its protocol in random schedules (`simulate`) and in all of them (`explore`).

- `simulate` runs `contender` clients in a `world`, and checks what they won.
- `explore` goes through all states within bounds.
- Both use `node`, the reference for the scripts of the Redlock engine.
"""
