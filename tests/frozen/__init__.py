"""What may not change while the inside does: results of the public doors, and a database of an earlier commit."""
