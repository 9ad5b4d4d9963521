"""What fan-out children share and what each one has of its own."""
