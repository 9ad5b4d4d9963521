"""What stands in the files, as bytes: encode, decode, describe. No I/O."""
