"""What was recorded or edited -> pictures and numbers a person understands."""
