"""Every sentence for people. One TOML file per language; `catalogue` reads them."""
