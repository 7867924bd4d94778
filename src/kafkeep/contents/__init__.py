"""What the objects of an archive hold, as records again, whatever their format."""
