"""Reading segments: scan them whole, look up single records, read ahead."""
