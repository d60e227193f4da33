"""What looks inside captures and graphs; all of it works on the learner's own code."""
