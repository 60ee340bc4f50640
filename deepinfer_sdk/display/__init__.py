"""What people see while work goes on; nothing else in the project prints."""
