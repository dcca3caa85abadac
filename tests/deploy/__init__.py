"""The product as others install it: the wheel, the image, the compose file, the unit of systemd."""
