"""One module per page: each reads what the page shows and renders its parts."""
