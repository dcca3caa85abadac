"""What strangers, customers and hijacked workers try, one test each."""
