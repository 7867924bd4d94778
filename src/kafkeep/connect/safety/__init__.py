"""What keeps secrets in and intruders out."""
