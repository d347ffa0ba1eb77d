"""Real Jobs through a queue: from their creation to Complete, by the real job controller."""
