"""The fenced Redlock: its protocol in random schedules (`simulate`) and in all of them (`explore`)."""
