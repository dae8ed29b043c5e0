"""Whether batching changes anything on a user's own recipe and data: draws alone against draws in company."""
