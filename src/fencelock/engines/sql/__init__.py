"""What the engines on SQL databases share. `database.py` lists what each database adds."""
