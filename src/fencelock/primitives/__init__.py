"""What users hold in their hands: locks and leases, and the keeper that renews them."""
