"""The ledger of claims: every stored claim with its number, its verdict and its command."""
