"""The fleet as the pages show it: snapshot, history, availability, what needs attention."""
