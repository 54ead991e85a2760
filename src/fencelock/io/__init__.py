"""How coroutines run: blocking, on asyncio, or in a simulated world. The logic above can't tell."""
